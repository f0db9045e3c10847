"""Use cases that train: run, sweep, extend, resume, cancel, worker."""
