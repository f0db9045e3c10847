"""The kinds of sources: how each is recognised and read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.rl_zoo import Parse
from rlexp.exchange.importers.sources import SourceFile
from rlexp.exchange.importers.study import ImportedStudy, Wanted

AUTO = "auto"
"""Instead of a kind: the one that fits."""
KINDS: Mapping[str, tuple[str, str]] = {
    "rl-zoo": ("rl_zoo", "read_rl_zoo"),
    "sb3-evaluations": ("sb3_evaluations", "read_evaluations"),
    "sb3-monitor": ("sb3_monitor", "read_monitors"),
    "tensorboard": ("tensorboard", "read_tensorboard"),
    "mlflow": ("mlflow_store", "read_mlflow_store"),
    "marl-eval": ("marl_eval", "read_marl_eval"),
    "csv": ("csv_table", "read_csv"),
}
"""Modules and functions by kind."""
SERVER = "://"
"""What stands in an address, and in no path."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source."""

    name: str
    fits: Callable[[Sequence[SourceFile]], bool]
    read: Callable[[Sequence[SourceFile], Wanted], ImportedStudy]


def split_kind(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The kind that words begin with, `auto` where they begin with a path, and the paths.

    Raises:
        ConfigError: There is no path.
    """
    first, *rest = words
    if first in {*KINDS, AUTO} and rest:
        return first, tuple(rest)
    if first in {*KINDS, AUTO} and not Path(first).exists():
        raise ConfigError(f"what is to be imported? rlexp import {first} PATH --experiment NAME")
    if not Path(first).exists() and SERVER not in first and rest:
        hint = did_you_mean(first, KINDS)
        raise ConfigError(
            f"{first!r} is neither a kind ({', '.join(KINDS)}, auto) nor there as a path{hint}"
        )
    return AUTO, tuple(words)


def kind_of(name: str, files: Sequence[SourceFile], parse: Parse) -> Kind:
    """The kind of this name, or with `auto` the only one that fits.

    Args:
        name: A kind, or `auto`.
        files: What was given.
        parse: Reads a yaml file into JSON values.

    Raises:
        ConfigError: There is no such kind, or none or several fit.
    """
    if name in KINDS:
        kind = _kind(name, parse)
        if not kind.fits(files):
            raise ConfigError(f"nothing that was given is of kind {name}{_fitting(files, parse)}")
        return kind
    if name != AUTO:
        raise ConfigError(
            f"there is no kind {name!r}{did_you_mean(name, KINDS)} "
            f"(there are: {', '.join(KINDS)}, or auto)"
        )
    found = [kind for own in KINDS if (kind := _kind(own, parse)).fits(files)]
    # A folder of the zoo holds files of the library, too.
    found = found[:1] if found and found[0].name == "rl-zoo" else found
    if len(found) != 1:
        what = "several kinds fit" if found else "no kind fits"
        told = ", ".join(kind.name for kind in found or map(partial(_kind, parse=parse), KINDS))
        raise ConfigError(f"{what}: name one of {told} before the path")
    return found[0]


def _kind(name: str, parse: Parse) -> Kind:
    module, function = KINDS[name]
    own = import_module(f"rlexp.exchange.importers.{module}")
    read = getattr(own, function)
    return Kind(name, own.fits, partial(read, parse=parse) if name == "rl-zoo" else read)


def _fitting(files: Sequence[SourceFile], parse: Parse) -> str:
    known = [own for own in KINDS if _kind(own, parse).fits(files)]
    return f"; it looks like {' or '.join(known)}" if known else ""
