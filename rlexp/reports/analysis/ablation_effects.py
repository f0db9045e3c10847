"""The effects of an ablation: what each change does to the score, and what did it.

`rlexp ablate`, its JSON and the section of a report show the numbers of `ablation_effects`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.records.ablation import AblatedChange, AblationKind, Contrast
from rlexp.reports.analysis.seed_blocks import seed_blocks
from rlexp.reports.evidence.ablations import AblationEvidence
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.stats.interval import Interval
from rlexp.stats.level_warning import sequential_level_warning
from rlexp.stats.sequential.comparison import PairLook, SequentialDecision, decide
from rlexp.stats.sequential.intervals import repeated_interval
from rlexp.stats.task_scores import TaskScores

Blocks = Mapping[str, Sequence[NDArray[np.float64]]]
"""Groups of scores in the order of the seeds, by label; greater is better."""


INTERACTIONS: Mapping[tuple[str, str], str] = {
    ("better", "worse"): "helps together with the other changes, and harms alone",
    ("worse", "better"): "helps alone, and harms together with the other changes",
    ("better", "equal"): "helps together with the other changes; no effect alone was found",
    ("equal", "better"): "helps alone; no effect beside the other changes was found",
    ("worse", "equal"): "harms together with the other changes; no effect alone was found",
    ("equal", "worse"): "harms alone; no effect beside the other changes was found",
}
"""What the decisions on a change say, in place and alone, where they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one change does to the score, while everything else stays equal.

    Attributes:
        first: The label with the new value.
        second: The label with the old value.
        difference: Mean score of `first` minus that of `second`, in units of the score, with its
            interval; null before the first interim analysis. `n` counts the runs of both.
        decision: `better`, `worse`, `equal` (undecided at the last interim analysis) or `continue`.
        look: The interim analysis at which it was decided, or the last one; null before the first.
        p: The p-value at that interim analysis.
        allowed: The largest p-value that decides there.
        warning: Why the decision may not hold its level; null where the runs look usual.
    """

    first: str
    second: str
    difference: Interval | None
    decision: str
    look: int | None
    p: float | None
    allowed: float | None
    warning: str | None

    @property
    def is_decided(self) -> bool:
        """Whether the two labels were told apart."""
        return self.decision in {"better", "worse"}

    @property
    def estimate(self) -> float:
        """The difference; 0 before the first interim analysis."""
        return 0.0 if self.difference is None else self.difference.estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEffects:
    """One change between the two configurations, with its effects.

    Attributes:
        name: Its short name.
        old: The value of each of its keys in the first configuration; null where a key has none.
        new: The value of each of its keys in the second configuration.
        importance: Its share in the importance of the sweep's parameters; null where it is unknown.
        left_out: The second configuration against itself without the change; null without such
            runs.
        added: The first configuration with the change against itself; null without such runs.
        step: The step of the path that adds the change against the step before it; null without a
            path.
        interaction: What leaving out and adding say together, in words; null where they agree.
        remark: Why an effect is missing; null without a reason.
    """

    name: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    importance: float | None
    left_out: Effect | None
    added: Effect | None
    step: Effect | None
    interaction: str | None
    remark: str | None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects that exist."""
        return tuple(e for e in (self.left_out, self.added, self.step) if e is not None)

    @property
    def main(self) -> Effect | None:
        """The effect that says whether the change did it: in place, in its step, or alone."""
        return self.left_out or self.step or self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationEffects:
    """All effects of an ablation.

    Attributes:
        experiment: The name of the experiment.
        kind: How changes are judged: `each`, `path` or `commits`.
        total: The second configuration against the first.
        changes: The changes with their effects, in the order of the ablation.
        order: How the order of a path was found; null without a path.
        lower_is_better: Whether the score is minimised.
        finished: Whether every contrast is decided, or the last interim analysis was made.
        looks: Number of interim analyses so far.
        interims: Largest number of interim analyses.
        group: New seeds of each label at each interim analysis.
        alpha: Family-wise error over all contrasts and interim analyses.
        family: The method that controls it.
        contrasts: Number of contrasts.
    """

    experiment: str
    kind: AblationKind
    total: Effect
    changes: tuple[ChangeEffects, ...]
    order: str | None
    lower_is_better: bool
    finished: bool
    looks: int
    interims: int
    group: int
    alpha: float
    family: str
    contrasts: int

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The total, then the effects of every change."""
        return (self.total, *(e for change in self.changes for e in change.effects))


def ablation_effects(of: AblationEvidence, evidence: Evidence) -> AblationEffects | None:
    """The effects of an ablation; None where the evidence lacks one of its labels."""
    cells = _cells(of, evidence)
    if any(label not in cells for label in of.design.labels):
        return None
    design = of.design
    blocks = {
        label: seed_blocks(cells[label], of.anchors, design.group, design.interims)
        for label in design.labels
    }
    decided = decide(design, blocks)
    minimised = any(high < low for low, high in of.anchors.values())
    judge = _Judge(decided, blocks, minimised=minimised)
    return AblationEffects(
        experiment=of.experiment,
        kind=of.ablation.kind,
        total=judge.effect(of.ablation.total),
        changes=tuple(_with_effects(change, judge) for change in of.ablation.changes),
        order=of.ablation.order,
        lower_is_better=minimised,
        finished=decided.finished,
        looks=len(decided.looks),
        interims=design.interims,
        group=design.group,
        alpha=design.alpha,
        family=design.family,
        contrasts=len(design.pairs),
    )


def _cells(of: AblationEvidence, evidence: Evidence) -> dict[str, list[LabelTaskRuns]]:
    """The runs of the ablation by the labels that it declared.

    A report of several experiments may show another label, where two of them share it.
    """
    cells: dict[str, list[LabelTaskRuns]] = {}
    for cell in evidence.cells.values():
        first = cell.members[0]
        if first.experiment == of.experiment:
            cells.setdefault(first.configuration.label, []).append(cell)
    return cells


@dataclass(frozen=True, slots=True)
class _Judge:
    """The decisions of a comparison, with the scores behind them."""

    decided: SequentialDecision
    blocks: Blocks
    minimised: bool

    def effect(self, contrast: Contrast) -> Effect:
        """The effect of one contrast, from the runs up to the interim that decided it."""
        first, second = contrast
        looks = self.decided.interims[contrast]
        last = _last_look(self.decided, contrast)
        sides = [np.array(self.blocks[label][:looks]) for label in contrast]
        return Effect(
            first=first,
            second=second,
            difference=self._difference(sides, last) if looks else None,
            decision=self.decided.decisions[contrast],
            look=looks or None,
            p=None if last is None else last.p,
            allowed=None if last is None else last.budget,
            warning=self._warning(contrast, sides) if looks else None,
        )

    def _difference(self, sides: list[NDArray[np.float64]], last: PairLook | None) -> Interval:
        decided = last is not None and last.decision in {"better", "worse"}
        interval = repeated_interval(self.decided.design, *sides, excludes_zero=decided)
        if not self.minimised:
            return interval
        # The test expects greater scores to be better; the difference is in units of the score.
        low, high = interval.low, interval.high
        return replace(
            interval,
            estimate=-interval.estimate,
            low=None if high is None else -high,
            high=None if low is None else -low,
        )

    def _warning(self, contrast: Contrast, sides: list[NDArray[np.float64]]) -> str | None:
        scores = [TaskScores.from_tasks([np.ravel(side)]) for side in sides]
        group = self.decided.design.group
        return sequential_level_warning(scores[0], scores[1], *contrast, group=group)


def _last_look(decided: SequentialDecision, contrast: Contrast) -> PairLook | None:
    looks = [look for interim in decided.looks for look in interim if look.pair == contrast]
    return looks[-1] if looks else None


def _with_effects(change: AblatedChange, judge: _Judge) -> ChangeEffects:
    left_out, added, step = (
        None if contrast is None else judge.effect(contrast)
        for contrast in (change.left_out, change.added, change.step)
    )
    return ChangeEffects(
        name=change.name,
        old=change.old,
        new=change.new,
        importance=change.importance,
        left_out=left_out,
        added=added,
        step=step,
        interaction=_interaction(left_out, added),
        remark=change.remark,
    )


def _interaction(left_out: Effect | None, added: Effect | None) -> str | None:
    """What the two effects of a change say together; None where they agree or are open."""
    if left_out is None or added is None or left_out == added:
        return None
    return INTERACTIONS.get((left_out.decision, added.decision))
