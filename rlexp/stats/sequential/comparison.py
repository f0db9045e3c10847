"""Sequential comparison of labels: runs are added in groups until every pair is told apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.difference import LARGEST_SCORE
from rlexp.stats.sequential.design import (
    Design,
    Family,
    Pair,
    every_pair,
    pairs_with_first,
    smallest_decidable_interim,
)
from rlexp.stats.sequential.looks import Look, State, first_state, next_look

__all__ = [
    "Decision",
    "Design",
    "Family",
    "Outcome",
    "Pair",
    "PairLook",
    "decide",
    "every_pair",
    "pairs_with_first",
    "smallest_decidable_interim",
]

Decision = Literal["better", "worse", "equal", "continue"]
"""Of the first label of a pair against the second; `equal` means not told apart by the last
interim, which is no evidence that both are equally good; `continue` needs further runs."""

Given = Mapping[str, Sequence[ArrayLike] | NDArray[np.float64]]
"""Blocks of n scores by label, as they may be given."""

Blocks = dict[str, NDArray[np.float64]]
"""Scores by label, of shape (blocks, n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLook:
    """One pair at one interim.

    Attributes:
        pair: Its labels.
        interim: From 1.
        difference: Sum over blocks of the first label's mean score less the second's.
        p: Share of the relabellings that are alive and differ by as much; of the pair's own test,
            or of the joint test of all pairs that were undecided.
        budget: What p may be at most.
        crossed: Interim at which the boundary was crossed that p and budget are of; with `holm`
            that may be before the interim at which it decides. Nothing where none is crossed.
        boundary: The difference beyond which a relabelling dies; nothing once decided.
        spent: Share of the relabellings that have died by now.
        decision: After this look.
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
class Outcome:
    """Where a sequential comparison stands.

    Attributes:
        design: Of the comparison.
        looks: Interim by interim, every pair that was undecided before it, as the design has them.
        decisions: Of every pair.
        interims: At which each pair was decided, or the last one made.
        needed: Labels that need a further block of runs, in the design's order.
        runs: Runs that the looks used, by label.
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
        """Runs that the fixed design of as many would have used besides."""
        return self.design.worst_case_runs - sum(self.runs.values())


def decide(design: Design, blocks: Given) -> Outcome:
    """Decide every pair as far as the scores go (AdaStop, in its two-sided form).

    The same scores always give the same outcome, so a comparison that was interrupted goes on by
    deciding from all scores again. Interim k is made once every label of an undecided pair has k
    blocks; further blocks, and those of labels whose pairs are all decided, are not looked at.

    What is tested is that both labels of a pair have the same distribution of scores: then every
    way to deal out the scores of a block was equally likely. Over all pairs and interims, equals
    are told apart with a probability of alpha at most: exactly with `holm` and `bonferroni`,
    nearly with `maxt` (see `docs/decisions/0006-pairs-share-alpha.md`).

    With several tasks, give each seed one score, its mean normalised score over the tasks; a
    comparison of each task by itself would need to share alpha among them too.

    Args:
        design: Fixed before the first score was seen.
        blocks: For each label, its blocks of n scores each, in the order of the seeds. The order
            within a block matters to `maxt` only, which relabels the same places of all pairs.

    Raises:
        ValueError: A label of the design is missing, a block is not of n scores, or a score is not
            a finite number up to 1e100.
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


def _checked(design: Design, label: str, blocks: Given) -> NDArray[np.float64]:
    if label not in blocks:
        raise ValueError(f"label {label!r} of the design has no blocks: give an empty list")
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks[label]]
    for number, array in enumerate(arrays, 1):
        if array.shape != (design.group,):
            raise ValueError(
                f"block {number} of {label!r} has shape {array.shape}; the design needs "
                f"({design.group},): give whole blocks only"
            )
        if not (np.abs(array) <= LARGEST_SCORE).all():
            raise ValueError(
                f"block {number} of {label!r} holds a score that is no number up to 1e100; "
                "a failure is no score: run its seed again"
            )
    return np.array(arrays).reshape(-1, design.group)


def _lacking(design: Design, state: State, scores: Blocks) -> tuple[str, ...]:
    """Labels of undecided pairs that have no block for the next look."""
    undecided = np.flatnonzero(state.undecided[0])
    wanted = {label for pair in undecided for label in design.pairs[pair]}
    return tuple(
        label for label in design.labels if label in wanted and len(scores[label]) <= state.looks
    )


def _block(
    design: Design, scores: Blocks, number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One block of both sides of each pair, of shape (1, m, n); zeros where there is none."""
    none = np.zeros(design.group)
    block = {k: v[number] if number < len(v) else none for k, v in scores.items()}
    first, second = ([block[label] for label in side] for side in zip(*design.pairs, strict=True))
    return np.array([first]), np.array([second])


def _pair_look(design: Design, state: State, look: Look, pair: int) -> PairLook:
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
    design: Design, state: State, scores: Blocks, looks: tuple[tuple[PairLook, ...], ...]
) -> Outcome:
    last = {look.pair: look for interim in looks for look in interim}
    interims = {pair: last[pair].interim if pair in last else 0 for pair in design.pairs}
    used = {
        label: max(interims[pair] for pair in design.pairs if label in pair)
        for label in design.labels
    }
    return Outcome(
        design=design,
        looks=looks,
        decisions={p: last[p].decision if p in last else "continue" for p in design.pairs},
        interims=interims,
        needed=_lacking(design, state, scores) if state.looks < design.interims else (),
        runs={label: design.group * blocks for label, blocks in used.items()},
    )
