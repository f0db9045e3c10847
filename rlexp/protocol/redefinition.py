"""In what an experiment that is asked for differs from the one that its name stands for."""

from collections.abc import Callable, Sequence
from typing import Any

from rlexp.protocol.difference import Difference, leaf_differences
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import Plain

MOST_NAMED = 3
"""Configurations of which a line gives the names."""

UNSAID = frozenset({"fingerprint"})
"""What differs because something else does."""
Defined = tuple[Configuration, dict[str, Any]]
"""A configuration, and what defines it."""


def redefinition(there: Experiment, here: Experiment) -> list[str]:
    """Lines that say in what two experiments differ.

    Configurations are compared label by label; those of a sweep are its default. A difference that
    several of them share is said once.

    Args:
        there: The experiment that exists.
        here: The experiment that is asked for.
    """
    before, after = there.defined(), here.defined()
    first, second = _differing(before, after, _naming(there, here))
    shared = [key for key in first if key in second]
    found: dict[str, list[str]] = {}
    for key in shared:
        for difference in leaf_differences(first[key], second[key], ignored=UNSAID):
            found.setdefault(_said(difference), []).append(key)
    total = max(len(before), len(after))
    return [
        *(_of_configurations(line, keys, total) for line, keys in found.items()),
        *_listed([key for key in second if key not in first], "new"),
        *_listed([key for key in first if key not in second], "missing"),
        *map(_said, leaf_differences(_of_the_whole(there), _of_the_whole(here))),
    ]


def _naming(there: Experiment, here: Experiment) -> Callable[[Configuration], str]:
    """How configurations are named, and by that compared: with their task where there are several.

    A sweep has one configuration, its default, which is compared with that of another sweep.
    """
    if there.sweep is not None and here.sweep is not None:
        return lambda _: "default"
    tasks = {c.task for experiment in (there, here) for c, _ in experiment.defined()}
    if len(tasks) == 1:
        return lambda configuration: configuration.label
    return lambda configuration: f"{configuration.label} on {configuration.task}"


def _differing(
    before: Sequence[Defined], after: Sequence[Defined], name: Callable[[Configuration], str]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The definitions on each side that the other side has under no label, by their names."""
    sides = [{_identity(definition) for _, definition in side} for side in (before, after)]
    alike = sides[0] & sides[1]
    first, second = (
        {name(c): definition for c, definition in side if _identity(definition) not in alike}
        for side in (before, after)
    )
    return first, second


def _identity(definition: Plain) -> tuple[Any, Any]:
    """What a question's fingerprint takes of a configuration: its own, and what a failure scores."""
    return definition["fingerprint"], definition.get("minimum")


def _of_the_whole(experiment: Experiment) -> dict[str, Any]:
    return {k: v for k, v in experiment.definition().items() if k != "configurations"}


def _said(difference: Difference) -> str:
    return f"{difference.path}: {difference.first!r} there, {difference.second!r} here"


def _of_configurations(line: str, names: Sequence[str], total: int) -> str:
    """A difference with the configurations that it is of, where there are several."""
    if total == 1:
        return line
    if len(names) == total:
        return f"{line} (in all {total} configurations)"
    return f"{line} (in {_joined(names)})"


def _listed(names: Sequence[str], what: str) -> list[str]:
    """A line that says what some configurations are; none where there are none of them."""
    verb = "is" if len(names) == 1 else "are"
    return [f"{_joined(names)} {verb} {what}"] if names else []


def _joined(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {rest} more" if rest > 0 else shown
