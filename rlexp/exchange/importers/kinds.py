"""The kinds of sources: how each that can be imported is recognised and read, and why others cannot."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.csv_table import column_names
from rlexp.exchange.importers.imported_study import ImportedStudy, ImportOptions
from rlexp.exchange.importers.imported_sweep import ImportedSweep
from rlexp.exchange.importers.sources import Parse, SourceFile

AUTO = "auto"
"""Used instead of a kind: the only kind that fits."""
KINDS: Mapping[str, tuple[str, str, str]] = {
    "rl-zoo": ("rl_zoo", "read_rl_zoo", "folders ALGO/ENV_N with ENV/config.yml or ENV/args.yml"),
    "sb3-evaluations": ("sb3_evaluations", "read_evaluations", "evaluations.npz"),
    "sb3-monitor": ("sb3_monitor", "read_monitors", "monitor.csv or N.monitor.csv"),
    "tensorboard": ("tensorboard", "read_tensorboard", "files with tfevents in their name"),
    "ray": ("ray_results", "read_ray", "progress.csv of Ray Tune or RLlib"),
    "optuna": ("optuna_store", "read_optuna", "the journal or SQLite file of a study, or its URL"),
    "mlflow": ("mlflow_store", "read_mlflow_store", "the SQLite file of a store, or an address"),
    "marl-eval": ("marl_eval", "read_marl_eval", "files .json"),
    "csv": ("csv_table", "read_csv", "files .csv, whose first line names step and return"),
}
"""Module, function and description of each kind."""
CANDIDATES: Mapping[str, str] = {"csv": ".csv", "marl-eval": ".json"}
"""Endings of files that are read if the kind is named, so that reading says what they lack."""
COVERING = ("rl-zoo", "ray")
"""Kinds whose folders also contain files that fit other kinds."""
SERVER = "://"
"""A part of every address that no path contains."""
MOST_NAMES = 20
"""Columns that an error message lists."""
AS_TABLE = "rlexp import csv FILE.csv --column step=COLUMN --column return=COLUMN"
"""The command that imports the numbers of a format which cannot be imported itself."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source: recognises its files, and reads them."""

    name: str
    fits: Callable[[Sequence[SourceFile]], bool]
    read: Callable[[Sequence[SourceFile], ImportOptions], ImportedStudy | ImportedSweep]


def split_kind(arguments: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Split arguments into a kind (`auto` if the first one is a path) and the paths.

    Raises:
        ConfigError: There is no path, or an empty one.
    """
    first, *rest = arguments
    if not all(arguments):
        raise ConfigError("a path is empty: name a file, a folder or an archive")
    if first in {*KINDS, AUTO} and rest:
        return first, tuple(rest)
    is_there = os.path.exists(first)  # noqa: PTH110  # Path.exists raises for a too long name
    if first in {*KINDS, AUTO} and not is_there:
        raise ConfigError(f"the path is missing: rlexp import {first} PATH --experiment NAME")
    if not is_there and SERVER not in first and rest:
        hint = did_you_mean(first, KINDS)
        raise ConfigError(
            f"{first!r} is neither a kind ({', '.join(KINDS)}, auto) nor an existing path{hint}"
        )
    return AUTO, tuple(arguments)


def kind_of(
    name: str, files: Sequence[SourceFile], parse: Parse, *, has_columns: bool = False
) -> SourceKind:
    """The kind of this name; for `auto` the only kind that fits.

    Args:
        name: A kind, or `auto`.
        files: The files to import.
        parse: Reads a yaml file into JSON values.
        has_columns: Whether the user names the columns of a table.

    Raises:
        ConfigError: There is no such kind, or none or several fit, or there is no file.
    """
    if name not in {*KINDS, AUTO}:
        raise ConfigError(
            f"there is no kind {name!r}{did_you_mean(name, KINDS)} "
            f"(there are: {', '.join(KINDS)}, or auto)"
        )
    if not files:
        raise ConfigError(
            "the given paths contain no file: give files, or folders with files; links "
            "inside a folder are not followed, and pipes and devices are not opened"
        )
    fitting = [kind for key in KINDS if (kind := _source_kind(key, parse)).fits(files)]
    if name != AUTO:
        return _named_kind(name, fitting, files, parse)
    covering = [kind for kind in fitting if kind.name in COVERING]
    fitting = covering[:1] or fitting
    if not fitting and has_columns and _has_candidate("csv", files):
        return _source_kind("csv", parse)
    if not fitting:
        raise ConfigError(_unknown(files))
    if len(fitting) > 1:
        listed = ", ".join(kind.name for kind in fitting)
        raise ConfigError(f"several kinds fit: name one of {listed} before the path")
    return fitting[0]


def _named_kind(
    name: str, fitting: Sequence[SourceKind], files: Sequence[SourceFile], parse: Parse
) -> SourceKind:
    kind = _source_kind(name, parse)
    if any(other.name == name for other in fitting):
        return kind
    # A table that lacks a column does not fit, but reading it names the missing column.
    if _has_candidate(name, files) and (name == "csv" or not fitting):
        return kind
    looks = " or ".join(other.name for other in fitting)
    hint = f"; it looks like {looks}" if looks else ""
    unsupported = unsupported_format(files) if not looks else None
    raise ConfigError(
        f"no given file is of kind {name} ({KINDS[name][2]}){hint}"
        f"{f'; {unsupported}' if unsupported else ''}"
    )


def _unknown(files: Sequence[SourceFile]) -> str:
    if (unsupported := unsupported_format(files)) is not None:
        return unsupported
    if _has_candidate("csv", files):
        return (
            "no kind fits the given files; to read a table, name its columns: --column "
            "step=COLUMN --column return=COLUMN (its columns are: "
            f"{', '.join(_columns_of_first_table(files)[:MOST_NAMES])})"
        )
    listed = "; ".join(f"{kind}: {what}" for kind, (_, _, what) in KINDS.items())
    return f"no kind fits the given files ({listed})"


def _columns_of_first_table(files: Sequence[SourceFile]) -> list[str]:
    return column_names(next(f for f in files if f.last.endswith(CANDIDATES["csv"])))


def _source_kind(name: str, parse: Parse) -> SourceKind:
    module, function, _ = KINDS[name]
    importer = import_module(f"rlexp.exchange.importers.{module}")
    read = getattr(importer, function)
    return SourceKind(
        name, importer.fits, partial(read, parse=parse) if name == "rl-zoo" else read
    )


def _has_candidate(kind: str, files: Sequence[SourceFile]) -> bool:
    ending = CANDIDATES.get(kind)
    return ending is not None and any(file.last.endswith(ending) for file in files)


@dataclass(frozen=True, slots=True)
class UnsupportedFormat:
    """A format: how its files are recognised, its name, and what to do instead."""

    has: Callable[[SourceFile], bool]
    name: str
    instead: str


def _ends_with(*endings: str) -> Callable[[SourceFile], bool]:
    return lambda file: file.last.lower().endswith(endings)


def _lies_in(folder: str) -> Callable[[SourceFile], bool]:
    return lambda file: folder in file.name.split("/")[:-1]


def _is_run_of_mlflow(file: SourceFile) -> bool:
    # MLflow's file store has EXPERIMENT/RUN/meta.yaml beside the folders metrics and params.
    return file.last == "meta.yaml" and b"artifact_uri" in file.begins(4096)


def unsupported_format(files: Sequence[SourceFile]) -> str | None:
    """What to do instead of importing some files; None if their format is unknown."""
    for unsupported in FORMATS:
        if any(map(unsupported.has, files)):
            return f"{unsupported.name} cannot be imported: {unsupported.instead}"
    return None


FORMATS = (
    UnsupportedFormat(
        _ends_with(".wandb"),
        "W&B's folder",
        "write the history of the runs with wandb.Api().run(PATH).history().to_csv(FILE), and "
        f"import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _is_run_of_mlflow,
        "the file store of MLflow (mlruns)",
        "MLflow turns it into a database: mlflow migrate-filestore --source FOLDER --target "
        "sqlite:///mlflow.db; then give rlexp import mlflow mlflow.db",
    ),
    UnsupportedFormat(
        _lies_in(".aim"),
        "Aim's folder",
        f"write the metrics as a table with aim.Repo(FOLDER), and import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".parquet", ".feather"),
        "a Parquet or Feather file",
        f"write it as a table with pandas.read_parquet(FILE).to_csv(TABLE), and give {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".pkl", ".pickle"),
        "a pickle, which executes code when it is opened,",
        f"write its numbers as a table, and import it with {AS_TABLE}",
    ),
    UnsupportedFormat(
        _ends_with(".xls", ".xlsx", ".ods"),
        "a spreadsheet",
        f"save it as CSV, and import it with {AS_TABLE}",
    ),
)
"""Every unsupported format that is recognised, in the order in which they are tried."""
