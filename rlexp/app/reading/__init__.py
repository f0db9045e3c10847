"""Reads experiments and runs from disk: summaries, the catalogue, and their integrity."""
