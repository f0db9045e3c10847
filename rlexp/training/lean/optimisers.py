"""Steps of Adam and RMSprop for all parameters at once, with the operations of each parameter.

On the CPU, torch takes the parameters one by one in Python. Its `_foreach` functions call the same
kernels on the same tensors, and only the loop over the parameters is in C++. Fusing the operations
would be faster still, and would change the weights.
"""

# ruff: noqa: SLF001 (the functions on lists of tensors have private names, and torch documents them)
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer, RMSprop

Step = Callable[[], None]


@dataclass(slots=True)
class AllAtOnce:
    """The step of an optimiser with one group of parameters."""

    optimiser: Optimizer
    update: Callable[[dict[str, Any], list[Tensor], list[dict[str, Tensor]]], None]

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Update all parameters; the library's own step makes the state and the first update."""
        optimiser = self.optimiser
        (group,) = optimiser.param_groups
        parameters = group["params"]
        states = [optimiser.state.get(parameter, {}) for parameter in parameters]
        fresh = any(not state for state in states)
        if fresh or closure is not None or any(p.grad is None for p in parameters):
            type(optimiser).step(optimiser, closure)
            return
        with torch.no_grad():
            self.update(group, parameters, states)


def _adam(
    group: dict[str, Any], parameters: list[Tensor], states: list[dict[str, Tensor]]
) -> None:
    """Update as `torch.optim.adam._single_tensor_adam` does."""
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    first = [state["exp_avg"] for state in states]
    second = [state["exp_avg_sq"] for state in states]
    steps = [state["step"] for state in states]
    beta1, beta2 = group["betas"]
    torch._foreach_add_(steps, 1)
    torch._foreach_lerp_(first, gradients, 1 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, value=1 - beta2)
    # All parameters have received a gradient at each step, so they count the same steps.
    step = steps[0].item()
    step_size = group["lr"] / (1 - beta1**step)
    scale = (1 - beta2**step) ** 0.5
    denominators = torch._foreach_sqrt(second)
    torch._foreach_div_(denominators, scale)
    torch._foreach_add_(denominators, group["eps"])
    torch._foreach_addcdiv_(parameters, first, denominators, value=-step_size)


def _rmsprop(
    group: dict[str, Any], parameters: list[Tensor], states: list[dict[str, Tensor]]
) -> None:
    """Update as `torch.optim.rmsprop._single_tensor_rmsprop` does."""
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    squares = [state["square_avg"] for state in states]
    torch._foreach_add_([state["step"] for state in states], 1)
    torch._foreach_mul_(squares, group["alpha"])
    torch._foreach_addcmul_(squares, gradients, gradients, value=1 - group["alpha"])
    scales = torch._foreach_sqrt(squares)
    torch._foreach_add_(scales, group["eps"])
    torch._foreach_addcdiv_(parameters, gradients, scales, value=-group["lr"])


_KNOWN = {
    Adam: (
        "weight_decay",
        "amsgrad",
        "maximize",
        "capturable",
        "differentiable",
        "fused",
        "foreach",
    ),
    RMSprop: (
        "weight_decay",
        "momentum",
        "centered",
        "maximize",
        "capturable",
        "differentiable",
        "foreach",
    ),
}
"""Settings that must be off: with them, the library computes something else."""


def all_at_once(optimiser: Optimizer) -> AllAtOnce | None:
    """Return the lean step of an optimiser; None where its class or a setting is unknown."""
    settings = _KNOWN.get(type(optimiser))
    if settings is None or len(optimiser.param_groups) != 1:
        return None
    (group,) = optimiser.param_groups
    if any(group.get(name) for name in settings) or group.get("decoupled_weight_decay"):
        return None
    if any(p.dtype is not torch.float32 or p.device.type != "cpu" for p in group["params"]):
        return None
    # Adam's correction depends on the steps of a parameter. After a change of the network, parameters
    # with another shape begin to count anew.
    steps = [int(optimiser.state.get(p, {}).get("step", 0)) for p in group["params"]]
    if len(set(steps)) > 1:
        return None
    return AllAtOnce(optimiser, _adam if type(optimiser) is Adam else _rmsprop)
