"""Commands that train: run, sweep, extend, resume, cancel, worker."""
