"""Replay buffers of the library that draw a part of each minibatch from prior data."""

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from rlexp.errors import ConfigError
from rlexp.records.prior_transitions import AFTER, BEFORE, NEEDED, PriorTransitions

TOLERANCE = 1e-4
"""How far an observation may lie outside of its space, relative to its size: spaces hold 32 bits."""


class _WithPrior(ReplayBuffer):
    """What both buffers share; without prior data, all of a minibatch is experience."""

    def __init__(self, *arguments: Any, share: float, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.share = share
        self.prior: ReplayBuffer | None = None

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draw a minibatch: prior data after experience, each uniformly."""
        given = round(batch_size * self.share)
        if self.prior is None or given == 0:
            return super().sample(batch_size, env=env)
        drawn = [super().sample(batch_size - given, env=env), self.prior.sample(given, env=env)]
        parts = ((getattr(d, name) for d in drawn) for name in drawn[0]._fields)
        return type(drawn[0])(*(_joined(*both) for both in parts))

    def take(self, transitions: PriorTransitions) -> None:
        """Take prior data.

        Raises:
            ConfigError: The transitions are of other spaces.
        """
        self.prior = filled_buffer(self, transitions)

    def changing_state(self) -> dict[str, Any]:
        """Nothing: prior data never changes, and is read again from where it is stored."""
        return {}

    def restore_changing_state(self, state: dict[str, Any]) -> None:
        """Restore nothing."""


class PriorBuffer(_WithPrior):
    """A replay buffer of flat observations or images."""

    changing: ClassVar[frozenset[str]] = frozenset({"prior"})


class PriorDictBuffer(_WithPrior, DictReplayBuffer):
    """A replay buffer of observations that are dictionaries."""

    changing: ClassVar[frozenset[str]] = frozenset({"prior"})


def filled_buffer(alike: ReplayBuffer, transitions: PriorTransitions) -> ReplayBuffer:
    """A uniform replay buffer of the library that is full of transitions.

    Args:
        alike: A buffer with the spaces and the device that the new one gets.
        transitions: Its content.

    Raises:
        ConfigError: The transitions are of other spaces.
    """
    check_spaces(alike, transitions)
    kind: Any = DictReplayBuffer if isinstance(alike, DictReplayBuffer) else ReplayBuffer
    # One environment: a transition stands alone.
    filled: ReplayBuffer = kind(
        transitions.count,
        alike.observation_space,
        alike.action_space,
        device=alike.device,
        n_envs=1,
        handle_timeout_termination=alike.handle_timeout_termination,
    )
    for name, array in rows_of(filled, transitions).items():
        array[:, 0] = transitions.arrays[name]
    filled.pos, filled.full = 0, True
    return filled


def rows_of(buffer: ReplayBuffer, transitions: PriorTransitions) -> dict[str, Any]:
    """The arrays of a buffer that hold the arrays of transitions, by name."""
    arrays = {name: getattr(buffer, name) for name in NEEDED}
    for part in (BEFORE, AFTER):
        for end in transitions.entries:
            array = getattr(buffer, part)
            arrays[f"{part}{end}"] = array[end.removeprefix("/")] if end else array
    return arrays


def check_spaces(buffer: ReplayBuffer, transitions: PriorTransitions) -> None:
    """Refuse transitions of other spaces than those of a buffer.

    Raises:
        ConfigError: Names the array, and both forms.
    """
    here = _entries(buffer)
    there = {end.removeprefix("/") for end in transitions.entries}
    if {*here} != there:
        raise ConfigError(
            f"its observations have the entries {_listed(there)}, and those here have {_listed(here)}"
        )
    for name, array in rows_of(buffer, transitions).items():
        given = transitions.arrays[name]
        if given.dtype != array.dtype or given.shape[1:] != array.shape[2:]:
            raise ConfigError(
                f"its {name} have the form {_form(given.dtype, given.shape[1:])}, and those here "
                f"{_form(array.dtype, array.shape[2:])}"
            )
    actions, space = transitions.arrays["actions"], buffer.action_space
    if isinstance(space, Discrete) and actions.size and actions.max() >= space.start + space.n:
        raise ConfigError(f"it has action {actions.max()}, and there are {space.n} actions here")
    for key, entry in here.items():
        name = f"{BEFORE}/{key}" if key else BEFORE
        if isinstance(entry, Box) and not _inside(transitions.arrays[name], entry):
            raise ConfigError(f"its {name} lie outside of the observation space here")


def _entries(buffer: ReplayBuffer) -> dict[str, Any]:
    """The observation spaces of a buffer by key; a space that is no dictionary has an empty key."""
    inside = getattr(buffer.observation_space, "spaces", None)
    return dict(inside) if isinstance(inside, dict) else {"": buffer.observation_space}


def _inside(observations: np.ndarray[Any, Any], space: Box) -> bool:
    if observations.dtype == np.uint8:
        return True
    room = TOLERANCE * np.maximum(np.abs(observations), 1.0)
    low, high = (
        np.asarray(bound).reshape(observations.shape[1:]) for bound in (space.low, space.high)
    )
    return bool(np.all((observations >= low - room) & (observations <= high + room)))


def _joined(first: Any, second: Any) -> Any:
    """Two parts of a minibatch behind each other; None where the library has no such part."""
    if isinstance(first, dict):
        return {key: torch.cat((first[key], second[key])) for key in first}
    return None if first is None else torch.cat((first, second))


def _listed(keys: Any) -> str:
    return ", ".join(repr(key) for key in sorted(keys) if key) or "none"


def _form(dtype: Any, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"
