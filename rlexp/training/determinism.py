"""Whether the learner computes with algorithms that give the same numbers each time."""

import torch


def require_deterministic_algorithms() -> None:
    """Let torch use deterministic algorithms only; one that has none raises a RuntimeError."""
    torch.use_deterministic_algorithms(mode=True)
