"""Use cases that set up: demo, init, config, doctor."""
