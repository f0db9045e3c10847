"""The callback of every training: turns the calls of stable-baselines3 into events."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from rlexp.protocol.budget import Budget
from rlexp.records.events import Measured
from rlexp.training import Listener
from rlexp.training.acting.callbacks import ActingCallbacks
from rlexp.training.checkpointing import CheckpointScheduler
from rlexp.training.offline_stage import OfflineStage
from rlexp.training.parameters import all_finite, diverged_loss
from rlexp.training.snapshot import Restored
from rlexp.training.stopping import (
    ReturnThreshold,
    ThresholdReached,
    heartbeat_and_check_stop,
)

CHECK_EVERY = 100
"""Rollouts between checks of the weights, for learners whose rollouts are a few steps long."""
LONG_ROLLOUT = 100
"""Calls in a rollout; weights are checked at each rollout of at least this length."""


class Diverged(Exception):  # noqa: N818
    """A loss or a parameter is NaN or infinite."""


class MetricWriter(KVWriter):
    """An output of stable-baselines3's logger that emits logged values as events."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def write(
        self,
        key_values: dict[str, Any],
        key_excluded: dict[str, tuple[str, ...]],
        step: int = 0,
    ) -> None:
        """Emit the numbers among the logged values."""
        del key_excluded
        metrics = {k: float(v) for k, v in key_values.items() if isinstance(v, int | float)}
        # Scalars of NumPy and of torch are neither int nor float, but have no dimensions.
        metrics |= {k: float(v) for k, v in key_values.items() if getattr(v, "ndim", None) == 0}
        self._listener.emit(Measured(time=self._listener.now(), step=step, metrics=metrics))

    def close(self) -> None:
        """Do nothing: the listener outlives the logger."""


class Changing(Protocol):
    """What changes of a learner at given steps."""

    def set_on(self, model: BaseAlgorithm) -> None:
        """Change a learner at the beginning of a rollout, if it is due."""
        ...

    def next_change(self, after: int) -> int | None:
        """The first step after `after` of a change, or None."""
        ...


class Recorder(BaseCallback):
    """Triggers heartbeats, evaluations, checkpoints and divergence checks of a training."""

    def __init__(
        self,
        listener: Listener,
        budget: Budget,
        *,
        evaluate: Callable[[], object],
        scheduler: CheckpointScheduler,
        restored: Restored | None,
        changing: Sequence[Changing],
        acting: ActingCallbacks | None = None,
        offline: OfflineStage | None = None,
    ) -> None:
        super().__init__()
        self._offline = offline
        self._listener = listener
        self._budget = budget
        self._evaluate = evaluate
        self._scheduler = scheduler
        self._restored = restored
        self._changing = changing
        self._acting = acting
        self._threshold = ReturnThreshold(budget.stop_at)
        self._earlier = restored.progress.seconds if restored else 0.0
        # Evaluations up to the checkpoint are stored in it, so they are not repeated.
        self._evaluated = self._evaluations_due(restored.step) if restored else 0
        self._next_evaluation = self._next_due()
        self._rollouts = 0
        self._last_rollout = 0

    def _evaluations_due(self, step: int) -> int:
        """Number of evaluations due up to a step; steps beyond the budget do not count.

        The last rollout may end after the budget.
        """
        every = self._budget.evaluation_every
        return min(step, self._budget.steps) // every if every is not None else 0

    def _next_due(self) -> float:
        """The step at which the next evaluation is due; infinite without one."""
        every = self._budget.evaluation_every
        if every is None or self._evaluated >= self._evaluations_due(self._budget.steps):
            return math.inf
        return (self._evaluated + 1) * every

    def _on_rollout_start(self) -> None:
        if self._restored is not None:
            # `learn` may draw random numbers before its first rollout (gSDE does), so the
            # generators are restored only here.
            self._restored.begin_rollout(self._acting)
            self._restored = None
        else:
            if self._in_chunks:
                # Before the copy: a chunk of many rollouts may have ended in NaN.
                self.check_numbers()
            self._scheduler.rollout_starts(self.num_timesteps)
            if self._scheduler.asked_at is not None:
                self._heartbeat_and_check_stop()
        if self._offline is not None:
            self._train_offline(self._offline)
        if self._threshold.is_reached(self.model):
            raise ThresholdReached
        # Last: a restored learner has the values of the moment of its checkpoint.
        for each in self._changing:
            each.set_on(self.model)
        calls, self._last_rollout = self.n_calls - self._last_rollout, self.n_calls
        self._rollouts += 1
        if calls >= LONG_ROLLOUT or self._rollouts % CHECK_EVERY == 0:
            self.check_numbers()

    def _train_offline(self, stage: OfflineStage) -> None:
        """Take the gradient steps on recorded experience that come before the first step."""

        def between(done: int) -> None:
            self._scheduler.offline_steps_taken(done)
            self._heartbeat_and_check_stop()

        def report(metrics: dict[str, float]) -> None:
            self.check_numbers()
            event = Measured(time=self._listener.now(), step=self.num_timesteps, metrics=metrics)
            self._listener.emit(event)

        stage.train(self.model, between, report)
        self._offline = None

    @property
    def _in_chunks(self) -> bool:
        return bool(getattr(self.model, "in_chunks", False))

    def next_evaluation(self, after: int) -> int | None:
        """The first step after `after` at which an evaluation is due, or None."""
        due = _next_multiple(after, self._budget.evaluation_every)
        return due if due is not None and due <= self._budget.steps else None

    def next_checkpoint(self, after: int) -> int | None:
        """The first step after `after` at which a checkpoint is due, or None."""
        return _next_multiple(after, self._budget.checkpoint_every)

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a hyperparameter changes, or None."""
        steps = (each.next_change(after) for each in self._changing)
        return min((step for step in steps if step is not None), default=None)

    def beat(self) -> None:
        """Report that the training is alive while no step is trained."""
        self._listener.beat(self.num_timesteps)

    def check_numbers(self) -> None:
        """Raise `Diverged` if a loss or a parameter is NaN or infinite."""
        if name := diverged_loss(self.model.logger.name_to_value):
            raise Diverged(f"{name} is no finite number at step {self.num_timesteps}")
        if not all_finite(self.model):
            raise Diverged(f"a parameter is no finite number at step {self.num_timesteps}")

    def _on_step(self) -> bool:
        step = self.num_timesteps
        # Called most often, so the usual case needs no other call.
        self._listener.beat(step)
        if self._listener.stopping() is not None or self._budget.timeout is not None:
            self._heartbeat_and_check_stop()
        # A chunk ends where an evaluation of its last rollout was due, which was played before it.
        if step >= self._next_evaluation:
            self._evaluated = self._evaluations_due(step)
            self._next_evaluation = self._next_due()
            self._evaluate()
        return True

    def _heartbeat_and_check_stop(self) -> None:
        heartbeat_and_check_stop(
            self._listener,
            self._budget,
            self.num_timesteps,
            obey=self._scheduler.may_end,
            earlier=self._earlier,
        )


def _next_multiple(after: int, every: int | None) -> int | None:
    """The first multiple of `every` that is larger than `after`; None without one."""
    return None if every is None else (after // every + 1) * every
