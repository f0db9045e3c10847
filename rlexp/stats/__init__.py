"""Estimates from scores: pure functions of arrays and a passed generator."""
