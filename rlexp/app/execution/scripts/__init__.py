"""Runs of training scripts: their checks, their virtual environments, and their execution."""
