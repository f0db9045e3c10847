"""Examines environments, installations and machines, and whether runs are deterministic."""
