"""Use cases: a file for each command, which takes typed arguments and returns its result."""
