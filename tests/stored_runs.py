"""Experiments on disk with made-up events instead of training."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from samples import gymnasium_task, part

from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, Event, Failure, RunEnded, RunStarted
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.runs import new_attempt, write_experiment, write_run

STARTED = 1_780_000_000.0
PROVENANCE: Mapping[str, Any] = {
    "command": ["rlexp", "run"],
    "folder": "study",
    "code": {"commit": "a" * 40, "branch": "main", "remote": None, "dirty": [], "untracked": []},
    "python": "3.11.7",
    "executable": "python",
    "packages": {"numpy": "2.1.0", "torch": "2.8.0"},
    "machine": {"host": "here", "cores": 2},
    "variables": {"OMP_NUM_THREADS": "1"},
}


def configuration(
    label: str = "ppo", task: str = "CartPole-v1", steps: int = 100
) -> Configuration:
    """A configuration whose plug-ins need not exist."""
    return Configuration(
        label=label,
        task=task,
        agent=part("agent", "mlp", "rlexp.agents.mlp.MLP"),
        algorithm=part("algorithm", label, f"rlexp.algorithms.{label}.X", learning_rate=0.5),
        environment=gymnasium_task(task),
        reference={"threshold": 475.0, "minimum": -10.0},
        budget=Budget(
            steps=steps,
            evaluation_every=50,
            evaluation_episodes=2,
            evaluation_deterministic=True,
            final_episodes=2,
            score="final",
            timeout=None,
        ),
        compute=Compute(threads=1, device="cpu"),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """An experiment on disk, and its runs by label, phase and seed."""

    paths: ExperimentPaths
    experiment: Experiment

    def spec(self, seed: int, label: str = "ppo", phase: Phase = Phase.TEST) -> RunSpec:
        """The spec of a run."""
        configured = next(c for c in self.experiment.configurations if c.label == label)
        return configured.spec(phase, self.experiment.seeds.root, seed)

    def run(self, seed: int, label: str = "ppo", phase: Phase = Phase.TEST) -> RunPaths:
        """The folder of a run."""
        return self.paths.run(self.spec(seed, label, phase).name)

    def attempt(
        self,
        seed: int,
        events: Sequence[Event] = (),
        *,
        label: str = "ppo",
        phase: Phase = Phase.TEST,
        log: str | bytes = "",
        provenance: Mapping[str, Any] = PROVENANCE,
        patch: str = "",
    ) -> RunPaths:
        """Store an attempt at a run with these events after its start."""
        spec = self.spec(seed, label, phase)
        paths = self.paths.run(spec.name)
        write_run(paths, spec)
        attempt = new_attempt(paths, {"allowed": []}, provenance, patch)
        attempt.log.write_bytes(log if isinstance(log, bytes) else log.encode())
        with closing(JournalWriter(attempt.journal)) as journal:
            journal.append(
                RunStarted(time=STARTED, attempt=attempt.number, pid=1, host="here"),
            )
            for event in events:
                journal.append(event)
        return paths

    def complete(self, seed: int, score: float, **where: Any) -> RunPaths:
        """Store a completed run."""
        return self.attempt(seed, completed(score), **where)


def stored(
    layout: Layout,
    name: str = "alpha",
    *configurations: Configuration,
    test: int = 3,
    failures: Failures = "missing",
) -> Stored:
    """Store an experiment without runs."""
    experiment = Experiment(
        name=name,
        configurations=configurations or (configuration(),),
        seeds=SeedPlan(root=0, tuning=2, selection=0, test=test),
        failures=failures,
    )
    paths = layout.experiment(name)
    write_experiment(paths, experiment)
    return Stored(paths, experiment)


def evaluated(step: int, *returns: float, final: bool = False) -> Evaluated:
    """An evaluation with these returns."""
    lengths = tuple(1 for _ in returns)
    return Evaluated(
        time=STARTED + step, step=step, returns=returns, lengths=lengths, seconds=1.0, final=final
    )


def ended(
    ending: Ending,
    step: int = 100,
    failure: Failure | None = None,
    reason: str | None = None,
) -> RunEnded:
    """The end of an attempt."""
    return RunEnded(
        time=STARTED + 200.0,
        step=step,
        ending=ending,
        seconds=200.0,
        failure=failure,
        reason=reason,
    )


def completed(score: float) -> list[Event]:
    """The events of a run that reached a score."""
    return [
        evaluated(50, score / 4, score / 2),
        evaluated(100, score / 2, score),
        evaluated(100, score - 1, score + 1, final=True),
        ended(Ending.COMPLETED),
    ]


def failed(failure: Failure = Failure.NAN, reason: str = "a loss is NaN") -> list[Event]:
    """The events of a run that failed half-way."""
    return [evaluated(50, 1.0, 2.0), ended(Ending.FAILED, 60, failure, reason)]


def console(*, as_json: bool = False) -> Console:
    """A console that writes to the current standard streams."""
    return Console(as_json=as_json)


def study(folder: Path) -> Workspace:
    """A workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"))


def output(capsys: pytest.CaptureFixture[str]) -> str:
    """The standard output since the last call."""
    return capsys.readouterr().out
