"""Off-policy learners of tests, with transitions of some rollouts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from trainings import spec_of

from rlexp.app.execution.run_process import assemble


def learner_of(*words: str, folder: Path) -> Any:
    """A fresh learner, ready to learn."""
    learner = assemble(spec_of(*words)).build(folder)
    learner.set_logger(configure(str(folder), []))
    learner._current_progress_remaining = 1.0
    return learner


def collected(learner: Any, rollouts: int = 40) -> tuple[Any, Any]:
    """The program and its state after some rollouts without learning."""
    starts, learner.learning_starts = learner.learning_starts, 1 << 20
    program = learner._program()
    state, _ = learner._advance(program, learner._state(program), rollouts, 1000)
    learner.learning_starts = starts
    return program, state


def fake_sample(minibatches: Sequence[Any]) -> Callable[..., ReplayBufferSamples]:
    """What takes the place of the library's `sample`: one minibatch of a program after another."""
    rest = iter(minibatches)

    def sample(*_: Any, **__: Any) -> ReplayBufferSamples:
        minibatch = next(rest)
        columns = ("actions", "following", "dones", "rewards", "discounts")
        arrays = {name: torch.from_numpy(np.array(getattr(minibatch, name))) for name in columns}
        flat = {name: a[:, None] if a.ndim == 1 else a for name, a in arrays.items()}
        return ReplayBufferSamples(
            observations=torch.from_numpy(np.array(minibatch.observations)),
            actions=flat["actions"],
            next_observations=flat["following"],
            dones=flat["dones"],
            rewards=flat["rewards"],
            discounts=flat["discounts"],
        )

    return sample
