"""Events of runs, and the records computed from them; this package does no I/O."""
