"""Checks of the installation, the machine and environments: what `rlexp doctor` runs."""
