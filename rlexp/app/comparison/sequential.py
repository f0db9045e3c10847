"""Interim analyses of a sequential comparison, and the frozen design that they follow.

`make_design` makes a design and `freeze_design` writes it before any score is tested. `analyse`
tests the scores so far, and `record_look` writes each decision, so that later analyses cannot
contradict it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isclose
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.protocol.leaf_differences import leaf_differences
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.analysis.scale import common_scale
from rlexp.reports.analysis.seed_blocks import seed_blocks
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.stats.level_warning import sequential_level_warning
from rlexp.stats.sequential.comparison import (
    Design,
    Family,
    Pair,
    PairLook,
    SequentialDecision,
    decide,
    every_pair,
    smallest_decidable_interim,
)
from rlexp.stats.task_scores import TaskScores
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import publish_document

GROUP = 5
"""Default number of new seeds of each label at each interim analysis."""
INTERIMS = 5
"""Default number of interim analyses."""
MOST_MORE = 20
"""Most further interim analyses, or seeds of a group, that a suggestion adds."""
FAMILY = "holm"
"""Default method that controls the family-wise error over pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDesign:
    """The design of a sequential comparison, fixed before the first score is tested.

    Attributes:
        labels: The labels; every pair of them is compared.
        tasks: The tasks; a score is the mean over them, normalised by `anchors` where there are
            several.
        score: The score rule of the runs.
        group: New seeds of each label at each interim analysis.
        interims: The largest number of interim analyses.
        alpha: Family-wise error over pairs and interim analyses.
        family: The method that controls the family-wise error over pairs.
        repetitions: The number of permutations that are drawn, where there are too many to
            enumerate.
        seed: The seed of the drawn permutations.
        anchors: The scores that normalise to 0 and 1, by task.
        pairs: The pairs that are compared; null for every pair of labels.
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
    pairs: tuple[Pair, ...] | None = None

    @property
    def most_runs(self) -> int:
        """The number of runs if no pair is decided before the last interim analysis."""
        return len(self.labels) * len(self.tasks) * self.group * self.interims

    def plain(self) -> dict[str, Any]:
        """The design as JSON values."""
        content = asdict(self) | {
            "labels": list(self.labels),
            "tasks": list(self.tasks),
            "anchors": {task: list(pair) for task, pair in self.anchors.items()},
            "pairs": None if self.pairs is None else [list(pair) for pair in self.pairs],
        }
        # Designs that compare every pair keep the content that earlier versions wrote.
        return content if self.pairs is not None else _without_pairs(content)

    @property
    def test(self) -> Design:
        """The sequential test that the design describes.

        Raises:
            ConfigError: A setting is out of range.
        """
        family: Any = self.family
        try:
            return Design(
                group=self.group,
                interims=self.interims,
                pairs=every_pair(self.labels) if self.pairs is None else self.pairs,
                alpha=self.alpha,
                family=family,
                repetitions=self.repetitions,
                seed=self.seed,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error


def _without_pairs(design: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in design.items() if key != "pairs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignFile:
    """The content of `adaptive.json`.

    Attributes:
        design: The frozen design as JSON values.
        scores: The number of scores that existed when the design was frozen.
        looks: The decisions of each interim analysis, by its number.
        earlier: Abandoned designs, with their interim analyses.
    """

    design: dict[str, Any]
    scores: int
    looks: dict[str, Any]
    earlier: list[Any]


def freeze_design(paths: ExperimentPaths, design: FrozenDesign, scores: int) -> DesignFile:
    """Write a design and the number of existing scores, or return the same design if written.

    Raises:
        RecordError: A different design is frozen; lists the differences.
    """
    existing = read_matching_design(paths, design)
    if existing is not None:
        return existing
    return _write(paths, DesignFile(design=design.plain(), scores=scores, looks={}, earlier=[]))


def read_matching_design(paths: ExperimentPaths, design: FrozenDesign) -> DesignFile | None:
    """The file of this design, or None where no design is frozen.

    Raises:
        RecordError: A different design is frozen; lists the differences.
    """
    if not paths.adaptive.exists():
        return None
    existing = _read(paths)
    frozen = existing.design
    if frozen != design.plain():
        differences = leaf_differences(frozen, design.plain())
        difference_text = "; ".join(
            f"{d.path}: {d.first!r} there, {d.second!r} here" for d in differences
        )
        raise RecordError(
            f"the design of {paths.name}'s comparison was frozen at its first interim "
            f"analysis ({difference_text}); "
            "use the same options, or start a new family of tests with --restart",
        )
    return existing


def restart_design(paths: ExperimentPaths, design: FrozenDesign, scores: int) -> DesignFile:
    """Replace the frozen design by another; the former one stays in the file.

    An identical design is continued, as after an interruption: it would give the same decisions.
    """
    if not paths.adaptive.exists():
        return freeze_design(paths, design, scores)
    existing = _read(paths)
    if existing.design == design.plain():
        return existing
    abandoned = {"design": existing.design, "scores": existing.scores, "looks": existing.looks}
    earlier = [*existing.earlier, abandoned]
    return _write(
        paths, DesignFile(design=design.plain(), scores=scores, looks={}, earlier=earlier)
    )


def warnings_of_restart(ledger: DesignFile) -> Iterator[str]:
    """What earlier designs do to the error rate, as the end of a sentence; nothing without them."""
    if ledger.earlier:
        yield (
            f"earlier designs that looked at these scores: {len(ledger.earlier)}; the family-wise "
            f"error rate over all designs is above {ledger.design['alpha']:g}"
        )


def _read(paths: ExperimentPaths) -> DesignFile:
    existing = read_json(paths.adaptive)
    try:
        return DesignFile(
            design={
                f.name: existing["design"][f.name]
                for f in fields(FrozenDesign)
                if f.name != "pairs" or "pairs" in existing["design"]
            },
            scores=int(existing["scores"]),
            looks=dict(existing["looks"]),
            earlier=list(existing["earlier"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{paths.adaptive} is damaged: {error!r}; a new design does not account for "
            f"the interim analyses in it: "
            "move the file away to start a new design",
        ) from error


def frozen_design(paths: ExperimentPaths) -> dict[str, Any] | None:
    """The frozen design as JSON values, or None where no design is frozen."""
    return _read(paths).design if paths.adaptive.exists() else None


def read_design(paths: ExperimentPaths) -> FrozenDesign | None:
    """The frozen design of an experiment; None where none is frozen.

    Raises:
        RecordError: The file is damaged.
    """
    if not paths.adaptive.exists():
        return None
    content = _read(paths).design
    try:
        anchors = {task: (low, high) for task, (low, high) in content["anchors"].items()}
        pairs = content.get("pairs")
        return FrozenDesign(
            **{
                **content,
                "labels": tuple(content["labels"]),
                "tasks": tuple(content["tasks"]),
                "anchors": anchors,
                "pairs": None if pairs is None else tuple((a, b) for a, b in pairs),
            }
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{paths.adaptive} is damaged: {error!r}") from error


def design_options(design: FrozenDesign) -> list[str]:
    """The command-line options that give this design."""
    names = ("group", "interims", "alpha", "family", "seed")
    option_words = [word for key in names for word in (f"--{key}", str(getattr(design, key)))]
    return [*option_words, "--set", f"repetitions={design.repetitions}"]


def record_look(paths: ExperimentPaths, number: int, decisions: Mapping[str, Any]) -> None:
    """Write the decisions of an interim analysis.

    Raises:
        RecordError: The same interim analysis gave other decisions before: a score that it used
            has changed.
    """
    existing = _read(paths)
    before = existing.looks.get(str(number))
    if before is None:
        _write(paths, replace(existing, looks={**existing.looks, str(number): decisions}))
    elif not _is_same_look(before, decisions):
        raise RecordError(
            f"interim analysis {number} at {paths.name} gave other decisions before: a score that it "
            "used has changed; start a new family of tests with --restart",
        )


def _is_same_look(first: Any, second: Any) -> bool:
    """Whether two interim analyses agree, up to the rounding of sums.

    The rounding differs between processors.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(
            _is_same_look(first[k], second[k]) for k in first
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_is_same_look, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
    return bool(first == second)


def _write(paths: ExperimentPaths, ledger: DesignFile) -> DesignFile:
    publish_document(paths, paths.adaptive, asdict(ledger))
    return ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """The result of all interim analyses of a sequential comparison so far.

    Attributes:
        outcome: The decisions of all interim analyses.
        tasks: Number of tasks; each run of an interim analysis stands for one run on each task.
        warnings: Why the decision on a pair may not hold its level, by pair; None where its
            runs look usual.
    """

    outcome: SequentialDecision
    tasks: int
    warnings: Mapping[Pair, str | None]

    @property
    def looks(self) -> int:
        """Interim analyses made so far."""
        return len(self.outcome.looks)

    @property
    def finished(self) -> bool:
        """Whether every pair is decided or the last interim analysis is over."""
        return self.outcome.finished

    @property
    def wanted(self) -> tuple[str, ...]:
        """Labels that need a further group of seeds."""
        return self.outcome.needed

    @property
    def runs(self) -> int:
        """Runs that the interim analyses used."""
        return sum(self.outcome.runs.values()) * self.tasks

    @property
    def decisions(self) -> dict[int, Any]:
        """The decisions of each interim analysis, by its number."""
        looks = enumerate(self.outcome.looks, 1)
        return {n: [{**asdict(p), "pair": list(p.pair)} for p in look] for n, look in looks}

    @property
    def pairs(self) -> tuple["PairDecision", ...]:
        """Every pair with its decision and the interim analysis at which it was made."""
        last = {look.pair: look for interim in self.outcome.looks for look in interim}
        return tuple(
            _decision(
                pair, decision, self.outcome.interims[pair], last.get(pair), self.warnings[pair]
            )
            for pair, decision in self.outcome.decisions.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDecision:
    """The decision of a sequential comparison about two labels.

    Attributes:
        first: The label that the decision is about.
        second: The label that it is compared with.
        decision: `better`, `worse`, `equal` (undecided at the last interim analysis) or `continue`.
        look: The interim analysis at which it was decided, if it was.
        last_look: The last interim analysis of the pair, if there was one.
        p: The p-value at that interim analysis.
        allowed: The largest p-value that decides there.
        crossed: The interim analysis at which the p-value was first small enough, if it was.
        warning: Why the decision may not hold its level; null where the runs look usual.
    """

    first: str
    second: str
    decision: str
    look: int | None
    last_look: int | None
    p: float | None
    allowed: float | None
    crossed: int | None
    warning: str | None


def _decision(
    pair: Pair, decision: str, decided: int | None, last: PairLook | None, warning: str | None
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
        warning=warning,
    )


def make_design(
    evidence: Evidence, settings: ReportSettings, group: int, interims: int, family: str
) -> FrozenDesign:
    """Make a design for the labels of one experiment.

    Raises:
        ConfigError: There are fewer than two labels, a label lacks a task, a task has no anchors,
            or no interim analysis of the design could decide anything.
    """
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


def analyse(design: FrozenDesign, evidence: Evidence) -> InterimAnalysis:
    """Test the scores so far, in groups, as the design prescribes."""
    blocks = {
        label: seed_blocks(evidence.of_label(label), design.anchors, design.group, design.interims)
        for label in design.labels
    }
    outcome = decide(design.test, blocks)
    warnings = {
        pair: _level_warning(pair, interim, blocks, design.group)
        for pair, interim in outcome.interims.items()
    }
    return InterimAnalysis(outcome=outcome, tasks=len(design.tasks), warnings=warnings)


def _level_warning(
    pair: Pair, interim: int, blocks: Mapping[str, list[NDArray[np.float64]]], group: int
) -> str | None:
    """A warning about the scores of a pair up to the interim that decided it."""
    sides = [np.ravel(blocks[label][:interim]) for label in pair]
    if not all(len(scores) for scores in sides):
        return None
    first, second = (TaskScores.from_tasks([scores]) for scores in sides)
    return sequential_level_warning(first, second, *pair, group=group)


def failed_for_good(evidence: Evidence) -> list[PlannedRun]:
    """Runs that stop a sequential comparison because they ended without a score."""
    cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
    return [member for cell in cells if cell.worst is None for member in cell.scoreless]


def _check(design: FrozenDesign, evidence: Evidence) -> None:
    for label in design.labels:
        lacking = set(design.tasks) - {cell.task for cell in evidence.of_label(label)}
        if lacking:
            raise ConfigError(f"{label} has no runs planned on {', '.join(sorted(lacking))}")
    check_decidable(design, "--interims", seeds=False)


def check_decidable(design: FrozenDesign, more: str, *, seeds: bool) -> None:
    """Refuse a design that can decide no pair.

    Args:
        design: The design.
        more: The option that allows more interim analyses.
        seeds: Whether this option counts seeds, rather than interim analyses.

    Raises:
        ConfigError: No interim analysis can decide anything.
    """
    families = get_args(Family)
    if design.family not in families:
        raise ConfigError(
            f"there is no family {design.family!r}{did_you_mean(design.family, families)} "
            f"(there are: {', '.join(families)})",
        )
    if not _can_decide(design):
        analyses = "analysis" if design.interims == 1 else "analyses"
        raise ConfigError(
            f"{design.interims} interim {analyses} with {design.group} seeds cannot decide any pair at "
            f"alpha={design.alpha:g}: {_enough(design, more, seeds)}",
        )


def _enough(design: FrozenDesign, more: str, seeds: bool) -> str:
    """The options of the smallest designs that can decide a pair, as the end of a sentence."""
    interims, group = design.interims, design.group
    analyses = _first_that_decides(interims, lambda n: replace(design, interims=n))
    larger = _first_that_decides(group, lambda n: replace(design, group=n))
    options = []
    if analyses is not None:
        options.append(f"{more} {analyses * group if seeds else analyses}")
    if larger is not None:
        options.append(f"--group {larger}" + (f" {more} {larger * interims}" if seeds else ""))
    if not options:
        return "use more repetitions, a larger alpha or fewer labels"
    return f"use {' or '.join(options)}, or more"


def _first_that_decides(present: int, design_with: Callable[[int], FrozenDesign]) -> int | None:
    """The smallest value above the present one with which a pair can be decided; None without one."""
    values = range(present + 1, present + MOST_MORE + 1)
    return next((n for n in values if _can_decide(design_with(n))), None)


def _can_decide(design: FrozenDesign) -> bool:
    return smallest_decidable_interim(design.test) is not None


def _anchors(evidence: Evidence, settings: ReportSettings) -> Mapping[str, tuple[float, float]]:
    scales = common_scale(evidence, settings)
    if scales is None:
        # Anchors that only reverse the sign: the test expects that greater scores are better.
        return {task: (0.0, -1.0) for task in evidence.tasks if evidence.is_minimised}
    # Anchors from the scores would move with each interim analysis,
    # and with them the scores already tested.
    if settings.normalisation == "observed":
        raise ConfigError(
            "normalisation=observed changes with every run; a frozen design needs anchors",
        )
    tasks_without_anchors = [task for task, scale in scales.items() if scale is None]
    if tasks_without_anchors:
        raise ConfigError(
            f"{', '.join(tasks_without_anchors)} cannot be normalised: declare "
            f"{evidence.declaration_key(tasks_without_anchors[0])}.random and "
            ".threshold",
        )
    return {task: (scale.low, scale.high) for task, scale in scales.items() if scale}
