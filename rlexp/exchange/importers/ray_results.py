"""Importer of the results of Ray Tune and RLlib: folders of trials with `progress.csv`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlexp.exchange.importers.csv_table import (
    PROGRESS_MARK,
    CsvTable,
    column_names,
    read_table,
)
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    malformed_error,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_whole_number,
    seed_from_name,
)
from rlexp.exchange.importers.series import guess_kind
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files
from rlexp.text import format_count

PROGRESS = "progress.csv"
PARAMETERS = "params.json"
STEPS = ("num_env_steps_sampled_lifetime", "timesteps_total", "num_env_steps_sampled")
"""Columns with environment steps, the preferred one first."""
RETURNS: Mapping[str, ReturnKind] = {
    "evaluation/env_runners/episode_return_mean": ReturnKind.EVALUATION_MEANS,
    "evaluation/env_runners/episode_reward_mean": ReturnKind.EVALUATION_MEANS,
    "evaluation/episode_reward_mean": ReturnKind.EVALUATION_MEANS,
    "env_runners/episode_return_mean": ReturnKind.TRAINING_MEANS,
    "env_runners/episode_reward_mean": ReturnKind.TRAINING_MEANS,
    "episode_reward_mean": ReturnKind.TRAINING_MEANS,
}
"""Columns with returns of RLlib, the preferred one first."""
SEEDS = ("seed", "debugging/seed")
"""Parameters that name the seed."""
MOST_PARAMETERS = 1000
"""Parameters of a trial that are kept: RLlib writes several hundred."""
DEEPEST = 5
"""Deepest level of nested parameters that are read."""


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a table of progress that Ray wrote."""
    return any(_is_progress(file) for file in files)


def read_ray(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs: each folder with a table of progress is a trial.

    Raises:
        MalformedError: A file has another form, or the label or task of a trial is unknown.
        ConfigError: The conditions leave no trial.
    """
    naming = RunNaming(options)
    runs: list[ImportedRun] = []
    used: list[SourceFile] = []
    empty = 0
    for progress in filter(_is_progress, files):
        settings = _beside(progress, files)
        used += [progress, *([settings] if settings else [])]
        parameters = {} if settings is None else _parameters(settings.load())
        identity = naming.identify(_facts(progress, parameters))
        if identity is not None:
            table = _table(progress, identity, options)
            runs.append(_run(table, identity, progress, parameters))
            empty += table.empty
    naming.check()
    left_out = [*naming.left_out(), *_without_return(empty), *unused_files(files, used)]
    return ImportedStudy(kind="ray", runs=tuple(runs), left_out=tuple(left_out))


def _is_progress(file: SourceFile) -> bool:
    return file.last == PROGRESS and PROGRESS_MARK in column_names(file)


def _beside(progress: SourceFile, files: Sequence[SourceFile]) -> SourceFile | None:
    """The file with the parameters of a trial; None if it is missing."""
    same = (f for f in files if f.folder == progress.folder and f.last == PARAMETERS)
    return next(same, None)


def _parameters(loaded: LoadedFile) -> dict[str, str]:
    """The parameters as texts; nested ones have names with slashes, as in the table."""
    try:
        content = json.loads(loaded.text())
    except (ValueError, RecursionError) as error:
        raise malformed_error(loaded.name, "", "it is not JSON") from error
    if not isinstance(content, Mapping):
        raise malformed_error(loaded.name, "", "it is not a mapping of parameters")
    return details_as_text(dict(_leaves(content)), MOST_PARAMETERS)


def _leaves(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[Any]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value and depth < DEEPEST:
            yield from _leaves(value, f"{prefix}{key}/", depth + 1)
        elif not isinstance(value, Mapping | list):
            yield f"{prefix}{key}", value


def _facts(progress: SourceFile, parameters: Mapping[str, str]) -> RunFacts:
    task = parameters.get("env")
    # Tune names folders TRAINABLE_TASK_ID_…; the task must be known to see where the first ends.
    trainable = re.match(f"(.+?)_{re.escape(task)}_", _last(progress.folder)) if task else None
    seed = next((parameters[key] for key in SEEDS if key in parameters), None)
    return RunFacts(
        name=progress.folder or progress.name,
        source=progress.name,
        paths=tuple(filter(None, (progress.folder, progress.name))),
        parameters=parameters,
        label=trainable[1] if trainable else None,
        task=task,
        seed=parse_whole_number(seed, progress.name, "", "seed")
        if seed not in {None, "None"}
        else seed_from_name(progress.folder),
    )


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]


def _table(progress: SourceFile, identity: RunIdentity, options: ImportOptions) -> CsvTable:
    columns = column_names(progress)
    defaults = {
        key: column
        for key, names in (("step", STEPS), ("return", tuple(RETURNS)))
        if (column := next((name for name in names if name in columns), None)) is not None
    }
    fixed = ImportOptions(
        label=identity.label,
        task=identity.task,
        seed=0,
        unit=options.unit or ENVIRONMENT,
        returns=options.returns,
        columns={**defaults, **options.columns},
    )
    return CsvTable(progress.load(), fixed, RunNaming(fixed), from_first_number=True)


def _run(
    table: CsvTable,
    identity: RunIdentity,
    progress: SourceFile,
    parameters: Mapping[str, str],
) -> ImportedRun:
    runs = read_table(table)
    if len(runs) != 1:
        what = "several seeds" if runs else "no row with a return"
        raise malformed_error(progress.name, "", f"it holds {what}")
    columns = table.options.columns
    guessed = RETURNS.get(columns["return"], guess_kind(columns["return"]))
    return replace(
        runs[0],
        name=progress.folder or progress.name,
        seed=identity.seed,
        returns=table.options.returns or guessed,
        settings=identity.settings,
        parameters=parameters,
        details={"told": dict(parameters), "columns": dict(columns)},
    )


def _without_return(count: int) -> Iterator[str]:
    if count:
        yield f"{format_count(count, 'row')} of {PROGRESS} before the end of the first episode"
