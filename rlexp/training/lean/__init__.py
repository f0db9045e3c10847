"""Shortcuts of a training: the same numbers as the library computes, in less time.

Each shortcut computes what stable-baselines3, torch or Gymnasium compute, with the same operations
on the same numbers in the same order, and leaves out what surrounds these operations.
`registry.py` lists all shortcuts, with the versions of the packages for which the tests have shown
equal weights, journals and scores. `proofs.py` decides which of them this machine may use.
"""
