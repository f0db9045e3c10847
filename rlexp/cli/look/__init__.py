"""Commands that show what is recorded: ls, show, status, view, logs, plot, diff."""
