"""Chained registers: what was done, in an order that nobody can change unseen."""
