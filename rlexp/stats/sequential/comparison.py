"""Sequential comparison of labels: runs are added in groups until every pair is decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.pairs.difference import LARGEST_SCORE
from rlexp.stats.sequential.design import (
    Design,
    Family,
    Pair,
    every_pair,
    pairs_with_first,
    smallest_decidable_interim,
)
from rlexp.stats.sequential.looks import (
    GroupSequentialLook,
    SequentialState,
    first_state,
    next_look,
)

__all__ = [
    "Design",
    "Family",
    "Pair",
    "every_pair",
    "pairs_with_first",
    "smallest_decidable_interim",
]

Decision = Literal["better", "worse", "equal", "continue"]
"""Decision on the first label of a pair against the second.

`equal` means that the pair was not distinguished until the last interim; it is no evidence that
both labels are equally good. `continue` means that further runs are needed.
"""

GivenBlocks = Mapping[str, Sequence[ArrayLike] | NDArray[np.float64]]
"""Blocks of n scores by label, in any form that NumPy can convert."""

Blocks = dict[str, NDArray[np.float64]]
"""Scores by label, of shape (blocks, n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLook:
    """The interim analysis of one pair.

    Attributes:
        pair: The two labels.
        interim: Number of the interim, from 1.
        difference: Sum over blocks of the first label's mean score minus the second's.
        p: Fraction of the relabellings that are alive and have at least this difference, in the
            pair's test or in the joint test of all undecided pairs.
        budget: Largest p that decides the pair.
        crossed: Interim at which p and budget were computed and the boundary was crossed. With
            `holm` it may be earlier than the decision. None if no boundary was crossed.
        boundary: The difference beyond which a relabelling dies; None once decided.
        spent: Fraction of the relabellings that have died so far.
        decision: Decision after this interim.
    """

    pair: Pair
    interim: int
    difference: float
    p: float
    budget: float
    crossed: int | None
    boundary: float | None
    spent: float
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialDecision:
    """State of a sequential comparison after all possible interims.

    Attributes:
        design: Design of the comparison.
        looks: For each interim, the analyses of the pairs that were undecided before it, in the
            order of the design.
        decisions: Decision on every pair.
        interims: Interim at which each pair was decided, or the last interim.
        needed: Labels that need a further block of runs, in the order of the design.
        runs: Runs that the interims used, by label.
    """

    design: Design
    looks: tuple[tuple[PairLook, ...], ...]
    decisions: Mapping[Pair, Decision]
    interims: Mapping[Pair, int]
    needed: tuple[str, ...]
    runs: Mapping[str, int]

    @property
    def finished(self) -> bool:
        """Whether every pair is decided or the last interim is over."""
        return "continue" not in self.decisions.values()

    @property
    def saved_runs(self) -> int:
        """Runs saved compared with the fixed design, which always uses all interims."""
        return self.design.worst_case_runs - sum(self.runs.values())


def decide(design: Design, blocks: GivenBlocks) -> SequentialDecision:
    """Decide every pair as far as the available scores allow (AdaStop, two-sided).

    The same scores always give the same decisions: an interrupted comparison continues by deciding
    from all scores again. Interim k is analysed once every label of an undecided pair has k
    blocks. Further blocks, and blocks of labels whose pairs are all decided, are ignored.

    The null hypothesis is that both labels of a pair have the same distribution of scores, so that
    all assignments of the scores of a block to the labels are equally likely. The probability of a
    wrong rejection, over all pairs and interims, is at most alpha: exactly with `holm` and
    `bonferroni`, approximately with `maxt` (see `docs/decisions/0006-pairs-share-alpha.md`).

    With several tasks, give each seed one score, its mean normalised score over the tasks. Separate
    comparisons of each task would have to share alpha too.

    Args:
        design: The design, fixed before the first score was seen.
        blocks: For each label its blocks of n scores, in the order of the seeds. The order within
            a block matters for `maxt` only, which relabels the same positions of all pairs.

    Raises:
        ValueError: A label of the design is missing, a block does not have n scores, or a score is
            not a finite number up to 1e100.
    """
    scores = {label: _checked(design, label, blocks) for label in design.labels}
    state = first_state(design, 1)
    looks: list[tuple[PairLook, ...]] = []
    while state.looks < design.interims and not _lacking(design, state, scores):
        if not state.undecided.any():
            break
        before = state.undecided[0]
        state, look = next_look(design, state, *_block(design, scores, state.looks))
        pairs = np.flatnonzero(before)
        looks.append(tuple(_pair_look(design, state, look, int(pair)) for pair in pairs))
    return _outcome(design, state, scores, tuple(looks))


def _checked(design: Design, label: str, blocks: GivenBlocks) -> NDArray[np.float64]:
    if label not in blocks:
        raise ValueError(f"label {label!r} of the design has no blocks: give an empty list")
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks[label]]
    for number, array in enumerate(arrays, 1):
        if array.shape != (design.group,):
            raise ValueError(
                f"block {number} of {label!r} has shape {array.shape}; the design needs "
                f"({design.group},): give complete blocks only"
            )
        if not (np.abs(array) <= LARGEST_SCORE).all():
            raise ValueError(
                f"block {number} of {label!r} has a score that is no finite number up to 1e100: "
                "run a failed seed again"
            )
    return np.array(arrays).reshape(-1, design.group)


def _lacking(design: Design, state: SequentialState, scores: Blocks) -> tuple[str, ...]:
    """Labels of undecided pairs that have no block for the next interim."""
    undecided = np.flatnonzero(state.undecided[0])
    needed = {label for pair in undecided for label in design.pairs[pair]}
    return tuple(
        label for label in design.labels if label in needed and len(scores[label]) <= state.looks
    )


def _block(
    design: Design, scores: Blocks, number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One block of both labels of each pair, of shape (1, m, n); zeros for a missing block."""
    # A missing block can only belong to decided pairs, whose scores are ignored.
    none = np.zeros(design.group)
    block = {k: v[number] if number < len(v) else none for k, v in scores.items()}
    first, second = ([block[label] for label in side] for side in zip(*design.pairs, strict=True))
    return np.array([first]), np.array([second])


def _pair_look(
    design: Design, state: SequentialState, look: GroupSequentialLook, pair: int
) -> PairLook:
    difference = float(state.sums[0, pair, 0])
    rejected = bool(look.rejected[0, pair])
    decision: Decision = "equal" if state.looks == design.interims else "continue"
    if rejected:
        decision = "better" if difference > 0 else "worse"
    return PairLook(
        pair=design.pairs[pair],
        interim=state.looks,
        difference=difference,
        p=float(look.p[0, pair]),
        budget=float(look.budget[0, pair]),
        crossed=int(look.crossed[0, pair]) or None,
        boundary=None if rejected else float(look.boundary[0, pair]),
        spent=float(look.spent[0, pair]),
        decision=decision,
    )


def _outcome(
    design: Design, state: SequentialState, scores: Blocks, looks: tuple[tuple[PairLook, ...], ...]
) -> SequentialDecision:
    last = {look.pair: look for interim in looks for look in interim}
    interims = {pair: last[pair].interim if pair in last else 0 for pair in design.pairs}
    used = {
        label: max(interims[pair] for pair in design.pairs if label in pair)
        for label in design.labels
    }
    return SequentialDecision(
        design=design,
        looks=looks,
        decisions={p: last[p].decision if p in last else "continue" for p in design.pairs},
        interims=interims,
        needed=_lacking(design, state, scores) if state.looks < design.interims else (),
        runs={label: design.group * blocks for label, blocks in used.items()},
    )
