"""The moving parts of one training: learner, environments, evaluations, checkpoints."""

import traceback
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.environments import Stage
from rlexp.environments.composed import splits
from rlexp.errors import DISK_ERRORS, EnvironmentFault, RlexpError
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Phase
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint
from rlexp.records.events import Continued, Ending, Evaluated, Examined, Failure, Refused, RunEnded
from rlexp.training import Listener
from rlexp.training.callback import Diverged, MetricWriter, Recorder
from rlexp.training.evaluate import Episodes, Evaluator, undisturbed
from rlexp.training.keeping import Keeper
from rlexp.training.parameters import all_finite, weights_digest
from rlexp.training.parts import Training
from rlexp.training.processes import EnvironmentDied
from rlexp.training.roundtrip import check_round_trip
from rlexp.training.snapshot import CannotContinue, Progress, Restored, Snapshot, put_back
from rlexp.training.stopping import Stopped, TimedOut, heed
from rlexp.training.vectorise import write_statistics


def require_deterministic_algorithms() -> None:
    """Let torch use deterministic algorithms only; one that has none raises a RuntimeError."""
    torch.use_deterministic_algorithms(mode=True)


def name_failure(error: BaseException, step: int) -> tuple[Failure, str]:  # noqa: PLR0911
    """Name the failure behind an error that ended a training at `step`."""
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
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"


def train(
    training: Training,
    listener: Listener,
    folder: Path,
    checkpoints: Iterable[SavedCheckpoint] = (),
) -> RunEnded:
    """Train one run to its end, whatever that is; every failure is a value, none an exception.

    Args:
        training: The parts.
        listener: Told of every event; the last is returned too.
        folder: Where stable-baselines3's own files go.
        checkpoints: Of earlier attempts, the best first. The training goes on from the first that
            can be put back bit for bit, and begins anew where there is none.
    """
    run = Execution(training, listener, folder, checkpoints)
    ending, failure, reason, weights, rung = Ending.FAILED, None, None, None, None
    try:
        weights = run.execute()
        ending = Ending.COMPLETED
    except Stopped as stopped:
        asked = stopped.request
        ending, reason, rung = asked.ending, asked.reason, asked.rung
        if ending is Ending.INTERRUPTED:
            run.keeper.save_newest()
    except TimedOut:
        failure, reason = Failure.TIMEOUT, f"not done after {training.budget.timeout:g} s"
    except (Exception, SystemExit) as error:  # noqa: BLE001
        traceback.print_exc()
        if (request := listener.stopping()) is not None:
            # What breaks while a run is being ended is no fault of the run.
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
    )
    # Closing comes last: what an environment does then cannot touch the result.
    try:
        listener.emit(ended)
    finally:
        run.close()
    return ended


class Execution:
    """One training from its first step, or from a checkpoint, to its final policy."""

    def __init__(
        self,
        training: Training,
        listener: Listener,
        folder: Path,
        checkpoints: Iterable[SavedCheckpoint],
    ) -> None:
        self.training, self.listener, self.folder = training, listener, folder
        self.checkpoints = checkpoints
        self.model: BaseAlgorithm | None = None
        self.logger: Logger | None = None
        self.evaluator: Evaluator | None = None
        self.evaluations: list[Evaluated] = []
        self.earlier = 0.0
        self.keeper = Keeper(listener, training.budget, self.take, self.as_files, self.is_whole)

    @property
    def step(self) -> int:
        """Environment steps so far."""
        return self.model.num_timesteps if self.model is not None else 0

    def execute(self) -> str:
        """Learn, evaluate the final policy, publish it; returns the digest of the weights."""
        budget = self.training.budget
        restored = self._continue()
        if restored is None:
            self.model = self.training.build(self.folder)
        model = self.model
        assert model is not None
        self.logger = configure(str(self.folder), ["csv"])
        self.logger.output_formats.append(MetricWriter(self.listener))
        model.set_logger(self.logger)
        recorder = Recorder(
            self.listener, budget, evaluate=self.evaluate, keeper=self.keeper, restored=restored
        )
        left = budget.steps - model.num_timesteps
        model.learn(left, callback=recorder, reset_num_timesteps=restored is None)
        recorder.check_numbers()
        self.evaluate(final=True)
        self.examine()
        self._publish_policy()
        return weights_digest(model)

    def _continue(self) -> Restored | None:
        """Go on from the first checkpoint that can be put back; say which cannot, and why."""
        obstacle: list[str | None] = []
        for saved in self.checkpoints:
            obstacle = obstacle or [self._find_obstacle()]
            try:
                restored = self._put_back(saved, obstacle[0])
            except CannotContinue as error:
                self._drop_model()
                self.listener.emit(
                    Refused(time=self.listener.now(), step=saved.step, reason=str(error))
                )
                continue
            self._take_up(restored, saved.about)
            return restored
        self.listener.goes_on_from(None)
        return None

    def _find_obstacle(self) -> str | None:
        """Why no state of the environment can be put back, or nothing."""
        training = self.training
        return check_round_trip(
            training.environment,
            getattr(training.algorithm, "gamma", 0.99),
            training.streams.training(0),
            beat=self._beat,
        )

    def _beat(self) -> None:
        heed(self.listener, self.training.budget, 0)

    def _put_back(self, saved: SavedCheckpoint, obstacle: str | None) -> Restored:
        if obstacle is not None:
            raise CannotContinue(obstacle)
        self.model = self.training.build(self.folder)
        return put_back(self.model, saved, beat=self._beat)

    def _take_up(self, restored: Restored, about: Mapping[str, Any]) -> None:
        self.evaluations = list(restored.progress.evaluations)
        self.earlier = restored.progress.seconds
        self.keeper.written, self.keeper.published = restored.written, restored.step
        self.listener.goes_on_from(restored.step)
        made = about.get("attempt")
        self.listener.emit(
            Continued(
                time=self.listener.now(),
                step=restored.step,
                attempt=made if isinstance(made, int) else 0,
                drift=about.get("drift"),
            )
        )

    def _drop_model(self) -> None:
        if self.model is not None and self.model.env is not None:
            self.model.env.close()
        self.model = None

    def take(self) -> Snapshot:
        """Copy the training as it is now, between two rollouts."""
        assert self.model is not None
        seconds = self.earlier + self.listener.elapsed()
        progress = Progress(evaluations=tuple(self.evaluations), seconds=seconds)
        return Snapshot.take(self.model, progress)

    def as_files(self, snapshot: Snapshot, written: int) -> Checkpoint | None:
        """A copy as a checkpoint, with the experience since row `written`."""
        assert self.model is not None
        return snapshot.checkpoint(self.model, written)

    def is_whole(self, snapshot: Snapshot, written: int) -> bool:
        """Whether the experience of a copy since row `written` is still there."""
        assert self.model is not None
        return snapshot.is_whole(self.model, written)

    def examine(self) -> None:
        """Play the final policy on what it was trained on, where evaluations hold that out."""
        if self._scored is not Stage.EVALUATION or not splits(self.training.environment):
            return
        started, stage = self.listener.elapsed(), Stage.IN_DISTRIBUTION
        with closing(self._evaluator(stage)) as evaluator:
            # The seeds of the final evaluation: what differs between both is the distribution.
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

    @property
    def _scored(self) -> Stage:
        """Where scores are made: what is held out is for test runs, and never decides a choice."""
        test = self.training.streams.phase is Phase.TEST
        held_out = test or not splits(self.training.environment)
        return Stage.EVALUATION if held_out else Stage.IN_DISTRIBUTION

    def _evaluator(self, stage: Stage) -> Evaluator:
        assert self.model is not None
        with undisturbed(self.model, self.training.streams.sampling(0)):
            return Evaluator(self.training.environment, EVALUATION_ENVIRONMENTS, stage=stage)

    def _play(self, evaluator: Evaluator, number: int, *, final: bool) -> Episodes:
        """The episodes of the evaluation with this number."""
        assert self.model is not None
        budget, streams = self.training.budget, self.training.streams
        return evaluator.evaluate(
            self.model,
            seeds=[streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(number),
            episodes=budget.final_episodes if final else budget.evaluation_episodes,
            deterministic=budget.evaluation_deterministic,
            beat=lambda: heed(
                self.listener,
                budget,
                self.step,
                obey=lambda request: not final and self.keeper.may_end(request),
                earlier=self.earlier,
            ),
        )

    def evaluate(self, *, final: bool = False) -> None:
        """Evaluate the present policy and emit every episode."""
        assert self.model is not None
        started, number = self.listener.elapsed(), len(self.evaluations)
        if self.evaluator is None:
            self.evaluator = self._evaluator(self._scored)
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
        if not final:
            self.evaluations.append(event)
            self._write_evaluations()

    def classify(self, error: BaseException) -> tuple[Failure, str]:
        """Why the training failed, as a kind and one line."""
        failure, reason = name_failure(error, self.step)
        if failure is not Failure.NAN and self.model is not None and not all_finite(self.model):
            return Failure.NAN, f"a parameter is no finite number at step {self.step} ({reason})"
        return failure, reason

    def close(self) -> None:
        """Close environments and files; what fails here cannot change the result."""
        vector = self.model.env if self.model is not None else None
        for close in (c.close for c in (self.evaluator, vector, self.logger) if c is not None):
            try:
                close()
            except (Exception, SystemExit):  # noqa: BLE001
                traceback.print_exc()

    def _publish_policy(self) -> None:
        """Publish the final policy and the statistics of normalisation."""
        assert self.model is not None
        model, vector = self.model, self.model.env
        if vector is not None and unwrap_vec_normalize(vector) is not None:
            self.listener.publish("normalisation.npz", lambda path: write_statistics(vector, path))
        self.listener.publish("model.zip", model.save)

    def _write_evaluations(self) -> None:
        """Write `evaluations.npz` as stable-baselines3 does, for other tools."""
        temporary = self.folder / ".evaluations.npz"
        np.savez(
            temporary,
            timesteps=np.asarray([e.step for e in self.evaluations]),
            results=np.asarray([e.returns for e in self.evaluations]),
            ep_lengths=np.asarray([e.lengths for e in self.evaluations]),
        )
        temporary.replace(self.folder / "evaluations.npz")
