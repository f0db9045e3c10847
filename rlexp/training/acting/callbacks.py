"""Callbacks that act while a run trains: how they are called, what they see, and what is kept of them.

The protocol of their plug-ins is `Callback`. A callback is one of stable-baselines3 (`BaseCallback`), with an
attribute `run` of class `RunView` from the start of training on.
"""

import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from rlexp.errors import ConfigError
from rlexp.training.acting.hyperparameters import Hyperparameters
from rlexp.training.learner_state import pack

TENSOR = "__tensor__"
"""Key that marks a tensor in the state of a callback."""
SAVE, LOAD = "state_dict", "load_state_dict"
"""Methods of a callback whose state is part of checkpoints; the names are those of torch."""
ACTED = "acted"
"""Attribute of a callback: how often it has changed the training."""


class Callback(Protocol):
    """A plug-in that acts while a run trains: a frozen dataclass that makes a callback.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path. Optional class variables are `fits_shortcuts` and
    `depends_on_length`; both default to the careful value.
    """

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        ...


def fits_shortcuts(callback: Callback) -> bool:
    """Whether the shortcuts of a learner compute the same with a callback.

    A callback of a user may hook modules or replace methods, which shortcuts do not call.
    """
    return bool(getattr(callback, "fits_shortcuts", False))


class RunView:
    """What a callback sees of its run besides the learner: the budget that is left, and chance.

    Attributes:
        steps: Environment steps of the whole budget.
        hyperparameters: Changes hyperparameters, with values that are part of checkpoints.
    """

    def __init__(
        self, model: BaseAlgorithm, steps: int, hyperparameters: Hyperparameters, seed: list[int]
    ) -> None:
        self._model = model
        self._seed = seed
        self.steps = steps
        self.hyperparameters = hyperparameters

    @property
    def remaining(self) -> int:
        """Environment steps that are left of the budget."""
        return max(self.steps - self._model.num_timesteps, 0)

    @property
    def progress(self) -> float:
        """Share of the budget that is used, 0 at the start and 1 at the end."""
        return min(self._model.num_timesteps / self.steps, 1.0)

    def generator(self) -> np.random.Generator:
        """A generator of random numbers for this callback at this step.

        The same step of the same run always gives the same numbers, so that nothing is kept of it.
        """
        return np.random.default_rng([*self._seed, self._model.num_timesteps])


class CallbackFault(ConfigError):  # noqa: N818
    """A callback raised an error, which ends its run."""


class ActingCallbacks(BaseCallback):
    """Calls the callbacks of a run in their order, with names in the errors that they raise."""

    def __init__(self, callbacks: Mapping[str, Callback], steps: int, seed: int) -> None:
        """Make the callbacks of a run.

        Args:
            callbacks: The plug-ins by name, in the order of their calls.
            steps: Environment steps of the budget.
            seed: The key of the random numbers of callbacks.
        """
        super().__init__()
        self._steps, self._seed = steps, seed
        self._plug_ins = callbacks
        self._parts: dict[str, BaseCallback] = {}
        self._hyperparameters: Hyperparameters | None = None
        self.stopped_by: str | None = None
        """The name of the callback that ended the training."""

    def __bool__(self) -> bool:
        """Whether there are any callbacks."""
        return bool(self._plug_ins)

    def _init_callback(self) -> None:
        self._hyperparameters = Hyperparameters(self.model)
        for number, (name, plug_in) in enumerate(self._plug_ins.items()):
            part = self._guarded(name, plug_in.begin)
            if hasattr(part, "run"):
                raise CallbackFault(
                    f"callback {name}: {type(part).__name__} has an attribute 'run', which rlexp sets: "
                    "give yours another name"
                )
            part.run = RunView(
                self.model, self._steps, self._hyperparameters, [self._seed, number]
            )
            self._parts[name] = part
            self._guarded(name, partial(part.init_callback, self.model))

    def _guarded(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a method of a callback; its errors become one line with its name."""
        try:
            return call()
        except CallbackFault:
            raise
        except Exception as error:
            raise CallbackFault(
                f"callback {name}: {_in_one_line(error)}{_origin(error)}"
            ) from error

    def _on_training_start(self) -> None:
        for name, part in self._parts.items():
            self._guarded(name, partial(part.on_training_start, self.locals, self.globals))

    def _on_rollout_start(self) -> None:
        if not self._parts:
            return
        assert self._hyperparameters is not None
        # The library has read the length of this rollout just before.
        self._hyperparameters.fit_buffer()
        for name, part in self._parts.items():
            self._guarded(name, part.on_rollout_start)
        self._hyperparameters.apply()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Pass the local variables of the library's loop on."""
        super().update_locals(locals_)
        for part in self._parts.values():
            part.update_locals(locals_)

    def _on_step(self) -> bool:
        for name, part in self._parts.items():
            # All are called, as the library does, also where one has ended the training.
            if self._guarded(name, part.on_step) is False and self.stopped_by is None:
                self.stopped_by = name
        return self.stopped_by is None

    def _on_rollout_end(self) -> None:
        for name, part in self._parts.items():
            self._guarded(name, part.on_rollout_end)

    def _on_training_end(self) -> None:
        for name, part in self._parts.items():
            self._guarded(name, part.on_training_end)

    def acted(self) -> dict[str, int]:
        """How often each callback that counts it has changed the training, by name."""
        counts = {name: getattr(part, ACTED, None) for name, part in self._parts.items()}
        return {name: int(count) for name, count in counts.items() if isinstance(count, int)}

    @property
    def obstacle(self) -> str | None:
        """Why the state of the callbacks cannot be saved, or None."""
        for name, part in self._parts.items():
            if not (hasattr(part, SAVE) and hasattr(part, LOAD)):
                return (
                    f"callback {name}: {type(part).__name__} has no {SAVE}() and {LOAD}(), so that "
                    "what it keeps cannot be saved"
                )
            try:
                pack(_without_tensors(self._guarded(name, part.state_dict)))  # type: ignore[attr-defined]
            except TypeError as error:
                return f"callback {name}: {SAVE}() returns what cannot be saved: {error}"
            except CallbackFault as error:
                return f"{SAVE}() failed: {error}"
        return None

    def state(self) -> dict[str, Any]:
        """The state of all callbacks for a checkpoint; `obstacle` must be None."""
        if not self._parts:
            return {}
        assert self._hyperparameters is not None
        parts = {
            # A copy, because a callback may return what it goes on changing.
            name: _without_tensors(part.state_dict())  # type: ignore[attr-defined]
            for name, part in self._parts.items()
        }
        calls = {name: part.n_calls for name, part in self._parts.items()}
        return {
            "parts": parts,
            "calls": calls,
            "hyperparameters": self._hyperparameters.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give the state of a checkpoint to the callbacks, after their start of training."""
        if not self._parts:
            return
        assert self._hyperparameters is not None
        for name, part in self._parts.items():
            part.n_calls = state["calls"][name]
            saved = _with_tensors(state["parts"][name])
            self._guarded(name, partial(part.load_state_dict, saved))  # type: ignore[attr-defined]
        self._hyperparameters.restore(state["hyperparameters"])


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _origin(error: Exception) -> str:
    """The file and line where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _without_tensors(tree: Any) -> Any:
    """A copy of a tree in which tensors are marked arrays."""
    match tree:
        case torch.Tensor():
            return {TENSOR: tree.detach().cpu().numpy().copy()}
        case np.ndarray():
            return tree.copy()
        case dict():
            return {key: _without_tensors(value) for key, value in tree.items()}
        case list() | tuple():
            return [_without_tensors(value) for value in tree]
    return tree


def _with_tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        if TENSOR in tree:
            return torch.from_numpy(tree[TENSOR].copy())
        return {key: _with_tensors(value) for key, value in tree.items()}
    return [_with_tensors(value) for value in tree] if isinstance(tree, list) else tree
