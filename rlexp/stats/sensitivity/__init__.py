"""Sensitivity of scores to hyperparameters, and the importance of each hyperparameter."""
