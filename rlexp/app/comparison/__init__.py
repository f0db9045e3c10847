"""Compares labels, and decides sequentially whether further seeds are needed."""
