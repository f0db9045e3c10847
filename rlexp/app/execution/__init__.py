"""Prepares, plans and launches runs, and executes one run in its process."""
