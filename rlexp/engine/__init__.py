"""Closes the gap between what an experiment asks for and what its records hold."""
