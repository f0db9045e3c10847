"""Weights of a minibatch in the loss of a learner, and the learner's errors, without changing its code.

The gradient of a weighted mean of losses is that of the mean, where the gradient of each transition is
multiplied by its weight. A hook on the value network therefore multiplies gradients on their way back.
The library's `train` stays as it is, and what it logs as its loss is the mean without weights.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.replay.buffers.prioritised_drawing import PrioritisedDrawing

Errors = Callable[[torch.Tensor], None]
LOSS_FACTORS: dict[type[BaseAlgorithm], float] = {SAC: 1.0, TD3: 2.0, DDPG: 2.0}
"""Gradient of a critic's loss at its value, in units of error / minibatch: SAC halves the square."""


class _WeightedGradient(torch.autograd.Function):
    """The identity, whose gradient is reported and then multiplied by the weight of its row."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, weights: torch.Tensor, report: Errors) -> Any:
        ctx.save_for_backward(weights)
        ctx.report = report
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        (gradient,) = gradients
        ctx.report(gradient)
        return gradient * weights, None, None


def weight_errors(model: BaseAlgorithm, drawing: PrioritisedDrawing) -> None:
    """Let a learner weight its minibatches, and report its errors to the drawing.

    Args:
        model: A freshly built learner, whose replay buffer has this drawing.
        drawing: Receives the errors of each minibatch.

    Raises:
        TypeError: It is not known where a learner of this class computes its errors.
    """
    learner: Any = model
    if type(model) is DQN:
        learner.q_net_target.register_forward_hook(partial(_remember_values, model, drawing))
        learner.q_net.register_forward_hook(partial(_weight_values, drawing))
        return
    factor = LOSS_FACTORS.get(type(model))
    if factor is None:
        raise TypeError(f"it is not known where {type(model).__name__} computes its errors")
    learner.critic.register_forward_hook(partial(_weight_critics, drawing, factor))


def _remember_values(
    model: Any, drawing: PrioritisedDrawing, _: Any, given: Any, values: torch.Tensor
) -> None:
    """Compute the targets of the awaited minibatch from the values of its next observations."""
    batch = drawing.awaited
    if batch is None or given[0] is not batch.samples.next_observations:
        return
    samples = batch.samples
    following = values.max(dim=1).values.reshape(-1, 1)
    # Where the learner explores or is evaluated, no minibatch is awaited: this is its update.
    batch.targets = (samples.rewards + (1 - samples.dones) * model.gamma * following).detach()


def _weight_values(
    drawing: PrioritisedDrawing, _: Any, given: Any, values: torch.Tensor
) -> torch.Tensor | None:
    """Weight the values of actions of the awaited minibatch, and report its errors."""
    batch = drawing.awaited
    if batch is None or batch.targets is None or given[0] is not batch.samples.observations:
        return None
    chosen = torch.gather(values.detach(), 1, batch.samples.actions.long())
    errors = _as_numbers(batch.targets - chosen)
    weights = batch.weights
    drawing.learn(errors)
    weighted: torch.Tensor = _WeightedGradient.apply(values, weights, _ignore)  # type: ignore[no-untyped-call]
    return weighted


def _ignore(_: torch.Tensor) -> None:
    """Report nothing: the Huber loss of DQN cuts large errors out of its gradient."""


def _weight_critics(
    drawing: PrioritisedDrawing,
    factor: float,
    _: Any,
    given: Any,
    values: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor, ...] | None:
    """Weight the values of the critics for the awaited minibatch, whose gradients are their errors."""
    batch = drawing.awaited
    # The loss of the actor has other actions, and targets have other observations.
    if batch is None or not (
        given[0] is batch.samples.observations and given[1] is batch.samples.actions
    ):
        return None
    arrived: dict[int, np.ndarray[Any, Any]] = {}

    def report(number: int, gradient: torch.Tensor) -> None:
        arrived[number] = np.abs(_as_numbers(gradient)) * (len(gradient) / factor)
        if len(arrived) == len(values):
            # In the order of the critics: sums of numbers depend on their order.
            drawing.learn(np.mean([arrived[n] for n in range(len(values))], axis=0))

    return tuple(
        _WeightedGradient.apply(value, batch.weights, partial(report, number))  # type: ignore[no-untyped-call]
        for number, value in enumerate(values)
    )


def _as_numbers(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return tensor.detach().cpu().numpy().astype(np.float64).reshape(-1)
