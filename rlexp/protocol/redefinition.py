"""Differences between a requested experiment and the existing experiment of the same name."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import Plain
from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences

MOST_NAMED = 3
"""Largest number of configurations that are named in a line."""

MOST_LINES = 8
"""Largest number of lines; a last line counts the differences that have none."""

DERIVED = frozenset({"fingerprint"})
"""Keys that differ only because another key differs."""
Defined = tuple[Configuration, dict[str, Any]]
"""A configuration with its definition."""

KEY = re.compile(r"[\w.]+")
"""A path that can be typed on the command line."""
NO_SETTING = re.compile(r"(^|\.)(plug_in|order_of_\w+)(\.|$)|^sweep\.|^[^.]+$")
"""Paths of a definition that no word of the command line sets to null."""


def redefinition(existing: Experiment, requested: Experiment) -> list[str]:
    """Lines that describe the differences between two experiments.

    Configurations are compared by label; a sweep is compared by its default. A difference that
    several configurations share has one line. Of many lines, only the first ones are returned.

    Args:
        existing: The experiment on disk.
        requested: The experiment of the current command.
    """
    before, after = existing.defined(), requested.defined()
    first, second = _differing(before, after, _naming(existing, requested))
    shared = [key for key in first if key in second]
    lines: dict[str, list[str]] = {}
    for key in shared:
        for difference in leaf_differences(first[key], second[key], ignored=DERIVED):
            lines.setdefault(_line(difference), []).append(key)
    total = max(len(before), len(after))
    return _shortened(
        [
            *(_with_names(line, keys, total) for line, keys in lines.items()),
            *_list_of([key for key in second if key not in first], "new"),
            *_list_of([key for key in first if key not in second], "missing"),
            *map(_line, leaf_differences(_common_part(existing), _common_part(requested))),
        ]
    )


def _shortened(lines: list[str]) -> list[str]:
    """The first lines; a last line counts the others."""
    if len(lines) <= MOST_LINES:
        return lines
    kept = MOST_LINES - 1
    return [*lines[:kept], f"and {len(lines) - kept} more differences"]


def _naming(existing: Experiment, requested: Experiment) -> Callable[[Configuration], str]:
    """A function that names configurations for the comparison, with the task if there are several.

    The configuration of a sweep is its default, which is compared with the default of the other.
    """
    searched = existing.sweep is not None and requested.sweep is not None
    if searched and existing.tasks == requested.tasks == 1:
        return lambda _: "default"
    tasks = {c.task for experiment in (existing, requested) for c, _ in experiment.defined()}
    if len(tasks) == 1:
        return lambda configuration: configuration.label
    return lambda configuration: f"{configuration.label} on {configuration.task}"


def _differing(
    before: Sequence[Defined], after: Sequence[Defined], name: Callable[[Configuration], str]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The definitions on each side that the other side lacks, by their names.

    Definitions that both sides have are left out even if their labels differ: a label is not part
    of a definition.
    """
    sides = [{_identity(definition) for _, definition in side} for side in (before, after)]
    alike = sides[0] & sides[1]
    first, second = (
        {name(c): definition for c, definition in side if _identity(definition) not in alike}
        for side in (before, after)
    )
    return first, second


def _identity(definition: Plain) -> tuple[Any, Any, Any]:
    """The hashed part of a definition: fingerprint, score of a failure, and direction."""
    return definition["fingerprint"], definition.get("minimum"), definition.get("direction")


def _common_part(experiment: Experiment) -> dict[str, Any]:
    return {k: v for k, v in experiment.definition().items() if k != "configurations"}


def _line(difference: LeafDifference) -> str:
    existing, requested = (_value(value) for value in (difference.first, difference.second))
    line = f"{difference.path}: existing {existing}, requested {requested}"
    # Settings that began to exist after the experiment have other defaults than it.
    keeps = (
        difference.first is None
        and not isinstance(difference.second, Mapping)
        and KEY.fullmatch(difference.path)
        and not NO_SETTING.search(difference.path)
    )
    return f"{line}; {difference.path}=null keeps the existing one" if keeps else line


def _value(value: Any) -> str:
    """A value of a definition; settings with their default may be absent from it."""
    return "not set" if value is None else repr(value)


def _with_names(line: str, names: Sequence[str], total: int) -> str:
    """A line, followed by the names of its configurations if the experiment has several."""
    if total == 1:
        return line
    if len(names) == total:
        return f"{line} (in all {total} configurations)"
    return f"{line} (in {_joined(names)})"


def _list_of(names: Sequence[str], state: str) -> list[str]:
    """A line with the state of some configurations (`new`, `missing`); no line without names."""
    verb = "is" if len(names) == 1 else "are"
    return [f"{_joined(names)} {verb} {state}"] if names else []


def _joined(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {rest} more" if rest > 0 else shown
