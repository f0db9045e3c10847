"""One training, from its parts to the event that ends it."""

import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.agents import Agent
from rlexp.algorithms import Algorithm
from rlexp.environments import Environment
from rlexp.errors import ConfigError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Streams
from rlexp.records.events import Checkpointed, Ending, Evaluated, Failure, RunEnded
from rlexp.training import Listener
from rlexp.training.callback import MetricWriter, Recorder, Stopped, TimedOut, heed
from rlexp.training.evaluate import Evaluator, undisturbed
from rlexp.training.failures import name_failure
from rlexp.training.vectorise import training_vector, write_statistics
from rlexp.training.weights import all_finite, weights_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Everything that one training is made of."""

    agent: Agent
    algorithm: Algorithm
    environment: Environment
    budget: Budget
    compute: Compute
    streams: Streams

    def build(self, folder: Path) -> BaseAlgorithm:
        """Return a fresh learner on a fresh vector of environments.

        Args:
            folder: Where the environments write their `monitor.csv`.

        Raises:
            ConfigError: The parts do not fit one another.
        """
        count = self.environment.vector.count
        # An environment may draw from a global generator as it is made.
        set_random_seed(self.streams.policy)
        vector = training_vector(
            self.environment,
            [self.streams.training(i) for i in range(count)],
            [self.streams.process(i) for i in range(count)],
            getattr(self.algorithm, "gamma", 0.99),
            folder,
        )
        try:
            model = self.algorithm.build(
                self.agent.policy,
                self.agent.arguments(),
                vector,
                seed=self.streams.policy,
                device=self.compute.device,
            )
            _check_device(model, self.compute.device)
        except BaseException:
            vector.close()
            raise
        model.action_space.seed(self.streams.actions)
        return model


def _check_device(model: BaseAlgorithm, device: str) -> None:
    """Refuse the silent change to another device: weights depend on it, and identity says so."""
    if model.device.type != device.partition(":")[0]:
        raise ConfigError(
            f"compute.device={device} is not available, only {model.device.type}: "
            f"use compute.device={model.device.type}",
        )


def train(training: Training, listener: Listener, folder: Path) -> RunEnded:
    """Train one run to its end, whatever that is; every failure is a value, none an exception.

    Args:
        training: The parts.
        listener: Told of every event; the last is returned too.
        folder: Where stable-baselines3's own files go.
    """
    run = _Run(training, listener, folder)
    ending, failure, reason, weights, rung = Ending.FAILED, None, None, None, None
    try:
        weights = run.execute()
        ending = Ending.COMPLETED
    except Stopped as stopped:
        asked = stopped.request
        ending, reason, rung = asked.ending, asked.reason, asked.rung
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


def use_threads(count: int) -> None:
    """Let the learner compute with `count` threads: its weights depend on how many they are."""
    torch.set_num_threads(count)


class _Run:
    """The moving parts of one training."""

    def __init__(self, training: Training, listener: Listener, folder: Path) -> None:
        self.training, self.listener, self.folder = training, listener, folder
        self.model: BaseAlgorithm | None = None
        self.logger: Logger | None = None
        self.evaluator: Evaluator | None = None
        self.evaluations: list[Evaluated] = []
        self.number = 0

    @property
    def step(self) -> int:
        return self.model.num_timesteps if self.model is not None else 0

    def execute(self) -> str:
        """Learn, evaluate the final policy, publish it; returns the digest of the weights."""
        budget = self.training.budget
        self.model = model = self.training.build(self.folder)
        self.logger = configure(str(self.folder), ["csv"])
        self.logger.output_formats.append(MetricWriter(self.listener))
        model.set_logger(self.logger)
        recorder = Recorder(
            self.listener,
            budget,
            evaluate=self.evaluate,
            checkpoint=self.checkpoint,
        )
        model.learn(budget.steps, callback=recorder)
        recorder.check_numbers()
        self.evaluate(final=True)
        self.publish("")
        return weights_digest(model)

    def evaluate(self, *, final: bool = False) -> None:
        """Evaluate the present policy and emit every episode."""
        assert self.model is not None
        started = self.listener.elapsed()
        budget, streams = self.training.budget, self.training.streams
        if self.evaluator is None:
            with undisturbed(self.model, streams.sampling(self.number)):
                self.evaluator = Evaluator(self.training.environment, EVALUATION_ENVIRONMENTS)
        episodes = self.evaluator.evaluate(
            self.model,
            seeds=[streams.evaluation(self.number, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(self.number),
            episodes=budget.final_episodes if final else budget.evaluation_episodes,
            deterministic=budget.evaluation_deterministic,
            beat=lambda: heed(self.listener, budget, self.step, stop=not final),
        )
        self.number += 1
        event = Evaluated(
            time=self.listener.now(),
            step=self.step,
            returns=tuple(episodes.returns),
            lengths=tuple(episodes.lengths),
            seconds=self.listener.elapsed() - started,
            final=final,
        )
        self.listener.emit(event)
        if not final:
            self.evaluations.append(event)
            self._write_evaluations()

    def checkpoint(self) -> None:
        """Publish the present policy beside earlier ones."""
        name = f"checkpoints/{self.step}"
        self.publish(f"{name}/")
        self.listener.emit(Checkpointed(time=self.listener.now(), step=self.step, name=name))

    def publish(self, prefix: str) -> None:
        """Publish the policy and the statistics of normalisation."""
        assert self.model is not None
        model, vector = self.model, self.model.env
        if vector is not None and unwrap_vec_normalize(vector) is not None:
            self.listener.publish(
                f"{prefix}normalisation.npz",
                lambda path: write_statistics(vector, path),
            )
        self.listener.publish(f"{prefix}model.zip", model.save)

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
