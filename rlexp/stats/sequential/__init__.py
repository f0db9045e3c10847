"""Sequential comparisons: designs, interim analyses, and races between configurations."""
