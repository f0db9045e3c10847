"""Readers for the results of other tools. They execute no code and write no file."""
