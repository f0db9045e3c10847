"""Chains of layers as plain functions of tensors, without the calls of modules around them."""

from collections.abc import Callable, Iterator

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import Tensor, nn
from torch.nn.functional import linear

Chain = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[type[nn.Module], Chain] = {nn.Tanh: torch.tanh, nn.ReLU: torch.relu}
"""The functions that activation modules call."""


def chain_of(*modules: nn.Module) -> Chain | None:
    """Return the modules, one after the other, as one function; None where one is unknown.

    The function reads weights in place, so it follows every update of the optimiser.
    """
    steps: list[tuple[Tensor | None, Tensor | None, Chain | None]] = []
    for module in _flat(modules):
        if type(module) is nn.Linear and not _has_hooks(module):
            steps.append((module.weight, module.bias, None))
        elif type(module) in ACTIVATIONS and not _has_hooks(module):
            if getattr(module, "inplace", False):
                return None
            steps.append((None, None, ACTIVATIONS[type(module)]))
        else:
            return None

    def run(values: Tensor) -> Tensor:
        for weight, bias, activation in steps:
            if weight is None:
                assert activation is not None
                values = activation(values)
            else:
                values = linear(values, weight, bias)
        return values

    return run


def _flat(modules: tuple[nn.Module, ...]) -> Iterator[nn.Module]:
    for module in modules:
        if type(module) is nn.Sequential and not _has_hooks(module):
            yield from _flat(tuple(module))
        else:
            yield module


def _has_hooks(module: nn.Module) -> bool:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks)


def reads_plain_vectors(model: BaseModel) -> bool:
    """Whether a network reads observations as flat vectors of numbers, without images."""
    space = model.observation_space
    return (
        isinstance(space, spaces.Box)
        and not is_image_space(space)
        and all(type(e) is FlattenExtractor for e in _extractors(model))
    )


def _extractors(model: BaseModel) -> Iterator[nn.Module]:
    for name in ("features_extractor", "pi_features_extractor", "vf_features_extractor"):
        extractor = getattr(model, name, None)
        if extractor is not None:
            yield extractor


def as_input(observations: Tensor) -> Tensor:
    """Return observations (batch × shape) as the flattening extractor returns them."""
    if observations.dtype is torch.float32 and observations.dim() == 2:
        # The conversion and the flattening would return the same tensor.
        return observations
    return observations.float().flatten(1)
