"""Sequential non-inferiority: whether new scores are worse than those of a baseline by a margin."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.pairs.equivalence import check_margin
from rlexp.stats.sequential.comparison import PairLook, decide
from rlexp.stats.sequential.design import Design, Pair, smallest_decidable_interim

Array = NDArray[np.float64]

PAIR: Pair = ("candidate", "baseline")
"""The two labels of every non-inferiority test."""
REPETITIONS = 10_000
"""Relabellings that are drawn where there are too many to enumerate."""


class Judgement(StrEnum):
    """What a non-inferiority test says about the candidate."""

    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class NonInferiorityDesign:
    """A sequential non-inferiority test, fixed before the first score of the candidate.

    Attributes:
        group: New seeds n of the candidate at each interim analysis.
        interims: Largest number K of interim analyses.
        margin: The largest loss that does not matter, in units of the scores, above 0.
        alpha: Probability of a wrong decision, over all interim analyses and both directions, where the
            candidate is worse by exactly the margin.
    """

    group: int
    interims: int
    margin: float
    alpha: float

    @property
    def sequential(self) -> Design:
        """The design of the two-sided sequential test of the shifted scores."""
        return Design(
            group=self.group,
            interims=self.interims,
            pairs=(PAIR,),
            alpha=self.alpha,
            repetitions=REPETITIONS,
        )

    @property
    def first_deciding_look(self) -> int | None:
        """The first interim analysis that can decide anything; None where no interim analysis can."""
        return smallest_decidable_interim(self.sequential)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonInferiority:
    """The state of a non-inferiority test after all interim analyses that the scores allow.

    Attributes:
        judgement: The decision; undecided also means that further interim analyses are possible.
        analyses: Interim analyses so far.
        seeds: Seeds of each side that the interim analyses used.
        difference: Mean of the candidate minus mean of the baseline on these seeds, where greater
            is better; None before the first interim analysis.
        p: p-value of the last interim analysis; None before the first interim analysis.
        allowed: The largest p-value that decides at the last interim analysis; None before the first interim analysis.
        finished: Whether the test is decided, or all its interim analyses are over.
    """

    judgement: Judgement
    analyses: int
    seeds: int
    difference: float | None
    p: float | None
    allowed: float | None
    finished: bool


def judge(
    design: NonInferiorityDesign, candidate: ArrayLike, baseline: ArrayLike
) -> NonInferiority:
    """Test whether the candidate is worse than the baseline by the margin, as far as scores allow.

    The margin is added to the candidate's scores, and AdaStop's two-sided test compares the result
    with the baseline. Better then means not worse by the margin, and worse means worse by more than
    the margin. The null hypothesis is that the candidate's scores have the distribution of the
    baseline's, less the margin. The same scores always give the same judgement.

    Args:
        design: The design.
        candidate: Scores of the candidate in the order of the seeds, of shape (m,); greater is
            better. Only complete groups are tested.
        baseline: Scores of the baseline on the same seeds, of shape (n,) with n ≥ m.

    Raises:
        ValueError: The margin is not above 0, the baseline has too few scores, or a score is not
            finite.
    """
    check_margin(design.margin)
    scores, reference = np.asarray(candidate, float), np.asarray(baseline, float)
    count = min(len(scores) // design.group, design.interims) * design.group
    if len(reference) < count:
        raise ValueError(f"the baseline has {len(reference)} scores, and {count} are needed")
    shifted = _blocks(scores[:count] + design.margin, design.group)
    outcome = decide(
        design.sequential,
        {PAIR[0]: shifted, PAIR[1]: _blocks(reference[:count], design.group)},
    )
    looks = [look for interim in outcome.looks for look in interim]
    return _state(looks, scores, reference, design)


def _blocks(scores: Array, group: int) -> Array:
    return scores.reshape(-1, group)


def _state(
    looks: Sequence[PairLook], candidate: Array, baseline: Array, design: NonInferiorityDesign
) -> NonInferiority:
    last = looks[-1] if looks else None
    seeds = len(looks) * design.group
    decision = "continue" if last is None else last.decision
    judgement = {"better": Judgement.NOT_WORSE, "worse": Judgement.WORSE}.get(
        decision, Judgement.UNDECIDED
    )
    return NonInferiority(
        judgement=judgement,
        analyses=len(looks),
        seeds=seeds,
        difference=float(candidate[:seeds].mean() - baseline[:seeds].mean()) if seeds else None,
        p=None if last is None else last.p,
        allowed=None if last is None else last.budget,
        finished=decision != "continue",
    )
