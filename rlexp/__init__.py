"""Reinforcement-learning experiments you can trust."""
