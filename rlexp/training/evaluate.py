"""Evaluation of policies: the same code for training, final scores and the command line."""

import inspect
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments import MEASURES, Environment, Stage
from rlexp.environments.composed import at_stage
from rlexp.training.environments.monitor import EvaluatedEnvironment
from rlexp.training.lean.classic_vector import ClassicControlVector
from rlexp.training.lean.predictions import prediction_in_use
from rlexp.training.vectorise import evaluation_vector, share_statistics


@dataclass(slots=True)
class Episodes:
    """Undiscounted returns of the task's own reward, lengths in environment steps, and measures."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    measured: list[Mapping[str, float]] = field(default_factory=list)

    def add(self, info: Mapping[str, Any]) -> None:
        """Add the episode whose last step has an info dictionary."""
        self.returns.append(float(info["episode"]["r"]))
        self.lengths.append(int(info["episode"]["l"]))
        self.measured.append(info.get(MEASURES, {}))

    @property
    def measures(self) -> dict[str, tuple[float, ...]] | None:
        """Measures by name, one number per episode; NaN where an episode lacks the measure."""
        names = sorted({name for each in self.measured for name in each})
        columns = {n: tuple(float(each.get(n, math.nan)) for each in self.measured) for n in names}
        return columns or None


class Evaluator:
    """Plays episodes with a policy on separate environments; leaves every generator unchanged."""

    def __init__(
        self,
        environment: Environment,
        count: int,
        render: str | None = None,
        stage: Stage = Stage.EVALUATION,
        *,
        at_once: bool = False,
    ) -> None:
        """Make a vector of `count` environments for a stage.

        With `at_once`, environments of classic control are stepped at once in NumPy.
        """
        self.vector, self._members = evaluation_vector(
            at_stage(environment, stage), count, render, at_once=at_once
        )

    def evaluate(
        self,
        model: BaseAlgorithm,
        *,
        seeds: Sequence[int],
        sampling: int,
        episodes: int,
        deterministic: bool,
        beat: Callable[[], object],
    ) -> Episodes:
        """Play new episodes and return their returns, lengths and measures.

        Each environment plays a number of episodes that is fixed in advance: taking the episodes
        that end first would favour short ones (stable-baselines3 issue 402). An environment that
        has played its episodes rests: the policy still computes an action for it, so that rounding
        and random draws do not depend on which environments rest, but nothing is simulated.

        Args:
            model: The learner.
            seeds: Seed of each environment; the same seeds give the same episodes.
            sampling: Seed for the draws of a stochastic policy.
            episodes: Number of episodes over all environments.
            deterministic: Whether the policy acts without sampling.
            beat: Called at each step, as a heartbeat.
        """
        if model.env is not None:
            share_statistics(model.env, self.vector)
        for position, (member, seed) in enumerate(zip(self._members, seeds, strict=False)):
            member.reseed(seed)
            member.deal(position, len(self._members))
        with undisturbed(model, sampling):
            return _play(model, self.vector, self._members, episodes, deterministic, beat)

    def close(self) -> None:
        """Close the environments."""
        self.vector.close()


def _play(
    model: BaseAlgorithm,
    vector: VecEnv,
    members: Sequence[EvaluatedEnvironment],
    episodes: int,
    deterministic: bool,
    beat: Callable[[], object],
) -> Episodes:
    count = len(members)
    left = [episodes // count + (i < episodes % count) for i in range(count)]
    for member, share in zip(members, left, strict=True):
        member.play(share)
    played: list[Episodes] = [Episodes() for _ in members]
    prediction = prediction_in_use(model) if deterministic else None
    if prediction is not None and isinstance(vector, ClassicControlVector):
        with prediction.greedily() as act:
            for position, info in vector.play(act, beat):
                played[position].add(info)
        return _joined(played)
    # Only MaskablePPO takes masks, and its `predict` allows every action without them.
    masked = "action_masks" in inspect.signature(model.predict).parameters
    observations = vector.reset()
    # Hidden states of a recurrent policy, which `starts` clears at the beginning of an episode.
    states: Any = None
    starts = np.ones(count, dtype=bool)
    while any(left):
        extra = {"action_masks": _masks(vector, np.flatnonzero(left))} if masked else {}
        actions, states = model.predict(
            observations,  # type: ignore[arg-type]
            state=states,
            episode_start=starts,
            deterministic=deterministic,
            **extra,
        )
        # A vector resets an environment in the step that ends its episode: an end is also a start.
        observations, _, starts, infos = vector.step(actions)
        beat()
        for i in np.flatnonzero(starts):
            left[i] -= 1
            played[i].add(infos[i])
    return _joined(played)


def _joined(played: Sequence[Episodes]) -> Episodes:
    return Episodes(
        [value for each in played for value in each.returns],
        [value for each in played for value in each.lengths],
        [value for each in played for value in each.measured],
    )


def _masks(vector: VecEnv, playing: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return the allowed actions (environments × actions); environments at rest allow all."""
    active = np.stack(vector.env_method("action_masks", indices=playing.tolist()))
    masks = np.ones((vector.num_envs, *active.shape[1:]), dtype=bool)
    masks[playing] = active
    return masks


@contextmanager
def undisturbed(model: BaseAlgorithm, seed: int) -> Iterator[None]:
    """Seed every generator that a policy may draw from; restore all states at the end."""
    generator = model.action_space.np_random
    python, numpy, actions = (
        random.getstate(),
        np.random.get_state(),  # noqa: NPY002
        generator.bit_generator.state,
    )
    with torch.random.fork_rng():
        random.seed(seed)
        # DQN draws its random actions from the generator of the action space.
        generator.bit_generator.state = np.random.PCG64(seed).state
        np.random.seed(seed)  # noqa: NPY002
        # `torch.manual_seed` seeds accelerators as well, and reads the stack for them each time.
        seeding = torch.default_generator if model.device.type == "cpu" else torch
        seeding.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            generator.bit_generator.state = actions
