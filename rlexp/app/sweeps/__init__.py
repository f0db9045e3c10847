"""Prepares a sweep, reads its state and its progress, and trains its trials again."""
