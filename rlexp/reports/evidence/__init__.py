"""The input of a report: runs and sweeps as they were read from disk."""
