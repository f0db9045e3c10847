"""Commands that set up: demo, init, config, doctor."""
