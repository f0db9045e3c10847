"""Chained registers: what was done, in an order that cannot be changed unseen."""
