"""What sections return: tables, figures and notes, and the places of marks in a figure."""
