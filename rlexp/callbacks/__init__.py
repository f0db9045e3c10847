"""Callbacks: plug-ins that act while a run trains.

A callback changes a hyperparameter or the networks, or measures the learner. Each plug-in is a frozen
dataclass that implements `rlexp.training.acting.callbacks.Callback`.
"""
