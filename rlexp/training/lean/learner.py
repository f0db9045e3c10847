"""The shortcuts of a learner, in place while it trains and plays, and gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import nn
from torch.optim import Optimizer

from rlexp.training.lean.actor_critic import actor_critic_of
from rlexp.training.lean.layers import ACTIVATIONS
from rlexp.training.lean.optimisers import all_at_once
from rlexp.training.lean.ppo_update import ppo_update_of
from rlexp.training.lean.predictions import prediction_of
from rlexp.training.lean.registry import MODE, OPTIMISER, POLICY, PPO_UPDATE, PREDICTION
from rlexp.training.lean.squashed_actor import squashed_actor_of

Patch = tuple[Any, str, Any]
"""An object, the name of its method, and the function that takes the place of the method."""


@contextmanager
def shortcuts_of(model: BaseAlgorithm, usable: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Give a learner the usable shortcuts that fit it; yields their names.

    Only this object is changed, in attributes of its own that hide the methods of its classes.
    """
    patches = {name: _patches(name, model) for name in sorted(usable)}
    for owner, method, function in (p for each in patches.values() for p in each):
        # Not `setattr`: modules of torch handle attributes themselves.
        owner.__dict__[method] = function
    try:
        yield tuple(name for name, each in patches.items() if each)
    finally:
        for owner, method, _ in (p for each in patches.values() for p in each):
            owner.__dict__.pop(method, None)


def _patches(name: str, model: BaseAlgorithm) -> list[Patch]:
    if model.device.type != "cpu":
        return []
    find = {
        POLICY: _policy_patches,
        PREDICTION: _prediction_patches,
        MODE: _mode_patches,
        OPTIMISER: _optimiser_patches,
        PPO_UPDATE: _ppo_update_patches,
    }.get(name)
    return [] if find is None else find(model)


def _policy_patches(model: BaseAlgorithm) -> list[Patch]:
    policy = model.policy
    if type(model) in {PPO, A2C} and (networks := actor_critic_of(policy)) is not None:
        return [
            (policy, "forward", networks.forward),
            (policy, "evaluate_actions", networks.evaluate_actions),
            (policy, "predict_values", networks.predict_values),
        ]
    if type(model) is SAC and (actor := squashed_actor_of(policy.actor)) is not None:
        return [
            (policy.actor, "forward", actor.forward),
            (policy.actor, "action_log_prob", actor.action_log_prob),
        ]
    return []


def _prediction_patches(model: BaseAlgorithm) -> list[Patch]:
    prediction = prediction_of(model.policy)
    return [] if prediction is None else [(model.policy, "predict", prediction.predict)]


def _mode_patches(model: BaseAlgorithm) -> list[Patch]:
    policy = model.policy
    if not all(_is_indifferent(module) for module in policy.modules()):
        return []

    def set_training_mode(mode: bool) -> None:
        """Note the mode on the policy only: none of its modules depends on it."""
        policy.training = mode

    return [(policy, "set_training_mode", set_training_mode)]


def _is_indifferent(module: nn.Module) -> bool:
    """Whether a module computes the same in training and in evaluation mode."""
    supported = {nn.Linear, nn.Flatten, nn.Sequential, nn.ModuleList, *ACTIVATIONS}
    library = type(module).__module__.partition(".")[0] == "stable_baselines3"
    return type(module) in supported or library


def _optimiser_patches(model: BaseAlgorithm) -> list[Patch]:
    steps = ((each, all_at_once(each)) for each in _optimisers(model))
    return [(each, "step", step.step) for each, step in steps if step is not None]


def _ppo_update_patches(model: BaseAlgorithm) -> list[Patch]:
    update = ppo_update_of(model)
    if update is None:
        return []
    # The library saves every attribute of a learner that it does not know as excluded.
    excluded = [*model._excluded_save_params(), "train", "_excluded_save_params"]  # noqa: SLF001
    return [(model, "train", update.train), (model, "_excluded_save_params", lambda: excluded)]


def _optimisers(model: BaseAlgorithm) -> Iterator[Optimizer]:
    parts = (model.policy, *model.policy.children(), model)
    for part in parts:
        for name in ("optimizer", "ent_coef_optimizer"):
            each = getattr(part, name, None)
            if isinstance(each, Optimizer):
                yield each
