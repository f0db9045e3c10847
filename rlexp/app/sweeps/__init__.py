"""Prepares a sweep, follows its state, and trains its trials again."""
