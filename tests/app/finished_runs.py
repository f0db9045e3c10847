"""Real runs, trained in this process within two seconds."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from last_words import last_words

from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.run_process import execute
from rlexp.app.workspace import Workspace
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.runs import new_attempt, write_experiment, write_run

TINY = (
    "experiment=tiny",
    "budget.steps=64",
    "budget.evaluation_every=32",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=10",
    "seeds.test=1",
)


@dataclass(frozen=True, slots=True)
class Finished:
    """A trained run and its workspace."""

    study: Workspace
    paths: RunPaths

    @property
    def name(self) -> str:
        """The name of the run on the command line."""
        return f"{self.paths.folder.parent.name}/{self.paths.folder.name}"


def study(folder: Path, *allowed: str) -> Workspace:
    """The workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"), allowed)


def prepared(folder: Path, *words: str, allowed: tuple[str, ...] = ()) -> Finished:
    """A run on disk that is not trained, the first one of a command."""
    return next(_prepared(folder, *words, allowed=allowed))


def _prepared(folder: Path, *words: str, allowed: tuple[str, ...] = ()) -> Iterator[Finished]:
    """The runs of a command, each written when it is asked for."""
    workspace = study(folder, *allowed)
    request = read_request(last_words(*TINY, *words), workspace)
    experiment = workspace.layout.experiment(request.experiment.name)
    write_experiment(experiment, request.experiment)
    for _, spec in request.experiment.specs(request.phase):
        paths = experiment.run(spec.name)
        write_run(paths, spec)
        new_attempt(paths, _settings(request, allowed), {}, "")
        yield Finished(workspace, paths)


def finish(folder: Path, *words: str, allowed: tuple[str, ...] = ()) -> Finished:
    """A completed run, the first one of a command."""
    return _executed(prepared(folder, *words, allowed=allowed))


def finish_all(folder: Path, *words: str, allowed: tuple[str, ...] = ()) -> list[Finished]:
    """The completed runs of a command."""
    return [_executed(run) for run in _prepared(folder, *words, allowed=allowed)]


def _executed(prepared_run: Finished) -> Finished:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        execute([str(prepared_run.paths.folder), "1"])
    finally:
        signal.signal(signal.SIGTERM, handler)
    return prepared_run


def _settings(request: RunRequest, allowed: tuple[str, ...]) -> dict[str, object]:
    return {**request.operational, "allowed": list(allowed)}
