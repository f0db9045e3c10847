"""Reports: from the records of experiments to files."""
