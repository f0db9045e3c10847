"""Reliability of training and of final policies: dispersion and risk, with intervals."""
