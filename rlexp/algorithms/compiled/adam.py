"""Adam in JAX, as torch computes it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.policy import Parameters

FIRST_DECAY, SECOND_DECAY = 0.9, 0.999
"""Decays of the moments, the defaults of torch."""


class AdamState(NamedTuple):
    """Parameters, and the moments and the number of steps of Adam."""

    parameters: Parameters
    first: Parameters
    second: Parameters
    steps: jax.Array


def cut_norm(slopes: Parameters, most: jax.Array) -> Parameters:
    """Gradients whose common norm is at most `most`, as `clip_grad_norm_` of torch cuts them."""
    norm = jnp.sqrt(sum(jnp.square(x).sum() for x in jax.tree.leaves(slopes)))
    cut = jnp.minimum(1.0, most / (norm + 1e-6))
    return {name: slope * cut for name, slope in slopes.items()}


def adam(state: AdamState, slopes: Parameters, rate: jax.Array, epsilon: float) -> AdamState:
    """One step of Adam.

    Args:
        state: The state before the step.
        slopes: Gradients by the name of the parameter.
        rate: The learning rate.
        epsilon: Added to the root of the second moment.
    """
    steps = state.steps + 1
    first = {n: FIRST_DECAY * state.first[n] + (1 - FIRST_DECAY) * g for n, g in slopes.items()}
    second = {
        n: SECOND_DECAY * state.second[n] + (1 - SECOND_DECAY) * g * g for n, g in slopes.items()
    }
    scale = rate / (1 - FIRST_DECAY**steps)
    root = jnp.sqrt(1 - SECOND_DECAY**steps)
    parameters = {
        n: p - scale * first[n] / (jnp.sqrt(second[n]) / root + epsilon)
        for n, p in state.parameters.items()
    }
    return AdamState(parameters, first, second, steps)
