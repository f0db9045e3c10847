"""The parameters of a learner: whether they are numbers, and which."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm


def tensors(model: BaseAlgorithm) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter and buffer of the policy, and what else the learner adapts, by name."""
    yield from sorted(model.policy.state_dict().items())
    for name in sorted(model._get_torch_save_params()[1]):  # noqa: SLF001
        value: Any = model
        for part in name.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            yield name, value


def all_finite(model: BaseAlgorithm) -> bool:
    """Whether no parameter is NaN or infinite."""
    sums = [tensor.sum() for _, tensor in tensors(model) if tensor.is_floating_point()]
    return not sums or bool(torch.isfinite(torch.stack(sums)).all())


def lost_loss(values: Mapping[str, Any]) -> str | None:
    """The name of a logged loss that is NaN or infinite, or nothing."""
    for name, value in values.items():
        if "loss" in name and isinstance(value, float) and value - value != 0:
            return name
    return None


def weights_digest(model: BaseAlgorithm) -> str:
    """The sha256 of all parameters, names and shapes included."""
    total = sha256()
    for name, tensor in tensors(model):
        array = tensor.detach().cpu().contiguous().numpy()
        total.update(f"{name}:{array.dtype}:{array.shape}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()
