"""Collects the evidence of a report from experiments, and writes the report's files."""
