"""Executes runs of training scripts: the checks before the start, and the start in a worker."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp import trainer
from rlexp.algorithms.external import RECIPES_FOLDER, External, files_named
from rlexp.app.execution.scripts.failure_lines import failure_line
from rlexp.app.execution.scripts.recipe_environments import (
    RecipeEnvironment,
    clean_variables,
    recipe_with,
)
from rlexp.app.execution.scripts.silent_scripts import (
    missing_script,
    script_without_rlexp,
    silent_script,
)
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.event_tail import EventFilesTail
from rlexp.executors.local import THREAD_VARIABLES
from rlexp.executors.memory import out_of_memory_kills
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.vector_scores import VectorScores
from rlexp.records.events import Continued, Evaluated, Event, Measured, RunEnded, RunStarted
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_attempts
from rlexp.training import Listener
from rlexp.training.scripts.external import Script, script_configuration, train_by_script
from rlexp.training.scripts.script_results import EarlierAttempt, evaluations_in

if TYPE_CHECKING:
    from rlexp.training.parts import Training

TRAINER = "rlexp.trainer"
"""The name under which an attempt records which helper of scripts it had."""


def check_external(configuration: Configuration, workspace: Workspace, checked: set[str]) -> None:
    """Refuse components, which a script cannot be given, and script files that were edited.

    Args:
        configuration: The configuration.
        workspace: Its workspace.
        checked: The virtual environments that were checked for other configurations; that of this one is
            added.

    Raises:
        ConfigError: The environment has components, or the script is missing or certainly reports nothing.
        RecordError: A file that defines the runs has changed.
    """
    if components := configuration.environment.get("components"):
        raise ConfigError(
            f"component={','.join(components)} wraps environments that rlexp makes, but a "
            "training script makes its environment itself: leave the component out, and pass settings "
            "to the script with algorithm.settings"
        )
    algorithm: External = build(configuration.algorithm, "algorithm", workspace.allowed)
    algorithm.check_files()
    _check_there(algorithm.command)
    if algorithm.requirements is not None:
        key = canonical(sorted(algorithm.requirements))
        # The check reads the files of recipes, and starts the Python of the environment.
        if key not in checked:
            checked.add(key)
            name = recipe_with(algorithm.requirements, workspace.folder)
            RecipeEnvironment(name, algorithm.requirements).check()
        return
    _check_reports(algorithm.command)


def recipe_environment(algorithm: External) -> RecipeEnvironment | None:
    """The virtual environment of a script's own, or None without requirements."""
    if algorithm.requirements is None:
        return None
    return RecipeEnvironment(algorithm.name, algorithm.requirements)


def _check_there(command: str) -> None:
    """Refuse a script that is not there, or that no program executes.

    Raises:
        ConfigError: Names the file, and the nearest one of its folder, or the words to type.
    """
    program = shlex.split(command)[0]
    if program.endswith(".py") and "{" not in program and shutil.which(program) is None:
        words = shlex.quote(f"algorithm.command=python {command}")
        raise ConfigError(
            f"algorithm.command: {program} is no program: type {words}", key="algorithm.command"
        )
    if (path := missing_script(command)) is None:
        return
    folder = path.absolute().parent
    beside = [p.name for p in folder.glob(f"*{path.suffix}")] if folder.is_dir() else []
    raise ConfigError(
        f"algorithm.command: there is no file {path}{did_you_mean(path.name, beside)} (looked for in "
        f"{folder}); name a script as it is seen from the folder of the rlexp command",
        key="algorithm.command",
    )


def _check_reports(command: str) -> None:
    """Refuse a script that certainly ends without a final evaluation.

    Raises:
        ConfigError: It mentions no results, or imports rlexp, which its Python lacks.
    """
    if (script := silent_script(command)) is not None:
        where = f" and install rlexp for {script.program}" if script.lacks_rlexp else ""
        raise ConfigError(
            f"{script.path} cannot report a final evaluation: neither it nor what it imports mentions "
            "rlexp or RLEXP_RESULTS, so its runs would fail at their end; add two lines"
            f'{where}: writer = SummaryWriter(os.environ["RLEXP_FOLDER"]) and, at its end, '
            "import rlexp; rlexp.final_evaluation(environment, act, step), as docs/guides/external.md "
            "shows for CleanRL"
        )
    if (script := script_without_rlexp(command)) is not None:
        raise ConfigError(
            f"{script.path} imports rlexp, which {script.program} does not have, so its runs would "
            "fail; install rlexp there, or start it with the Python of rlexp: {python} "
            f"{script.path}"
        )


def keep_files(
    trial: dict[str, Any], default_settings: Mapping[str, Any], default: Configuration
) -> None:
    """Give a trial the files of the default configuration, with the hashes from when it was read.

    Args:
        trial: The configuration of a trial; changed in place.
        default_settings: The default configuration before its files were hashed.
        default: The default configuration with the hashes of its files.
    """
    algorithm, default_algorithm = trial["algorithm"], default_settings["algorithm"]
    files = default.algorithm.get("files")
    # Hashing again would accept a file that was edited during the sweep.
    same = all(
        algorithm.get(key) == default_algorithm.get(key)
        for key in ("_target_", "command", "files")
    )
    if same and isinstance(files, Mapping):
        # Settings of the trial may name further files.
        named_files = (
            {}
            if algorithm["files"] is not None
            else files_named(algorithm["command"], algorithm["settings"])
        )
        algorithm["files"] = {**named_files, **files}


def train_external(
    spec: RunSpec,
    algorithm: External,
    training: "Training",
    attempt: AttemptPaths,
    listener: Listener,
) -> RunEnded:
    """Let a training script execute an attempt, in the folder in which the command was given."""
    # Absolute, because the script may change its current folder.
    paths, vectors = AttemptPaths(attempt.folder.absolute()), VectorScores.of(spec.environment)
    earlier = (
        _take_over(paths, training.budget, listener.now, vectors) if algorithm.continues else {}
    )
    script = replace(script_of(spec, algorithm, training, paths), earlier=earlier)
    return train_by_script(script, training.budget, listener, algorithm.check_files)


def script_of(
    spec: RunSpec, algorithm: External, training: "Training", script_paths: AttemptPaths
) -> Script:
    """The script of a run, which is ready to be started in a new folder.

    Args:
        spec: The run.
        algorithm: The command and its settings.
        training: The parts of the run.
        script_paths: The files that the script reads and writes, by absolute paths.
    """
    task, vectors = training.environment.task, VectorScores.of(spec.environment)
    recipe = recipe_environment(algorithm)
    recorded = None if training.dataset is None else training.dataset.for_script()
    values = {
        "attempt": str(script_paths.number),
        "configuration": str(script_paths.configuration),
        "dataset": "" if recorded is None else str(recorded["path"]),
        "device": training.compute.device,
        "folder": str(script_paths.files),
        "python": sys.executable if recipe is None else str(recipe.python),
        "recipes": str(RECIPES_FOLDER),
        "results": str(script_paths.results),
        "seed": str(spec.streams.policy),
        "steps": str(training.budget.steps),
        "task": task,
        "threads": str(training.compute.threads),
    }
    settings = script_configuration(
        spec,
        training.budget,
        task=task,
        attempt=script_paths.number,
        results=script_paths.results,
        folder=script_paths.files,
    )
    return Script(
        words=algorithm.words(values),
        variables={**(os.environ if recipe is None else clean_variables()), **_variables(values)},
        configuration=script_paths.configuration,
        told={
            **settings,
            "working_directory": str(Path.cwd()),
            "versions": {TRAINER: digest_of_trainer()},
            **({} if recipe is None else {"packages": recipe.packages}),
            **({} if recorded is None else {"dataset": recorded}),
        },
        results=script_paths.results,
        folder=script_paths.files,
        last_words=lambda: failure_line(script_paths.log),
        memory_kills=out_of_memory_kills,
        scalars=_scalars_in(script_paths.files),
        unit=spec.unit,
        vectors=vectors,
    )


def digest_of_trainer() -> str:
    """The sha256 of the helper of scripts that this rlexp has."""
    with Path(trainer.__file__).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _take_over(
    paths: AttemptPaths, budget: Budget, now: Callable[[], float], vectors: VectorScores
) -> dict[int, EarlierAttempt]:
    """Give an attempt the folder that the last attempt's script wrote, and what earlier ones recorded.

    The folder is moved, not shared: the script of an attempt that was taken for dead loses its paths,
    and writes nothing more among the files of the script that continues.
    """
    run = RunPaths(paths.folder.parent.parent)
    if not paths.files.exists():
        for previous in reversed(run.attempts()):
            if previous.number < paths.number and previous.files.is_dir():
                previous.files.rename(paths.files)
                break
    earlier: dict[int, EarlierAttempt] = {}
    for stored in read_attempts(run, measurements=True):
        if stored.paths.number < paths.number:
            recorded = _recorded(stored.events, earlier)
            # A process that was killed has not read the last lines of its script.
            written = evaluations_in(stored.paths.results, budget, now, vectors)
            missing = tuple(e for e in written if e.step not in recorded.evaluations)
            earlier[stored.paths.number] = replace(recorded, unrecorded=missing)
    return earlier


def _recorded(events: Sequence[Event], earlier: Mapping[int, EarlierAttempt]) -> EarlierAttempt:
    """What an attempt recorded, with what it continued from."""
    moments: list[tuple[int, float]] = []
    evaluations: list[int] = []
    started = earlier_seconds = 0.0
    for event in events:
        if isinstance(event, RunStarted):
            started = event.time
        elif isinstance(event, Continued) and event.attempt in earlier:
            before = earlier[event.attempt]
            earlier_seconds = before.seconds_until(event.step)
            evaluations = [step for step in before.evaluations if step <= event.step]
            moments.append((event.step, earlier_seconds))
        elif isinstance(event, Measured | Evaluated):
            moments.append((event.step, earlier_seconds + event.time - started))
            if isinstance(event, Evaluated) and not event.final:
                evaluations.append(event.step)
    return EarlierAttempt(tuple(moments), tuple(evaluations))


def _scalars_in(folder: Path) -> Callable[[bool], list[tuple[int, dict[str, float]]]]:
    """A function that returns new scalars of the event files in a folder, in the order of writing."""
    tail = EventFilesTail(folder)
    # Files of an earlier attempt were read when it wrote them.
    tail.skip_existing()

    def read(last: bool) -> list[tuple[int, dict[str, float]]]:
        by_step: dict[int, dict[str, float]] = {}
        for scalar in tail.read(last=last):
            by_step.setdefault(scalar.step, {})[scalar.tag] = scalar.value
        for problem in tail.problems():
            # This is the process of a run, whose standard error is its log.
            sys.stderr.write(f"rlexp: {problem}; nothing more is read of it\n")
        return list(by_step.items())

    return read


def _variables(values: Mapping[str, str]) -> dict[str, str]:
    names = ("configuration", "folder", "results", "seed")
    return {
        **dict.fromkeys(THREAD_VARIABLES, values["threads"]),
        # A full buffer of a killed script would take its last lines with it.
        "PYTHONUNBUFFERED": "1",
        **{f"RLEXP_{name.upper()}": values[name] for name in names},
    }
