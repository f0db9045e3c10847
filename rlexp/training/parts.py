"""The parts of one training, how its learner is built from them, and what enters it while it trains."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Dict
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from rlexp.agents import Agent
from rlexp.agents.networks import network_stages
from rlexp.algorithms import Algorithm, BringsEnvironments
from rlexp.datasets import Dataset
from rlexp.environments import Environment
from rlexp.errors import ConfigError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.seeds import Streams
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.spec import Parent
from rlexp.protocol.step_schedule import StepSchedule, first_value
from rlexp.records.checkpoint import SavedPolicy, Transitions
from rlexp.records.prior_transitions import PriorTransitions
from rlexp.replay import Replay, TakesPriorData
from rlexp.replay.buffers.prior_buffer import filled_buffer
from rlexp.training.acting.callbacks import ActingCallbacks, Callback
from rlexp.training.acting.hyperparameters import set_hyperparameter
from rlexp.training.lean.registry import CLASSIC_CONTROL
from rlexp.training.learner_state import add_rows, buffer_of
from rlexp.training.network_changes import ChangingNetworks
from rlexp.training.offline_stage import OfflineStage, transitions_of
from rlexp.training.vectorise import training_vector

STAGE = "experience_stage"
"""Attribute of a learner: the number of the last part of the schedule whose transitions it has."""
ReadExperience = Callable[[str], Iterable[Transitions]]
"""Reads the transitions with a digest."""


class ScheduledValues:
    """The values that a training sets on its learner at the beginning of rollouts.

    The learner keeps plain numbers and schedules of its library, so a saved model loads without rlexp.
    """

    def __init__(self, schedules: Mapping[str, StepSchedule[Any]]) -> None:
        self._schedules = schedules
        # The first rollout of a process sets all values: a checkpoint holds those of its own moment.
        self._due: float = 0 if schedules else inf

    def set_on(self, model: BaseAlgorithm) -> None:
        """Set the values of the rollout that begins now."""
        step = model.num_timesteps
        # Off-policy learners begin a rollout at each step: the usual case costs one comparison.
        if step < self._due:
            return
        for name, schedule in self._schedules.items():
            set_hyperparameter(model, name, schedule.at(step))
        following = self.next_change(step)
        self._due = inf if following is None else following

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a value begins, or None."""
        changes = [s.next_change(after) for s in self._schedules.values()]
        return min((step for step in changes if step is not None), default=None)


class EnteringExperience:
    """Adds shared transitions to a learner's buffer at the first rollout from their step on."""

    def __init__(
        self, schedule: StepSchedule[str | None] | None, read: ReadExperience | None
    ) -> None:
        self._schedule, self._read = schedule, read
        self._due: float = inf if schedule is None else 0

    def set_on(self, model: BaseAlgorithm) -> None:
        """Add what is due at the rollout that begins now."""
        step = model.num_timesteps
        # Off-policy learners begin a rollout at each step: the usual case costs one comparison.
        if step < self._due or self._schedule is None:
            return
        present = bisect_right(self._schedule.steps, step) - 1
        for stage in range(int(getattr(model, STAGE, -1)) + 1, present + 1):
            digest = self._schedule.values[stage]
            if digest is not None:
                if self._read is None:
                    raise ValueError("this process cannot read the transitions of other runs")
                add_rows(model, self._read(digest))
            setattr(model, STAGE, stage)
        following = self.next_change(step)
        self._due = inf if following is None else following

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which transitions enter, or None."""
        return None if self._schedule is None else self._schedule.next_change(after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The parts of one training: plug-ins, budget, compute settings and seed streams.

    A training with a parent continues from the copy of the parent's training. One with a policy begins
    with its parameters. `callbacks` act while it trains, in their order. Without a replay, the library chooses the
    replay buffer. `read_experience` reads the transitions of other runs by their digest. `shortcuts` are the
    names of those that this machine may use; they change no
    number (`rlexp/training/lean`).
    """

    agent: Agent
    algorithm: Algorithm
    environment: Environment
    budget: Budget
    compute: Compute
    streams: Streams
    parent: Parent | None = None
    policy: SavedPolicy | None = field(default=None, repr=False)
    callbacks: Mapping[str, Callback] = field(default_factory=dict)
    replay: Replay | None = None
    dataset: Dataset | None = None
    prior: PriorTransitions | None = field(default=None, repr=False)
    read_experience: ReadExperience | None = field(default=None, repr=False)
    shortcuts: frozenset[str] = frozenset()

    @property
    def discount(self) -> float:
        """The discount at the beginning, with which a vector normalises rewards."""
        # ARS has no discount: 0.99 is the default of VecNormalize.
        return float(first_value(getattr(self.algorithm, "gamma", 0.99)))

    @property
    def learner_device(self) -> str:
        """The device of the policy of stable-baselines3; a compiled program has its own."""
        return "cpu" if isinstance(self.algorithm, BringsEnvironments) else self.compute.device

    def scheduled_values(self) -> ScheduledValues:
        """The hyperparameters that change at given steps of this training."""
        schedules = getattr(self.algorithm, "step_schedules", dict)
        return ScheduledValues(schedules())

    def changing_networks(self) -> ChangingNetworks:
        """The networks that this training has at given steps."""
        return ChangingNetworks(network_stages(self.agent))

    def entering_experience(self) -> EnteringExperience:
        """The transitions of other runs that enter the replay buffer at given steps."""
        schedule = getattr(self.algorithm, EXPERIENCE, None)
        return EnteringExperience(schedule, self.read_experience)

    def acting_callbacks(self) -> ActingCallbacks:
        """New callbacks that act in this training."""
        return ActingCallbacks(self.callbacks, self.budget.steps, self.streams.policy)

    def offline_stage(self) -> OfflineStage:
        """The gradient steps on recorded experience with which this training begins."""
        steps = 0 if self.dataset is None else self.dataset.offline_steps
        return OfflineStage(steps, self._recorded_experience)

    def _recorded_experience(self, model: BaseAlgorithm) -> ReplayBuffer:
        """The buffer of the offline stage: that which is mixed in later, or one for this stage alone."""
        assert self.dataset is not None
        buffer: Any = buffer_of(model)
        mixed_in: ReplayBuffer | None = getattr(buffer, "prior", None)
        if mixed_in is not None:
            return mixed_in
        return filled_buffer(buffer, transitions_of(self.dataset.episodes(), model))

    def build(self, folder: Path) -> BaseAlgorithm:
        """Return a fresh learner on a fresh vector of environments.

        Args:
            folder: Folder for the `monitor.csv` of each environment.

        Raises:
            ConfigError: The parts do not fit one another, or the learner not into the memory.
        """
        count = self.environment.vector.count
        # An environment may draw from a global generator while it is made, so seed these first.
        set_random_seed(self.streams.policy)
        vector = self._vector(count, folder)
        try:
            model = self._scheduled_algorithm().build(
                self.agent.policy,
                self.agent.arguments(),
                vector,
                seed=self.streams.policy,
                device=self.learner_device,
                **self._replay_argument(vector),
            )
            self._prepare_replay(model)
            _check_device(model, self.learner_device)
        # The same parts need the same memory again: another attempt would fail as well.
        except MemoryError as error:
            vector.close()
            raise ConfigError(_memory_text(self.algorithm, error)) from error
        # Without this, the processes of the environments would outlive the failed build.
        except BaseException:
            vector.close()
            raise
        # stable-baselines3 seeds the action space with the policy seed: use a separate stream.
        model.action_space.seed(self.streams.actions)
        return model

    def _vector(self, count: int, folder: Path) -> VecEnv:
        """The environments of the training; a compiled algorithm brings its own."""
        seeds = [self.streams.training(i) for i in range(count)]
        if isinstance(self.algorithm, BringsEnvironments):
            return self.algorithm.training_vector(self.environment, seeds, self.compute)
        return training_vector(
            self.environment,
            seeds,
            [self.streams.process(i) for i in range(count)],
            self.discount,
            folder,
            at_once=CLASSIC_CONTROL in self.shortcuts,
            teacher_seed=self.streams.teacher,
        )

    def _replay_argument(self, vector: VecEnv) -> dict[str, Any]:
        """The replay buffer to build; algorithms without one take no such argument."""
        if self.replay is None:
            return {}
        dictionary = isinstance(vector.observation_space, Dict)
        return {"replay": self.replay.buffer(self.algorithm, dictionary=dictionary)}

    def _prepare_replay(self, model: BaseAlgorithm) -> None:
        """Connect the replay buffer with its learner, and give it its prior data."""
        replay: object = self.replay
        if self.replay is not None:
            self.replay.attach(model, begins=self._schedules_begin)
        if not isinstance(replay, TakesPriorData):
            return
        if self.prior is not None:
            replay.feed(model, self.prior)
        elif self.dataset is not None and self.dataset.use == "mix":
            replay.feed(model, transitions_of(self.dataset.episodes(), model))

    @property
    def _schedules_begin(self) -> float:
        """The share of training after which schedules begin: where it was extended, or 0."""
        if self.parent is None or not self.budget.restarts:
            return 0.0
        return self.parent.step / self.budget.steps

    def _scheduled_algorithm(self) -> Algorithm:
        """The algorithm, whose schedules begin again where the training was extended."""
        if self._schedules_begin == 0.0:
            return self.algorithm
        restart = getattr(self.algorithm, "restarted", None)
        if restart is None:
            name = type(self.algorithm).__name__
            raise ConfigError(f"{name} has no method `restarted`, so its schedules cannot restart")
        restarted: Algorithm = restart(self._schedules_begin)
        return restarted


def _memory_text(algorithm: Algorithm, error: MemoryError) -> str:
    """Which memory a learner lacks, and the setting that makes it smaller."""
    size = getattr(algorithm, "buffer_size", None)
    lacking = " ".join(str(error).split()) or "there is not enough memory"
    remedy = (
        f"lower algorithm.buffer_size (it is {size})"
        if size is not None
        else "lower algorithm.n_steps, environment.vector.count or the size of the networks"
    )
    return f"the learner does not fit into the memory ({lacking}): {remedy}"


def _check_device(model: BaseAlgorithm, device: str) -> None:
    """Refuse a learner on another device than requested.

    stable-baselines3 falls back to the CPU silently, but weights depend on the device, which is
    part of the identity of a run.
    """
    if model.device.type != device.partition(":")[0]:
        raise ConfigError(
            f"compute.device={device} is not available, only {model.device.type}: "
            f"use compute.device={model.device.type}",
        )


def use_threads(count: int) -> None:
    """Let torch compute with `count` threads; the weights depend on this number."""
    torch.set_num_threads(count)
