"""Studies of unknown origin: real experiments in which one part after another is made hostile."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from canaries import Canaries
from filelock import FileLock
from in_full import IN_FULL
from warm_process import warm_process

from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths, RunPaths

INSTALLED = str(Path(sys.executable).with_name("rlexp"))
"""The installed command, which imports nothing from the folder in which it is given."""
TINY = (
    "budget.steps=192",
    "budget.evaluation_every=64",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "seeds.test=1",
)
ON_POLICY = ("algorithm.n_steps=64", *TINY)
OFTEN = "budget.checkpoint_every=64"
RUN = ("run", "experiment=base", "algorithm=ppo,a2c", OFTEN, *ON_POLICY)
OFF_POLICY = ("run", "experiment=off", "algorithm=dqn", "algorithm.buffer_size=500", OFTEN, *TINY)
SWEEP = (
    *("sweep", "experiment=search", "tuner=random", "algorithm.n_epochs=choice(2, 3)"),
    *("sweep.trials=2", "seeds.tuning=1", "seeds.selection=0", *ON_POLICY),
)


def foreign_study(factory: pytest.TempPathFactory) -> "ForeignStudy":
    """A study with real runs and a real sweep, which are trained once for all tests."""
    base, top = factory.getbasetemp(), factory.mktemp("foreign")
    shared = base.parent if base.name.startswith("popen-") else base
    for name in ("outside", "executed"):
        (top / name).mkdir()
    with FileLock(shared / "foreign.lock"):
        if not (shared / "foreign study").exists():
            _train(shared / "foreign study")
    shutil.copytree(shared / "foreign study", top / "study")
    return ForeignStudy(top / "study", Canaries(top / "executed"))


def _train(folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}, half made")
    unfinished.mkdir()
    for arguments in (RUN, OFF_POLICY, SWEEP):
        result = give(unfinished, *arguments)
        assert result.code == 0, result.text
    unfinished.rename(folder)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The output and the exit code of a command."""

    code: int
    text: str

    @property
    def has_traceback(self) -> bool:
        """Whether the output holds a traceback."""
        return "Traceback (most recent call last)" in self.text


def give(folder: Path, *arguments: str) -> CommandResult:
    """Give a command in a folder; RLEXP_HOME is a folder beside it."""
    variables = {**os.environ, "RLEXP_HOME": str(folder.with_name("home")), "NO_COLOR": "1"}
    command: subprocess.Popen[str]
    if IN_FULL:
        command = subprocess.Popen(
            [INSTALLED, *arguments],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    else:
        command = warm_process("full").fork(folder, [INSTALLED, *arguments], variables).begin()
    text, _ = command.communicate(timeout=200.0)
    return CommandResult(command.returncode, text)


@dataclass(frozen=True, slots=True)
class ForeignStudy:
    """A folder with `runs/` of unknown origin, and a folder outside that nothing may touch."""

    folder: Path
    canaries: Canaries

    @property
    def outside(self) -> Path:
        """The folder that hostile links lead to."""
        return self.folder.parent / "outside"

    def give(self, *arguments: str) -> CommandResult:
        """Give a command in the folder."""
        return give(self.folder, *arguments)

    def experiment(self, name: str) -> ExperimentPaths:
        """An experiment under `runs/`."""
        return ExperimentPaths(self.folder / "runs" / name)

    def run(self, experiment: str) -> RunPaths:
        """The first run of an experiment."""
        return self.experiment(experiment).runs()[0]

    def check(self, result: CommandResult, *codes: int) -> None:
        """Check a command's exit code, and that it printed no traceback and executed no payload."""
        assert not result.has_traceback, result.text
        assert result.code in codes, result.text
        assert [] == self.canaries.executed

    def copy(self, name: str, of: str = "base") -> ExperimentPaths:
        """A copy of an experiment, to be made hostile."""
        paths = self.experiment(name)
        shutil.copytree(self.experiment(of).folder, paths.folder, symlinks=True)
        (paths.folder / "ledger.jsonl").unlink(missing_ok=True)
        return paths


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def changed(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with changes, which are merged into its inner mappings."""
    result = deepcopy(dict(document))
    for key, value in changes.items():
        is_nested = isinstance(value, dict) and "_target_" not in value
        result[key] = changed(result.get(key) or {}, value) if is_nested else value
    return result


def redefine(
    paths: ExperimentPaths, changes: Mapping[str, Any], *, ended: bool = True
) -> RunPaths:
    """Change parts of an experiment's first configuration and of its run; identities fit.

    Args:
        paths: The experiment.
        changes: Of agent, algorithm or environment.
        ended: Whether the run stays ended; else it looks as if its process had died.
    """
    run = next(run for run in paths.runs() if run.folder.name.startswith("ppo"))

    def first(document: dict[str, Any]) -> None:
        document["configurations"][0] = changed(document["configurations"][0], changes)

    edit_json(paths.definition, first)
    document = changed(json.loads(run.spec.read_text()), changes)
    spec = RunSpec.from_plain(document)
    run.spec.write_text(json.dumps({**document, "id": spec.id}))
    renamed = paths.run(spec.name)
    run.folder.rename(renamed.folder)
    if not ended:
        lose(renamed)
    return renamed


def lose(run: RunPaths) -> None:
    """Make a run look as if its process had died at once."""
    journal = run.attempt(1).journal
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])


def edit_lines(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change every line of a file of JSON lines in place."""
    document = [json.loads(line) for line in path.read_text().splitlines()]
    for item in document:
        change(item)
    path.write_text("".join(json.dumps(item) + "\n" for item in document))
