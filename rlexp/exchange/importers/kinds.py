"""The kinds of sources that can be imported: how each is recognised and read."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.imported_study import ImportedStudy, ImportOptions
from rlexp.exchange.importers.rl_zoo import Parse
from rlexp.exchange.importers.sources import SourceFile

AUTO = "auto"
"""Used instead of a kind: the only kind that fits."""
KINDS: Mapping[str, tuple[str, str, str]] = {
    "rl-zoo": ("rl_zoo", "read_rl_zoo", "folders ALGO/ENV_N with ENV/config.yml or ENV/args.yml"),
    "sb3-evaluations": ("sb3_evaluations", "read_evaluations", "evaluations.npz"),
    "sb3-monitor": ("sb3_monitor", "read_monitors", "monitor.csv or N.monitor.csv"),
    "tensorboard": ("tensorboard", "read_tensorboard", "files with tfevents in their name"),
    "mlflow": ("mlflow_store", "read_mlflow_store", "the SQLite file of a store, or an address"),
    "marl-eval": ("marl_eval", "read_marl_eval", "files .json"),
    "csv": ("csv_table", "read_csv", "files .csv, whose first line names step and return"),
}
"""Module, function and description of each kind."""
SERVER = "://"
"""A part of every address that no path contains."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source: recognises its files, and reads them."""

    name: str
    fits: Callable[[Sequence[SourceFile]], bool]
    read: Callable[[Sequence[SourceFile], ImportOptions], ImportedStudy]


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


def kind_of(name: str, files: Sequence[SourceFile], parse: Parse) -> SourceKind:
    """The kind of this name; for `auto` the only kind that fits.

    Args:
        name: A kind, or `auto`.
        files: The files to import.
        parse: Reads a yaml file into JSON values.

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
    if name != AUTO:
        kind = _source_kind(name, parse)
        # A table that lacks a column does not fit, but reading it names the missing column.
        if not kind.fits(files) and not (name == "csv" and _has_table(files)):
            raise ConfigError(
                f"no given file is of kind {name} ({KINDS[name][2]}){_fitting(files, parse)}"
            )
        return kind
    fitting = [kind for kind_name in KINDS if (kind := _source_kind(kind_name, parse)).fits(files)]
    # A folder of the zoo also contains files of Stable-Baselines3, which fit other kinds.
    fitting = fitting[:1] if fitting and fitting[0].name == "rl-zoo" else fitting
    if not fitting:
        listed = "; ".join(f"{kind}: {what}" for kind, (_, _, what) in KINDS.items())
        raise ConfigError(f"no kind fits the given files ({listed})")
    if len(fitting) > 1:
        listed = ", ".join(kind.name for kind in fitting)
        raise ConfigError(f"several kinds fit: name one of {listed} before the path")
    return fitting[0]


def _source_kind(name: str, parse: Parse) -> SourceKind:
    module, function, _ = KINDS[name]
    importer = import_module(f"rlexp.exchange.importers.{module}")
    read = getattr(importer, function)
    return SourceKind(
        name, importer.fits, partial(read, parse=parse) if name == "rl-zoo" else read
    )


def _has_table(files: Sequence[SourceFile]) -> bool:
    return any(file.last.endswith(".csv") for file in files)


def _fitting(files: Sequence[SourceFile], parse: Parse) -> str:
    fitting = [kind for kind in KINDS if _source_kind(kind, parse).fits(files)]
    return f"; it looks like {' or '.join(fitting)}" if fitting else ""
