"""Twins of Gymnasium's classic control tasks in JAX, with 32-bit floats.

Each follows the equations of the class of Gymnasium that it names, operation by operation.
`tests/compiled/test_twins.py` compares a step from thousands of states.

One file holds all of one twin, and imports nothing of rlexp: its digest is part of the identity of the
runs of its task, and of no other.
"""
