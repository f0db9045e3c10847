"""Content of a report: tables, figures and notes, and the layout of points in figures."""
