"""Use cases that exchange records and check them: import, export, reproduce, verify, load."""
