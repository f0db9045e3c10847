"""Feeds the trackers from the journals of runs, in a process beside the command."""
