"""One training run: restores or builds the learner, trains, evaluates, and publishes the policy."""

import traceback
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.algorithms import BringsEnvironments
from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import ComposedTask, splits
from rlexp.environments.run_teacher import TEACHER
from rlexp.environments.task_bins import Counts, TaskBins, task_bins
from rlexp.errors import DISK_ERRORS, ConfigError, EnvironmentFault, RecordError, RlexpError
from rlexp.protocol.budget import overtime_text
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint
from rlexp.records.events import Continued, Ending, Evaluated, Examined, Failure, Refused, RunEnded
from rlexp.records.scored_measure import lacking_measure
from rlexp.training import Listener
from rlexp.training.callback import Diverged, MetricWriter, Recorder
from rlexp.training.checkpointing import CheckpointScheduler
from rlexp.training.environments.subprocess_vec_env import EnvironmentDied
from rlexp.training.environments.taught_vector import TellingRollouts, taught_vector
from rlexp.training.evaluate import Episodes, Evaluator, undisturbed
from rlexp.training.lean.registry import CLASSIC_CONTROL
from rlexp.training.learner_state import buffer_of, longest_rollout, rollout_steps
from rlexp.training.parameters import all_finite, weights_digest
from rlexp.training.parts import Training
from rlexp.training.policy_score import scored_stage
from rlexp.training.replay_check import check_round_trip
from rlexp.training.snapshot import (
    CannotContinue,
    Restored,
    Snapshot,
    TrainingProgress,
    restore_training,
)
from rlexp.training.starting_policy import begin_with
from rlexp.training.stopping import (
    Stopped,
    ThresholdReached,
    TimedOut,
    heartbeat_and_check_stop,
)
from rlexp.training.vectorise import write_statistics

LAST_PART = 0.1
"""Fraction of training, at its end, in which the last rollout is expected to start, if rollouts end
with episodes."""


def require_deterministic_algorithms() -> None:
    """Restrict torch to deterministic algorithms; other operations then raise a RuntimeError."""
    torch.use_deterministic_algorithms(mode=True)


def name_failure(error: BaseException, step: int) -> tuple[Failure, str]:  # noqa: PLR0911
    """Return the kind of failure and a one-line reason for an error that ended a training."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    match error:
        case Diverged():
            return Failure.NAN, str(error)
        case EnvironmentDied():
            return Failure.CRASHED, f"{error} at step {step}"
        case EnvironmentFault():
            return Failure.ENVIRONMENT, str(error)
        case RlexpError():
            return Failure.USER, str(error)
        case MemoryError():
            return Failure.OUT_OF_MEMORY, line
        case OSError(errno=number) if number in DISK_ERRORS:
            return Failure.DISK, line
        case SystemExit():
            return Failure.CRASHED, f"the program called sys.exit({error.code})"
        case _:
            return Failure.USER, f"{line} ({_origin(error)})"


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown location"
    )


def train(
    training: Training,
    listener: Listener,
    folder: Path,
    checkpoints: Iterable[SavedCheckpoint] = (),
) -> RunEnded:
    """Train one run until it ends; failures are returned as a `RunEnded`, never raised.

    Args:
        training: The parts of the run.
        listener: Receives every event; the last event is also returned.
        folder: Folder for the files that stable-baselines3 writes.
        checkpoints: Checkpoints of earlier attempts, best first. The training continues from the
            first that can be restored bit for bit, and starts from scratch if there is none.
    """
    run = TrainingRun(training, listener, folder, checkpoints)
    ending, failure, reason, weights, rung = Ending.FAILED, None, None, None, None
    try:
        weights = run.execute()
        ending, reason = Ending.COMPLETED, run.early_end
    except Stopped as stopped:
        stop = stopped.request
        ending, reason, rung = stop.ending, stop.reason, stop.rung
        if ending is Ending.INTERRUPTED:
            run.scheduler.save_newest()
    except TimedOut:
        failure, reason = Failure.TIMEOUT, overtime_text(training.budget.timeout or 0.0)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        traceback.print_exc()
        if (request := listener.stopping()) is not None:
            # An error during a requested stop is caused by the stop, not by the run.
            ending, reason, rung = request.ending, request.reason, request.rung
        else:
            failure, reason = run.classify(error)
    ended = RunEnded(
        time=listener.now(),
        step=run.step,
        ending=ending,
        seconds=listener.elapsed(),
        failure=failure,
        reason=reason,
        weights=weights,
        rung=rung,
        acted=run.acted,
        training_shift=run.played.shift if ending is Ending.COMPLETED else None,
    )
    # Close after the result is recorded: an environment that crashes in `close` cannot change it.
    try:
        listener.emit(ended)
    finally:
        run.close()
    return ended


class TrainingRun:
    """Runs one training from its first step, or from a checkpoint, to its final policy."""

    def __init__(
        self,
        training: Training,
        listener: Listener,
        folder: Path,
        checkpoints: Iterable[SavedCheckpoint],
    ) -> None:
        self.training, self.listener, self.folder = training, listener, folder
        self.checkpoints = checkpoints
        self.networks = training.changing_networks()
        self.model: BaseAlgorithm | None = None
        self.logger: Logger | None = None
        self.evaluator: Evaluator | None = None
        self.evaluations: list[Evaluated] = []
        self.acting = training.acting_callbacks()
        self.offline = training.offline_stage()
        self.acted: dict[str, int] | None = None
        brings = isinstance(training.algorithm, BringsEnvironments)
        self.played = PlayedTasks({} if brings else task_bins(training.environment))
        self.early_end: str | None = None
        """Why a completed training is shorter than its budget."""
        self.earlier = 0.0
        """Seconds that earlier attempts took up to the restored checkpoint."""
        self.scheduler = CheckpointScheduler(
            listener, training.budget, self.take, self.as_files, self.is_whole, self.may_be_last
        )

    @property
    def step(self) -> int:
        """Environment steps so far."""
        return self.model.num_timesteps if self.model is not None else 0

    def execute(self) -> str:
        """Train, evaluate the final policy and publish it; returns the digest of the weights."""
        budget = self.training.budget
        restored = self._continue()
        if restored is None:
            self.model = self.training.build(self.folder)
            if self.training.policy is not None:
                begin_with(self.model, self.training.policy)
        model = self.model
        assert model is not None
        # Set after a restore, which builds a new model without a logger.
        self.logger = configure(str(self.folder), ["csv"])
        self.logger.output_formats.append(MetricWriter(self.listener))
        model.set_logger(self.logger)
        recorder = Recorder(
            self.listener,
            budget,
            evaluate=self.evaluate,
            scheduler=self.scheduler,
            restored=restored,
            changing=(
                self.networks,
                self.training.entering_experience(),
                self.training.scheduled_values(),
            ),
            acting=self.acting,
            offline=self.offline,
        )
        # `reset_num_timesteps=False` adds to the steps so far, so only the rest is requested.
        left = budget.steps - model.num_timesteps
        with self.networks.use_shortcuts(model, self.training.shortcuts):
            self._learn(left, recorder, anew=restored is None)
            self.acted = self._count_acts()
            # The last update comes after the last callback, so check its result here.
            recorder.check_numbers()
            self.evaluate(final=True)
            self.examine()
        self._publish_policy()
        return weights_digest(model)

    def _learn(self, steps: int, recorder: Recorder, *, anew: bool) -> None:
        """Train for the rest of the budget, or until a threshold or a callback ends the training."""
        assert self.model is not None
        # The recorder comes first: it copies the training before callbacks change it.
        further: list[BaseCallback] = [each for each in (self.played, self.acting) if each]
        taught = taught_vector(self.model.env)
        if taught is not None and taught.hears_rollouts:
            further.insert(0, TellingRollouts(taught))
        together = CallbackList([recorder, *further]) if further else recorder
        try:
            with self.offline.acting_from_the_start(self.model):
                self.model.learn(steps, callback=together, reset_num_timesteps=anew)
        except ThresholdReached:
            self.acting.on_training_end()
            threshold = self.training.budget.stop_at
            self._end_early(f"training episodes reached budget.stop_at={threshold:g}")
        if (name := self.acting.stopped_by) is not None:
            self._end_early(f"callback {name} ended the training")

    def _count_acts(self) -> dict[str, int] | None:
        """How often callbacks, components and teachers have acted, of those that count it."""
        assert self.model is not None
        acts = {f"callback {name}": count for name, count in self.acting.acted().items()}
        vector, composed = self.model.env, isinstance(self.training.environment, ComposedTask)
        if (
            composed
            and vector is not None
            and not isinstance(self.training.algorithm, BringsEnvironments)
        ):
            for counts in vector.env_method("acts"):
                for name, count in counts.items():
                    acts[name] = acts.get(name, 0) + count
            taught = taught_vector(vector)
            if taught is not None and taught.acted is not None:
                acts[TEACHER] = taught.acted
                acts |= {f"{TEACHER} {name}": count for name, count in taught.counts.items()}
        return acts or None

    def _end_early(self, cause: str) -> None:
        budget = self.training.budget
        self.early_end = f"{cause} at step {self.step:,} of {budget.steps:,}"
        if budget.reads_curve:
            raise ConfigError(
                f"{self.early_end}, and budget.score={budget.score} reads the whole curve: use "
                "budget.score=final"
            )

    def _continue(self) -> Restored | None:
        """Restore the first usable checkpoint; emits a `Refused` event for each unusable one."""
        obstacle: list[str | None] = []
        for saved in self.checkpoints:
            # The replay check takes seconds: run it once, and only if there is a checkpoint.
            obstacle = obstacle or [self._find_obstacle()]
            try:
                restored = self._restore(saved, obstacle[0])
            except CannotContinue as error:
                self._drop_model()
                self.listener.emit(
                    Refused(time=self.listener.now(), step=saved.step, reason=str(error))
                )
                continue
            self._adopt(restored, saved.about)
            return restored
        if (parent := self.training.parent) is not None:
            # From step 0 it would be another run than the one that its identity names.
            raise RecordError(
                f"the copy of run {parent.run[:10]} at step {parent.step:,} was refused, and an "
                "extended run begins nowhere else; 'rlexp show' says why"
            )
        self.listener.goes_on_from(None)
        return None

    def _find_obstacle(self) -> str | None:
        """The reason why the environment cannot be restored by replay, or None."""
        training = self.training
        if isinstance(training.algorithm, BringsEnvironments):
            # Their state is part of the learner's state, and nothing is replayed.
            return None
        return check_round_trip(
            training.environment,
            training.discount,
            training.streams.training(0),
            beat=self._beat,
        )

    def _beat(self) -> None:
        heartbeat_and_check_stop(self.listener, self.training.budget, 0)

    def _restore(self, saved: SavedCheckpoint, obstacle: str | None) -> Restored:
        if obstacle is not None:
            raise CannotContinue(obstacle)
        self.model = self.training.build(self.folder)
        return restore_training(self.model, saved, self.networks, beat=self._beat)

    def _adopt(self, restored: Restored, about: Mapping[str, Any]) -> None:
        self.evaluations = list(restored.progress.evaluations)
        self.earlier = restored.progress.seconds
        self.played.restore(restored.progress.played)
        self.scheduler.written, self.scheduler.published = restored.written, restored.step
        self.listener.goes_on_from(restored.step)
        attempt = about.get("attempt")
        self.listener.emit(
            Continued(
                time=self.listener.now(),
                step=restored.step,
                attempt=attempt if isinstance(attempt, int) else 0,
                drift=about.get("drift"),
            )
        )

    def _drop_model(self) -> None:
        if self.model is not None and self.model.env is not None:
            self.model.env.close()
        self.model = None

    def take(self) -> Snapshot:
        """Return a copy of the training; call it between two rollouts."""
        assert self.model is not None
        seconds = self.earlier + self.listener.elapsed()
        progress = TrainingProgress(
            evaluations=tuple(self.evaluations), seconds=seconds, played=self.played.counts
        )
        return Snapshot.take(self.model, progress, self.acting)

    def as_files(self, snapshot: Snapshot, written: int) -> Checkpoint | None:
        """Return a copy as a checkpoint with the experience from row `written` on."""
        assert self.model is not None
        return snapshot.checkpoint(self.model, written)

    def is_whole(self, snapshot: Snapshot, written: int) -> bool:
        """Whether the replay buffer still holds a copy's experience from row `written` on."""
        assert self.model is not None
        return snapshot.is_whole(self.model, written)

    @property
    def keeps_last(self) -> bool:
        """Whether a copy of the training is kept when the run ends.

        By default, none is kept if it would need the experience of a replay buffer.
        """
        assert self.model is not None
        keep = self.training.budget.keep_last
        return buffer_of(self.model) is None if keep is None else keep

    def may_be_last(self, step: int) -> bool:
        """Whether the rollout that starts at `step` may be the last one, and its start is kept."""
        assert self.model is not None
        if not self.keeps_last:
            return False
        steps, rollout = self.training.budget.steps, rollout_steps(self.model)
        if rollout is not None:
            return step + rollout >= steps
        # Nothing tells how long the next episode will be. More copies than one are then made, and
        # the last one stays.
        return step >= steps * (1 - LAST_PART) or step + 2 * longest_rollout(self.model) >= steps

    def examine(self) -> None:
        """Evaluate the final policy on the training distribution, if scores use a held-out one."""
        if scored_stage(self.training) is not Stage.EVALUATION or not splits(
            self.training.environment
        ):
            return
        started, stage = self.listener.elapsed(), Stage.IN_DISTRIBUTION
        with closing(self._evaluator(stage)) as evaluator:
            # The same seeds as in the final evaluation, so that only the distribution differs.
            episodes = self._play(evaluator, len(self.evaluations), final=True)
        self.listener.emit(
            Examined(
                time=self.listener.now(),
                step=self.step,
                distribution=stage,
                returns=tuple(episodes.returns),
                lengths=tuple(episodes.lengths),
                seconds=self.listener.elapsed() - started,
                measures=episodes.measures,
            )
        )

    def _evaluator(self, stage: Stage) -> Evaluator:
        assert self.model is not None
        # Making environments may draw from global generators, which must not change the training.
        with undisturbed(self.model, self.training.streams.sampling(0)):
            return Evaluator(
                self.training.environment,
                EVALUATION_ENVIRONMENTS,
                stage=stage,
                at_once=CLASSIC_CONTROL in self.training.shortcuts,
            )

    def _play(self, evaluator: Evaluator, number: int, *, final: bool) -> Episodes:
        """Play the episodes of evaluation `number`."""
        assert self.model is not None
        budget, streams = self.training.budget, self.training.streams
        return evaluator.evaluate(
            self.model,
            seeds=[streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(number),
            episodes=budget.final_episodes if final else budget.evaluation_episodes,
            deterministic=budget.evaluation_deterministic,
            beat=lambda: heartbeat_and_check_stop(
                self.listener,
                budget,
                self.step,
                # The training is complete at the final evaluation, which is therefore not stopped.
                obey=lambda request: not final and self.scheduler.may_end(request),
                earlier=self.earlier,
            ),
        )

    def evaluate(self, *, final: bool = False) -> None:
        """Evaluate the current policy and emit an event with every episode."""
        assert self.model is not None
        started, number = self.listener.elapsed(), len(self.evaluations)
        # Made at the first evaluation: a run without any needs no further environments.
        if self.evaluator is None:
            self.evaluator = self._evaluator(scored_stage(self.training))
        episodes = self._play(self.evaluator, number, final=final)
        event = Evaluated(
            time=self.listener.now(),
            step=self.step,
            returns=tuple(episodes.returns),
            lengths=tuple(episodes.lengths),
            seconds=self.listener.elapsed() - started,
            final=final,
            measures=episodes.measures,
        )
        self.listener.emit(event)
        # The first evaluation shows what is missing, long before a score would be.
        if reason := lacking_measure(event, self.training.budget.score):
            raise ConfigError(reason)
        if not final:
            self.evaluations.append(event)
            self._write_evaluations()

    def classify(self, error: BaseException) -> tuple[Failure, str]:
        """Return the kind of failure and a one-line reason."""
        failure, reason = name_failure(error, self.step)
        if failure is not Failure.NAN and self.model is not None and not all_finite(self.model):
            # NaN weights usually surface as another error, such as an invalid action.
            return Failure.NAN, f"a parameter is no finite number at step {self.step} ({reason})"
        return failure, reason

    def close(self) -> None:
        """Close environments and files; errors are printed and do not change the result."""
        vector = self.model.env if self.model is not None else None
        for close in (c.close for c in (self.evaluator, vector, self.logger) if c is not None):
            try:
                close()
            except (Exception, SystemExit):  # noqa: BLE001
                traceback.print_exc()

    def _publish_policy(self) -> None:
        """Publish the final policy and the normalisation statistics."""
        assert self.model is not None
        model, vector = self.model, self.model.env
        if vector is not None and unwrap_vec_normalize(vector) is not None:
            self.listener.publish("normalisation.npz", lambda path: write_statistics(vector, path))
        self.listener.publish("model.zip", model.save)

    def _write_evaluations(self) -> None:
        """Write `evaluations.npz` as stable-baselines3 does, for other tools."""
        # Written beside and renamed, so that other tools never read half a file.
        temporary = self.folder / ".evaluations.npz"
        np.savez(
            temporary,
            timesteps=np.asarray([e.step for e in self.evaluations]),
            results=np.asarray([e.returns for e in self.evaluations]),
            ep_lengths=np.asarray([e.lengths for e in self.evaluations]),
        )
        temporary.replace(self.folder / "evaluations.npz")


class PlayedTasks(BaseCallback):
    """Counts the tasks of all training episodes that have ended, by their bins."""

    def __init__(self, bins: Mapping[str, TaskBins]) -> None:
        """Begin with no episode.

        Args:
            bins: The bins by the measure that reports the number.
        """
        super().__init__()
        self._bins = bins
        self.counts: dict[str, Counts] = {
            name: np.zeros(len(each.target), dtype=np.int64) for name, each in bins.items()
        }
        self._complete = True

    def __bool__(self) -> bool:
        """Whether there is anything to count."""
        return bool(self._bins)

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        if dones.any():
            for position in np.flatnonzero(dones).tolist():
                self._count(self.locals["infos"][position].get(MEASURES, {}))
        return True

    def _count(self, measures: Mapping[str, float]) -> None:
        for name, bins in self._bins.items():
            if name in measures:
                self.counts[name][bins.position(measures[name])] += 1

    def restore(self, counts: Mapping[str, Counts]) -> None:
        """Go on with the counts of a checkpoint; one that holds none makes the shift unknown."""
        self._complete = set(counts) == set(self.counts)
        if self._complete:
            self.counts = {name: counts[name].copy() for name in self.counts}

    @property
    def shift(self) -> float | None:
        """The mean divergence over the numbers of a task; None without a count of all episodes."""
        if not self._bins or not self._complete or not all(c.sum() for c in self.counts.values()):
            return None
        shifts = [bins.shift(self.counts[name]) for name, bins in self._bins.items()]
        return float(np.mean(shifts))
