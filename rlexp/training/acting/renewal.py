"""Fresh parameters for the networks of a learner: drawn as at its beginning, copied or mixed in."""

from copy import deepcopy
from inspect import signature

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from torch import nn
from torch.optim import Optimizer

TARGET = "_target"
"""End of the names of target networks."""
HEADS = ("action_net", "value_net", "mu", "log_std", "q_net", "quantile_net")
"""Parts that are single layers in some policies, and the last layers of them."""


def renew(model: BaseAlgorithm, seed: int, *, keep: float, last_only: bool = False) -> None:
    """Mix fresh parameters into the networks of a learner: keep × old + (1 - keep) × fresh.

    The state of the optimisers is cleared, and target networks become copies where nothing is kept.

    Args:
        model: The learner, between two rollouts.
        seed: The seed from which fresh parameters are drawn, 0 … 2**63 - 1.
        keep: The share of the old parameters, in [0, 1).
        last_only: Whether only the last layer of each network is renewed.
    """
    fresh = _fresh_policy(model, seed)
    chosen = _last_layers(model.policy) if last_only else None
    policy = model.policy
    with torch.no_grad():
        for (name, old), (_, new) in zip(
            policy.named_parameters(), fresh.named_parameters(), strict=True
        ):
            if chosen is not None and name not in chosen:
                continue
            if keep > 0:
                old.mul_(keep).add_(new.to(old.device), alpha=1 - keep)
            elif TARGET not in name:
                old.copy_(new)
        if keep == 0 and chosen is None:
            # Running statistics of fresh layers are fresh as well: those of others would not fit them.
            buffers = dict(fresh.named_buffers())
            for name, statistic in policy.named_buffers():
                statistic.copy_(buffers[name])
    if keep == 0:
        _copy_targets(policy)
    for optimiser in _optimisers(policy):
        optimiser.state.clear()


def _fresh_policy(model: BaseAlgorithm, seed: int) -> BasePolicy:
    """A policy as the learner made its own at first; the global generator stays as it is."""
    # A copy, because some policies change it.
    arguments = deepcopy(model.policy_kwargs)
    # The library passes it beside the others to some policies, and others do not know it.
    if "use_sde" in signature(model.policy_class.__init__).parameters:
        arguments.setdefault("use_sde", model.use_sde)
    # Not by the policy's own list of arguments, which lacks those of a memory.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        spaces = model.observation_space, model.action_space
        fresh: BasePolicy = model.policy_class(*spaces, model.lr_schedule, **arguments)
    return fresh.to(model.device)


def _last_layers(policy: BasePolicy) -> set[str]:
    """The names of the parameters of the last layers."""
    names: set[str] = set()
    for path, module in policy.named_modules():
        if TARGET in path:
            continue
        for child, layer in module.named_children():
            whole = f"{path}.{child}".lstrip(".")
            if isinstance(layer, nn.Linear) and child in HEADS:
                names |= {f"{whole}.{name}" for name, _ in layer.named_parameters()}
            elif isinstance(layer, nn.Sequential):
                names |= _end_of(whole, layer, squashes=child == "mu")
    names |= {name for name, _ in policy.named_parameters() if name == "log_std"}
    return names


def _end_of(path: str, layers: nn.Sequential, *, squashes: bool) -> set[str]:
    """The parameters of a chain's last layer, if no neurons come after it."""
    modules = list(layers.named_children())
    if squashes:
        modules = modules[:-1] if not isinstance(modules[-1][1], nn.Linear) else modules
    if not modules or not isinstance(modules[-1][1], nn.Linear):
        return set()
    position, last = modules[-1]
    return {f"{path}.{position}.{name}" for name, _ in last.named_parameters()}


def _copy_targets(policy: BasePolicy) -> None:
    """Make each target network a copy of its network."""
    for name, module in policy.named_children():
        if name.endswith(TARGET) and (source := getattr(policy, name.removesuffix(TARGET), None)):
            module.load_state_dict(source.state_dict())


def _optimisers(policy: BasePolicy) -> list[Optimizer]:
    parts = (policy, *policy.children())
    optimizers = (getattr(part, "optimizer", None) for part in parts)
    return [each for each in optimizers if isinstance(each, Optimizer)]
