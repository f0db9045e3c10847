"""Processor time of a training beside bare stable-baselines3, turn by turn in one process.

Both sides train the same run: the same seeds, environments and evaluations. Our side watches every
number, writes journals and uses shortcuts. The weights of both must be equal, or the program ends.
Prints the median of each ratio, and writes `benchmarks/results/lean.json`.

`python benchmarks/lean.py`, or single rows: `python benchmarks/lean.py ppo_cartpole`.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from rlexp.app.execution.run_process import RunListener, assemble
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, Event
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import RunPaths
from rlexp.training.callback import MetricWriter, Recorder
from rlexp.training.environments.monitor import RewardTap, WatchedEnvironment
from rlexp.training.environments.replayable_env import ReplayableEnvironment
from rlexp.training.parameters import weights_digest
from rlexp.training.parts import Training
from rlexp.training.training_run import TrainingRun, train

RESULTS = Path(__file__).parent / "results" / "lean.json"
SMALL = ("algorithm.n_steps=128", "algorithm.batch_size=256", "algorithm.n_epochs=4")


@dataclass(frozen=True, slots=True)
class Row:
    """A training, and how much faster than the bare library it should be."""

    words: tuple[str, ...]
    steps: int
    aim: float
    final_episodes: int = 96
    """As many in each environment, because the library gives a rest to other environments."""


ROWS: Mapping[str, Row] = {
    "ppo_cartpole": Row(
        ("algorithm=ppo", "environment=cartpole", "environment.vector.count=8", *SMALL),
        8_160,
        1.25,
    ),
    "a2c_cartpole": Row(
        ("algorithm=a2c", "environment=cartpole", "environment.vector.count=8"), 4_000, 1.25
    ),
    "ppo_pendulum": Row(
        ("algorithm=ppo", "environment=pendulum", "environment.vector.count=8", *SMALL),
        8_160,
        1.1,
    ),
    "dqn_cartpole": Row(("algorithm=dqn", "environment=cartpole"), 3_000, 1.1),
    "sac_pendulum": Row(
        ("algorithm=sac", "environment=pendulum", "algorithm.learning_starts=100"), 400, 1.0
    ),
}


class EvaluationListener(RunListener):
    """A listener of a run that also keeps the mean return of each evaluation."""

    def __init__(self, paths: RunPaths, journal: JournalWriter) -> None:
        super().__init__(paths, paths.attempt(1), journal)
        self.means: list[float] = []

    def emit(self, event: Event) -> None:
        """Write an event into the journal."""
        if isinstance(event, Evaluated):
            self.means.append(statistics.fmean(event.returns))
        super().emit(event)


def spec_of(row: Row) -> RunSpec:
    """The run of a row."""
    episodes = ("budget.evaluation_episodes=8", f"budget.final_episodes={row.final_episodes}")
    values = compose((*row.words, *episodes, f"budget.steps={row.steps}"), Path("nowhere"))[
        0
    ].plain
    settings, _ = validate(values, ())
    environment = {k: v for k, v in values["environment"].items() if k != "reference"}
    return RunSpec(
        agent=values["agent"],
        algorithm=values["algorithm"],
        environment=environment,
        budget=settings.budget.defining(),
        compute=settings.compute.defining(),
        phase=Phase.TEST,
        root=0,
        seed=0,
    )


def ours(training: Training, folder: Path) -> tuple[float, str, list[float]]:
    """Processor seconds, weights and mean returns of the evaluations of a training of rlexp."""
    paths = RunPaths(folder)
    paths.attempt(1).folder.mkdir(parents=True)
    journal = JournalWriter(paths.attempt(1).journal)
    listener = EvaluationListener(paths, journal)
    begun = time.process_time()
    end = train(training, listener, paths.attempt(1).folder)
    seconds = time.process_time() - begun
    listener.last_resort.cancel()
    journal.close()
    if end.weights is None:
        raise SystemExit(f"the training ended with {end}")
    return seconds, end.weights, listener.means


def seeded(vector: VecEnv, seeds: Sequence[int]) -> VecEnv:
    """A vector whose next reset uses these seeds."""
    vector._seeds = list(seeds)  # noqa: SLF001 (`seed` takes one seed and counts up from it)
    return vector


class SeededEvaluations(EvalCallback):
    """The evaluations of stable-baselines3, on the episodes that our side plays."""

    def __init__(self, training: Training, vector: VecEnv) -> None:
        budget = training.budget
        assert budget.evaluation_every is not None
        every = budget.evaluation_every // training.environment.vector.count
        super().__init__(
            vector,
            n_eval_episodes=budget.evaluation_episodes,
            eval_freq=every,
            verbose=0,
            warn=False,
        )
        self.training, self.means = training, list[float]()

    def _on_step(self) -> bool:
        if self.n_calls % self.eval_freq == 0:
            seeded(self.eval_env, evaluation_seeds(self.training, len(self.means)))
            super()._on_step()
            self.means.append(float(self.last_mean_reward))
        return True


def evaluation_seeds(training: Training, number: int) -> list[int]:
    """The seeds of the environments of an evaluation."""
    return [training.streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)]


def bare(training: Training) -> tuple[float, str, list[float]]:
    """Processor seconds, weights and mean returns of stable-baselines3 alone, with our seeds."""
    begun = time.process_time()
    count, streams = training.environment.vector.count, training.streams
    name = training.environment.task
    # First, because it draws a seed from a global generator.
    evaluated = make_vec_env(name, n_envs=EVALUATION_ENVIRONMENTS)
    vector = make_vec_env(name, n_envs=count)
    set_random_seed(streams.policy)
    model: BaseAlgorithm = training.algorithm.build(
        training.agent.policy,
        training.agent.arguments(),
        vector,
        seed=streams.policy,
        device="cpu",
    )
    model.action_space.seed(streams.actions)
    seeded(vector, [streams.training(i) for i in range(count)])
    callback = SeededEvaluations(training, evaluated)
    model.learn(training.budget.steps, callback=callback)
    seeded(evaluated, evaluation_seeds(training, len(callback.means)))
    final, _ = evaluate_policy(model, evaluated, training.budget.final_episodes, warn=False)
    seconds = time.process_time() - begun
    return seconds, weights_digest(model), [*callback.means, float(np.mean(final))]


LONGER = 4
"""Factor by which the run is longer whose own share is measured, so that one-off work counts less."""


class OwnShare:
    """Processor time that our callback, monitor, journal and progress take."""

    def __init__(self) -> None:
        self.seconds, self.inside = 0.0, False

    def timed(self, function: Callable[..., object]) -> Callable[..., object]:
        """The function, whose time counts unless another counted function calls it."""

        def call(*arguments: object, **named: object) -> object:
            if self.inside:
                return function(*arguments, **named)
            # A reading of the clock takes longer than a heartbeat, and longer between other work than
            # in a loop: two readings in a row measure it where it is.
            self.inside, earlier = True, time.thread_time()
            begun = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.thread_time() - begun - (begun - earlier)
                self.inside = False

        return call

    def apart(self, function: Callable[..., object]) -> Callable[..., object]:
        """The function, whose time does not count although a counted function calls it."""

        def call(*arguments: object, **named: object) -> object:
            inside, begun, self.inside = self.inside, time.thread_time(), False
            before = self.seconds
            try:
                return function(*arguments, **named)
            finally:
                # What is counted within stays; the rest is taken out of the caller's time.
                if inside:
                    self.seconds -= time.thread_time() - begun - (self.seconds - before)
                self.inside = inside

        return call


OWN = (
    (Recorder, ("on_step", "on_rollout_start")),
    (MetricWriter, ("write",)),
    (RunListener, ("emit", "beat", "stopping")),
    (WatchedEnvironment, ("receive_steps", "end_episode")),
    (ReplayableEnvironment, ("reset",)),
)
"""What rlexp adds to a training: callback, journal, progress, monitor and log of the episode."""


def own_share(row: Row) -> float:
    """The share of our own parts in the processor time of a longer training with shortcuts."""
    training = assemble(spec_of(replace(row, steps=LONGER * row.steps)))
    share = OwnShare()
    # As in the process of a run: otherwise a collection of all imported objects falls into it.
    gc.collect()
    gc.freeze()
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="rlexp-lean-") as folder:
        for kind, names in OWN:
            for name in names:
                timed = share.timed(getattr(kind, name))
                stack.enter_context(patch.object(kind, name, timed))
        for owner, name in ((TrainingRun, "evaluate"), (RewardTap, "reset")):
            stack.enter_context(patch.object(owner, name, share.apart(getattr(owner, name))))
        seconds, *_ = ours(training, Path(folder))
    return share.seconds / seconds


def require_equal(results: Sequence[tuple[str, list[float]]]) -> None:
    """End the program if weights or evaluations of two trainings differ."""
    weights, means = results[0]
    for others, other_means in results:
        # The library rounds returns to six digits.
        if others != weights or not np.allclose(means, other_means, rtol=0, atol=1e-5):
            raise SystemExit(f"two trainings differ: {results}")


def measure(row: Row, repeats: int) -> dict[str, object]:
    """The ratios of a row, of all repeats."""
    training = assemble(spec_of(row))
    library: list[float] = []
    lean: list[float] = []
    results: list[tuple[str, list[float]]] = []
    # The first turn fills caches, and is left out.
    for _ in range(repeats + 1):
        gc.collect()
        seconds, digest, means = bare(training)
        library.append(seconds)
        results.append((digest, means))
        gc.collect()
        with tempfile.TemporaryDirectory(prefix="rlexp-lean-") as folder:
            seconds, digest, means = ours(training, Path(folder))
        lean.append(seconds)
        results.append((digest, means))
    require_equal(results)
    ratios = [b / o for b, o in zip(library[1:], lean[1:], strict=True)]
    return {
        "over_bare": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "aim": row.aim,
        "bare_s": statistics.median(library[1:]),
        "own_share": own_share(row),
        "steps": row.steps,
        "repeats": repeats,
    }


def main() -> None:
    """Measure the requested rows, and keep earlier results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(sorted(unknown))}; rows: {', '.join(ROWS)}")
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.rows or ROWS:
        results[name] = measure(ROWS[name], arguments.repeats)
        print(name, json.dumps(results[name], indent=1), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
