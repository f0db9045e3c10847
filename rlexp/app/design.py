"""The design of a sequential comparison: frozen on disk at its first look, every look recorded."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.difference import leaf_differences
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import ExperimentPaths

GROUP = 5
"""New seeds of each label at each look, by default."""
INTERIMS = 5
"""Looks at most, by default."""
FAMILY = "holm"
"""How the error is shared among pairs, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDesign:
    """What was decided before the first score was looked at.

    Attributes:
        labels: Under comparison, every pair of them.
        tasks: That a score is the mean of, normalised by `anchors` where there are several.
        score: How a run is scored.
        group: New seeds of each label at each look.
        interims: Looks, at most so many.
        alpha: Family-wise error over pairs and looks.
        family: How the error is shared among pairs.
        repetitions: Relabellings, where there are too many to enumerate.
        seed: Of the relabellings.
        anchors: By task, low and high.
    """

    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    score: str
    group: int
    interims: int
    alpha: float
    family: str
    repetitions: int
    seed: int
    anchors: Mapping[str, tuple[float, float]]

    @property
    def most_runs(self) -> int:
        """Runs of the fixed design, where nothing is decided early."""
        return len(self.labels) * len(self.tasks) * self.group * self.interims

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **asdict(self),
            "labels": list(self.labels),
            "tasks": list(self.tasks),
            "anchors": {task: list(pair) for task, pair in self.anchors.items()},
        }


def freeze(paths: ExperimentPaths, design: FrozenDesign) -> int:
    """Freeze a design, or find that the same one is frozen already.

    Returns:
        How many earlier designs were given up: their looks are not covered by alpha.

    Raises:
        RecordError: Another design is frozen; says what differs.
    """
    if not paths.adaptive.exists():
        _write(paths, design.plain(), {}, [])
        return 0
    frozen, _, earlier = _read(paths)
    if frozen != design.plain():
        found = leaf_differences(frozen, design.plain())
        told = "; ".join(f"{d.path}: {d.first!r} there, {d.second!r} here" for d in found)
        raise RecordError(
            f"the design of {paths.name}'s comparison was frozen at its first look ({told}); "
            "give the same options, or begin a new family of tests with --restart",
        )
    return len(earlier)


def freeze_again(paths: ExperimentPaths, design: FrozenDesign) -> int:
    """Give up the frozen design, which stays on record, for another; returns as `freeze`.

    The same design again would decide the same: it is continued, as after an interruption.
    """
    if not paths.adaptive.exists():
        return freeze(paths, design)
    frozen, looks, earlier = _read(paths)
    if frozen == design.plain():
        return len(earlier)
    _write(paths, design.plain(), {}, [*earlier, {"design": frozen, "looks": looks}])
    return len(earlier) + 1


def _read(paths: ExperimentPaths) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    there = read_json(paths.adaptive)
    try:
        return dict(there["design"]), dict(there["looks"]), list(there["earlier"])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{paths.adaptive} is damaged: {error!r}") from error


def frozen_design(paths: ExperimentPaths) -> dict[str, Any] | None:
    """The frozen design as JSON values; nothing where no design is frozen."""
    return _read(paths)[0] if paths.adaptive.exists() else None


def options(design: FrozenDesign) -> list[str]:
    """The options of the command that draws up this design."""
    named = ("group", "interims", "alpha", "family", "seed")
    words = [word for key in named for word in (f"--{key}", str(getattr(design, key)))]
    return [*words, "--set", f"repetitions={design.repetitions}"]


def record_look(paths: ExperimentPaths, number: int, decisions: Mapping[str, Any]) -> None:
    """Record what a look decided.

    Raises:
        RecordError: The same look decided otherwise before: a score that it saw has changed.
    """
    design, looks, earlier = _read(paths)
    before = looks.get(str(number))
    if before is not None and before != decisions:
        raise RecordError(
            f"look {number} at {paths.name} decided otherwise before: a score that it saw has "
            "changed; begin a new family of tests with --restart",
        )
    if before is None:
        _write(paths, design, {**looks, str(number): decisions}, earlier)


def _write(
    paths: ExperimentPaths,
    design: Mapping[str, Any],
    looks: Mapping[str, Any],
    earlier: list[Any],
) -> None:
    publish_json(paths.adaptive, {"design": design, "looks": looks, "earlier": earlier})
