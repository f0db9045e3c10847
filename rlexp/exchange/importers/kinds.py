"""The kinds of sources: how each is recognised and read."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.rl_zoo import Parse
from rlexp.exchange.importers.sources import SourceFile
from rlexp.exchange.importers.study import ImportedStudy, Wanted

AUTO = "auto"
"""Instead of a kind: the one that fits."""
KINDS: Mapping[str, tuple[str, str, str]] = {
    "rl-zoo": ("rl_zoo", "read_rl_zoo", "folders ALGO/ENV_N with ENV/config.yml or ENV/args.yml"),
    "sb3-evaluations": ("sb3_evaluations", "read_evaluations", "evaluations.npz"),
    "sb3-monitor": ("sb3_monitor", "read_monitors", "monitor.csv or N.monitor.csv"),
    "tensorboard": ("tensorboard", "read_tensorboard", "files with tfevents in their name"),
    "mlflow": ("mlflow_store", "read_mlflow_store", "the SQLite file of a store, or an address"),
    "marl-eval": ("marl_eval", "read_marl_eval", "files .json"),
    "csv": ("csv_table", "read_csv", "files .csv, whose first line names step and return"),
}
"""Modules, functions and what they read, by kind."""
SERVER = "://"
"""What stands in an address, and in no path."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source."""

    name: str
    fits: Callable[[Sequence[SourceFile]], bool]
    read: Callable[[Sequence[SourceFile], Wanted], ImportedStudy]


def split_kind(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The kind that words begin with, `auto` where they begin with a path, and the paths.

    Raises:
        ConfigError: There is no path, or an empty one.
    """
    first, *rest = words
    if not all(words):
        raise ConfigError("a path is empty: name a file, a folder or an archive")
    if first in {*KINDS, AUTO} and rest:
        return first, tuple(rest)
    is_there = os.path.exists(first)  # noqa: PTH110  # a name that is too long is none
    if first in {*KINDS, AUTO} and not is_there:
        raise ConfigError(f"what is to be imported? rlexp import {first} PATH --experiment NAME")
    if not is_there and SERVER not in first and rest:
        hint = did_you_mean(first, KINDS)
        raise ConfigError(
            f"{first!r} is neither a kind ({', '.join(KINDS)}, auto) nor there as a path{hint}"
        )
    return AUTO, tuple(words)


def kind_of(name: str, files: Sequence[SourceFile], parse: Parse) -> SourceKind:
    """The kind of this name, or with `auto` the only one that fits.

    Args:
        name: A kind, or `auto`.
        files: What was given.
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
            "there is no file in what was given: give files, or folders that hold some; links "
            "inside a folder are not followed, and pipes and devices are not opened"
        )
    if name != AUTO:
        kind = _source_kind(name, parse)
        # A table that lacks a column is refused with the column's name.
        if not kind.fits(files) and not (name == "csv" and _has_table(files)):
            raise ConfigError(
                f"nothing that was given is of kind {name}, which is {KINDS[name][2]}"
                f"{_fitting(files, parse)}"
            )
        return kind
    found = [kind for own in KINDS if (kind := _source_kind(own, parse)).fits(files)]
    # A folder of the zoo holds files of the library, too.
    found = found[:1] if found and found[0].name == "rl-zoo" else found
    if not found:
        told = "; ".join(f"{kind}: {what}" for kind, (_, _, what) in KINDS.items())
        raise ConfigError(f"no kind fits what was given ({told})")
    if len(found) > 1:
        told = ", ".join(kind.name for kind in found)
        raise ConfigError(f"several kinds fit: name one of {told} before the path")
    return found[0]


def _source_kind(name: str, parse: Parse) -> SourceKind:
    module, function, _ = KINDS[name]
    own = import_module(f"rlexp.exchange.importers.{module}")
    read = getattr(own, function)
    return SourceKind(name, own.fits, partial(read, parse=parse) if name == "rl-zoo" else read)


def _has_table(files: Sequence[SourceFile]) -> bool:
    return any(file.last.endswith(".csv") for file in files)


def _fitting(files: Sequence[SourceFile], parse: Parse) -> str:
    known = [own for own in KINDS if _source_kind(own, parse).fits(files)]
    return f"; it looks like {' or '.join(known)}" if known else ""
