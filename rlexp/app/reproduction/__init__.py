"""Executes recorded runs again from their recorded code, and compares the results."""
