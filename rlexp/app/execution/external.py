"""Runs that a training script makes: whether they can be started, and how a worker does it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.algorithms.external import External, files_named
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.executors.local import THREAD_VARIABLES
from rlexp.executors.memory import out_of_memory_kills
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import RunEnded
from rlexp.store.layout import AttemptPaths
from rlexp.training import Listener
from rlexp.training.external import Script, told_to_script, train_by_script

if TYPE_CHECKING:
    from rlexp.training.parts import Training

LAST_BYTES = 8192
"""Of a log, in which the last words of a script are looked for."""
LONGEST_WORDS = 300


def check_external(configuration: Configuration, workspace: Workspace) -> None:
    """Refuse what a training script cannot be told, and files that were edited meanwhile.

    Raises:
        ConfigError: Components are asked for.
        RecordError: A file that defines the runs is not what it was.
    """
    if components := configuration.environment.get("components"):
        raise ConfigError(
            f"component={','.join(components)} is put around environments that rlexp makes, and a "
            "script makes its own: leave it out, and give the script algorithm.settings"
        )
    algorithm: External = build(configuration.algorithm, "algorithm", workspace.allowed)
    algorithm.check_files()


def keep_files(plain: dict[str, Any], asked: Mapping[str, Any], default: Configuration) -> None:
    """Let a trial have the files of the default configuration, as they were when that was read.

    Args:
        plain: The configuration of a trial; changed in place.
        asked: The default configuration, as it was asked for.
        default: The same, with the sums of its files.
    """
    own, first = plain["algorithm"], asked["algorithm"]
    files = default.algorithm.get("files")
    same = all(own.get(key) == first.get(key) for key in ("_target_", "command", "files"))
    if same and isinstance(files, Mapping):
        # A trial that names a file by a setting has that one, too.
        named = {} if own["files"] is not None else files_named(own["command"], own["settings"])
        own["files"] = {**named, **files}


def train_external(
    spec: RunSpec,
    algorithm: External,
    training: "Training",
    attempt: AttemptPaths,
    listener: Listener,
) -> RunEnded:
    """Let a training script execute an attempt, in the folder that the command was given in."""
    task, folder = training.environment.task, attempt.folder.absolute()
    places = AttemptPaths(folder)
    values = {
        "configuration": str(places.configuration),
        "device": training.compute.device,
        "folder": str(places.files),
        "python": sys.executable,
        "results": str(places.results),
        "seed": str(spec.streams.policy),
        "steps": str(training.budget.steps),
        "task": task,
        "threads": str(training.compute.threads),
    }
    told = told_to_script(
        spec, training.budget, task=task, results=places.results, folder=places.files
    )
    script = Script(
        words=algorithm.words(values),
        variables=_variables(values),
        configuration=places.configuration,
        told={**told, "working_directory": str(Path.cwd())},
        results=places.results,
        folder=places.files,
        last_words=lambda: _last_words(places.log),
        memory_kills=out_of_memory_kills,
    )
    return train_by_script(script, training.budget, listener, algorithm.check_files)


def _variables(values: Mapping[str, str]) -> dict[str, str]:
    own = ("configuration", "folder", "results", "seed")
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, values["threads"]),
        "PYTHONUNBUFFERED": "1",
        **{f"RLEXP_{name.upper()}": values[name] for name in own},
    }


def _last_words(log: Path) -> str:
    """The last line of a log that says anything."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LAST_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    return last if len(last) <= LONGEST_WORDS else f"{last[:LONGEST_WORDS]}…"
