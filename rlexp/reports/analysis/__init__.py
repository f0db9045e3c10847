"""Computes from the evidence what the sections of a report show."""
