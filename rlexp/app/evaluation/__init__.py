"""Plays the policies of finished runs in their environments again."""
