"""Use cases that read what is recorded: ls, show, status, view, logs, plot, diff."""
