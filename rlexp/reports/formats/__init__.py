"""The report as files for other programs: JSON, CSV, Markdown and LaTeX."""
