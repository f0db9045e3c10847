"""The design of a sequential comparison: frozen on disk at its first look, every look recorded."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isclose
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.difference import leaf_differences
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import publish_document

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What `adaptive.json` holds.

    Attributes:
        design: As JSON values.
        scores: That were there already when the design was frozen, where anyone could see them.
        looks: What each decided, by its number.
        earlier: Designs that were given up, with their looks.
    """

    design: dict[str, Any]
    scores: int
    looks: dict[str, Any]
    earlier: list[Any]


def freeze(paths: ExperimentPaths, design: FrozenDesign, scores: int) -> Ledger:
    """Freeze a design while so many scores are there, or find that it is frozen already.

    Raises:
        RecordError: Another design is frozen; says what differs.
    """
    there = frozen_alike(paths, design)
    if there is not None:
        return there
    return _write(paths, Ledger(design=design.plain(), scores=scores, looks={}, earlier=[]))


def frozen_alike(paths: ExperimentPaths, design: FrozenDesign) -> Ledger | None:
    """The ledger of this design; nothing where no design is frozen.

    Raises:
        RecordError: Another design is frozen; says what differs.
    """
    if not paths.adaptive.exists():
        return None
    there = _read(paths)
    frozen = there.design
    if frozen != design.plain():
        found = leaf_differences(frozen, design.plain())
        told = "; ".join(f"{d.path}: {d.first!r} there, {d.second!r} here" for d in found)
        raise RecordError(
            f"the design of {paths.name}'s comparison was frozen at its first look ({told}); "
            "give the same options, or begin a new family of tests with --restart",
        )
    return there


def freeze_again(paths: ExperimentPaths, design: FrozenDesign, scores: int) -> Ledger:
    """Give up the frozen design, which stays on record, for another.

    The same design again would decide the same: it is continued, as after an interruption.
    """
    if not paths.adaptive.exists():
        return freeze(paths, design, scores)
    there = _read(paths)
    if there.design == design.plain():
        return there
    given_up = {"design": there.design, "scores": there.scores, "looks": there.looks}
    earlier = [*there.earlier, given_up]
    return _write(paths, Ledger(design=design.plain(), scores=scores, looks={}, earlier=earlier))


def _read(paths: ExperimentPaths) -> Ledger:
    there = read_json(paths.adaptive)
    try:
        return Ledger(
            design={f.name: there["design"][f.name] for f in fields(FrozenDesign)},
            scores=int(there["scores"]),
            looks=dict(there["looks"]),
            earlier=list(there["earlier"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{paths.adaptive} is damaged: {error!r}; the looks that it recorded are not covered "
            "by a new design: move the file away to begin one",
        ) from error


def frozen_design(paths: ExperimentPaths) -> dict[str, Any] | None:
    """The frozen design as JSON values; nothing where no design is frozen."""
    return _read(paths).design if paths.adaptive.exists() else None


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
    there = _read(paths)
    before = there.looks.get(str(number))
    if before is None:
        _write(paths, replace(there, looks={**there.looks, str(number): decisions}))
    elif not _same(before, decisions):
        raise RecordError(
            f"look {number} at {paths.name} decided otherwise before: a score that it saw has "
            "changed; begin a new family of tests with --restart",
        )


def _same(first: Any, second: Any) -> bool:
    """Whether two looks are one, but for how a processor rounds sums."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
    return bool(first == second)


def _write(paths: ExperimentPaths, ledger: Ledger) -> Ledger:
    publish_document(paths, paths.adaptive, asdict(ledger))
    return ledger
