"""Looks at a sequential comparison: its design drawn up, and its scores put before the test."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isclose
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.protocol.difference import leaf_differences
from rlexp.reports.analysis.inquiry import Settings
from rlexp.reports.analysis.scale import common_scale
from rlexp.reports.evidence.runs import Cell, Evidence, Member
from rlexp.stats.sequential.comparison import (
    Design,
    Family,
    Outcome,
    Pair,
    PairLook,
    decide,
    every_pair,
    smallest_decidable_interim,
)
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import publish_document
from rlexp.text import counted

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Where a sequential comparison stands."""

    outcome: Outcome
    tasks: int

    @property
    def looks(self) -> int:
        """Looks made so far."""
        return len(self.outcome.looks)

    @property
    def finished(self) -> bool:
        """Whether every pair is decided or the last look is over."""
        return self.outcome.finished

    @property
    def wanted(self) -> tuple[str, ...]:
        """Labels that need a further group of seeds."""
        return self.outcome.needed

    @property
    def runs(self) -> int:
        """Runs that the looks used."""
        return sum(self.outcome.runs.values()) * self.tasks

    @property
    def decisions(self) -> dict[int, Any]:
        """What each look decided, by its number."""
        looks = enumerate(self.outcome.looks, 1)
        return {n: [{**asdict(p), "pair": list(p.pair)} for p in look] for n, look in looks}

    @property
    def pairs(self) -> tuple["PairDecision", ...]:
        """Every pair with its decision and the look at which it was made."""
        last = {look.pair: look for interim in self.outcome.looks for look in interim}
        return tuple(
            _decision(pair, decision, self.outcome.interims[pair], last.get(pair))
            for pair, decision in self.outcome.decisions.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDecision:
    """What a sequential comparison decided on two labels.

    Attributes:
        first: The label that the decision is about.
        second: The label that it is compared with.
        decision: `better`, `worse`, `equal` (not told apart by the last look) or `continue`.
        look: The look at which it was decided, if it was.
        last_look: The last look at the pair, if there was one.
        p: The p-value at that look.
        allowed: The largest p-value that decides there.
        crossed: The look at which the p-value was first small enough, if it was.
    """

    first: str
    second: str
    decision: str
    look: int | None
    last_look: int | None
    p: float | None
    allowed: float | None
    crossed: int | None


def _decision(
    pair: Pair, decision: str, decided: int | None, last: PairLook | None
) -> PairDecision:
    return PairDecision(
        first=pair[0],
        second=pair[1],
        decision=decision,
        look=decided,
        last_look=last.interim if last else None,
        p=last.p if last else None,
        allowed=last.budget if last else None,
        crossed=last.crossed if last else None,
    )


def draw_up(
    evidence: Evidence, settings: Settings, group: int, interims: int, family: str
) -> FrozenDesign:
    """Draw up a design for the labels of one experiment.

    Raises:
        ConfigError: There are not two labels, a label lacks a task, a task has no anchors, or
            the design could never decide anything.
    """
    known = get_args(Family)
    if family not in known:
        raise ConfigError(
            f"there is no family {family!r}{did_you_mean(family, known)} "
            f"(there are: {', '.join(known)})",
        )
    if len(evidence.labels) < 2:
        raise ConfigError("a comparison needs two labels: start rlexp run algorithm=first,second")
    design = FrozenDesign(
        labels=evidence.labels,
        tasks=evidence.tasks,
        score=evidence.members[0].record.spec.budget["score"],
        group=group,
        interims=interims,
        alpha=settings.alpha,
        family=family,
        repetitions=settings.repetitions,
        seed=settings.seed,
        anchors=_anchors(evidence, settings),
    )
    _check(design, evidence)
    return design


def look_at(design: FrozenDesign, evidence: Evidence) -> Looked:
    """Put before the test the scores that there are."""
    blocks = {label: _blocks(label, design, evidence) for label in design.labels}
    return Looked(outcome=decide(_test(design), blocks), tasks=len(design.tasks))


def failed_for_good(evidence: Evidence) -> list[Member]:
    """Runs that stop a sequential comparison: they ended without a score."""
    cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
    return [member for cell in cells if cell.worst is None for member in cell.scoreless]


def _test(design: FrozenDesign) -> Design:
    family: Any = design.family
    try:
        return Design(
            group=design.group,
            interims=design.interims,
            pairs=every_pair(design.labels),
            alpha=design.alpha,
            family=family,
            repetitions=design.repetitions,
            seed=design.seed,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check(design: FrozenDesign, evidence: Evidence) -> None:
    for label in design.labels:
        lacking = set(design.tasks) - {cell.task for cell in evidence.of_label(label)}
        if lacking:
            raise ConfigError(f"{label} was not asked for on {', '.join(sorted(lacking))}")
    if smallest_decidable_interim(_test(design)) is None:
        raise ConfigError(
            f"{counted(design.interims, 'look')} at {design.group} seeds cannot decide anything at "
            f"{design.alpha:g}: take a larger --group or more --interims",
        )


def _anchors(evidence: Evidence, settings: Settings) -> Mapping[str, tuple[float, float]]:
    found = common_scale(evidence, settings)
    if found is None:
        return {}
    if settings.normalisation == "observed":
        raise ConfigError(
            "normalisation=observed changes with every run; a frozen design needs anchors",
        )
    bare = [task for task, own in found.items() if own is None]
    if bare:
        raise ConfigError(
            f"{', '.join(bare)} cannot be normalised: declare environment.reference.random and "
            ".threshold",
        )
    return {task: (own.low, own.high) for task, own in found.items() if own}


def _blocks(label: str, design: FrozenDesign, evidence: Evidence) -> list[NDArray[np.float64]]:
    """Groups of scores in the order of the seeds, as far as every seed of a group has one."""
    by_task = [_by_seed(cell, design) for cell in evidence.of_label(label)]
    blocks = []
    for number in range(design.interims):
        seeds = range(number * design.group, (number + 1) * design.group)
        if not all(seed in scores for scores in by_task for seed in seeds):
            break
        blocks.append(np.asarray([np.mean([s[seed] for s in by_task]) for seed in seeds]))
    return blocks


def _by_seed(cell: Cell, design: FrozenDesign) -> dict[int, float]:
    low, high = design.anchors.get(cell.task, (0.0, 1.0))
    scores = {m.record.spec.seed: m.score for m in cell.members}
    if cell.worst is not None:
        scores |= {m.record.spec.seed: cell.worst for m in cell.scoreless}
    return {seed: (s - low) / (high - low) for seed, s in scores.items() if s is not None}
