"""Notebooks: results as HTML, and progress in the output of a cell."""
