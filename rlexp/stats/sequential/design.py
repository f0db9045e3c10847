"""The design of a sequential comparison: everything that is fixed before the first score is seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Relabellings:
    """Ways to deal the 2n scores of two labels out to them anew, within each block.

    There are C(2n, n) ways in a block and C(2n, n)^k in k of them. As many blocks as `limit`
    allows are enumerated; in the later ones each relabelling is completed at random. The first
    relabelling is always the true one. The enumerated part takes every way equally often, so that
    a p-value is exact as long as the interims are enumerated; afterwards the test keeps its level
    exactly, whatever the limit: applied to data that were relabelled by one of them, the set has
    the same law (Hemerik and Goeman 2018, "Exact testing with random permutations", theorem 2).

    Attributes:
        group: Scores n of a label in a block.
        blocks: At most so many.
        limit: At most so many relabellings.
        seed: Of those drawn.
    """

    group: int
    blocks: int
    limit: int
    seed: int

    @property
    def ways(self) -> int:
        """C(2n, n): ways to deal out the scores of one block."""
        return comb(2 * self.group, self.group)

    @property
    def enumerated(self) -> int:
        """Blocks in which every way is taken."""
        fitting = range(1, self.blocks + 1)
        return max((k for k in fitting if self.ways**k <= self.limit), default=0)

    @property
    def count(self) -> int:
        """How many relabellings there are, B."""
        cycle: int = self.ways**self.enumerated
        return cycle if self.enumerated == self.blocks else self.limit // cycle * cycle

    def least_p(self, blocks: int) -> float:
        """The smallest p-value that a two-sided test of so many blocks can have.

        The true relabelling and its mirror image are as extreme as each other; where relabellings
        are drawn, the mirror image may be missing.
        """
        ways: int = self.ways**blocks
        return max(2 / ways, 1 / self.count)

    def signs(self, block: int) -> Array:
        """To whom each score of a block goes.

        Args:
            block: Its number, from 0.

        Returns:
            Of shape (B, 2n): 1 for the first label, -1 for the second; in the first row, the
            first n scores are the first label's.
        """
        if block < self.enumerated:
            number = np.arange(self.count) // self.ways**block % self.ways
            return np.asarray(_every_way(self.group)[number])
        signs = np.tile(np.repeat([1.0, -1.0], self.group), (self.count, 1))
        generator = Resampling(seed=self.seed).generator(block)
        generator.permuted(signs[1:], axis=1, out=signs[1:])
        return signs

    def differences(self, first: Array, second: Array, block: int) -> Array:
        """Mean of the first label minus mean of the second, under every relabelling of a block.

        Args:
            first: Scores of the first label in the block, of shape (…, n).
            second: Of the second, of the same shape.
            block: Its number, from 0.

        Returns:
            Of shape (…, B), the true difference first.
        """
        pooled = np.concatenate([first, second], axis=-1)
        # The origin cancels; scores far from 0 keep their digits, and equal ones differ by 0.
        moved = pooled - pooled.min(axis=-1, keepdims=True)
        return np.asarray(moved @ self.signs(block).T) / self.group


def _every_way(group: int) -> Array:
    """Signs of all ways to deal out 2n scores, of shape (C(2n, n), 2n), the true one first."""
    chosen = np.array(list(combinations(range(2 * group), group)))
    signs = np.full((len(chosen), 2 * group), -1.0)
    np.put_along_axis(signs, chosen, 1.0, axis=1)
    return signs


Pair = tuple[str, str]
"""Two labels; the first is judged better or worse than the second."""

Family = Literal["holm", "bonferroni", "maxt"]
"""How the family-wise error is shared among pairs."""

ROUNDING = 1e-12
"""Numbers that differ by no more than this share of the largest are equal."""


def every_pair(labels: Sequence[str]) -> tuple[Pair, ...]:
    """All pairs of labels, in the order given."""
    return tuple(combinations(labels, 2))


def pairs_with_first(labels: Sequence[str]) -> tuple[Pair, ...]:
    """The first label with each of the others."""
    return tuple((labels[0], other) for other in labels[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A sequential comparison of labels, pair by pair (AdaStop: Mathieu et al. 2023).

    Attributes:
        group: New runs n of each undecided label at each interim.
        interims: At most so many, K.
        alpha: Family-wise error: the probability that any pair of equals is told apart, over all
            pairs and interims. By interim k, alpha k / K of it may be spent.
        pairs: Pairs to decide.
        family: `holm`, each pair by its own test, at the levels of a closed test; `bonferroni`,
            each at alpha / pairs; `maxt`, one test of the largest difference, stepping down.
        repetitions: Relabellings, where there are too many to enumerate.
        seed: Of those relabellings.
    """

    group: int
    interims: int
    pairs: tuple[Pair, ...]
    alpha: float = 0.05
    family: Family = "holm"
    repetitions: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no design, naming every mistake."""
        if mistakes := list(_mistakes(self)):
            raise ValueError(f"not a design: {'; '.join(mistakes)}")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the pairs, each once, in the order in which they appear."""
        return tuple(dict.fromkeys(label for pair in self.pairs for label in pair))

    @property
    def relabellings(self) -> Relabellings:
        """The relabellings that all pairs share."""
        return Relabellings(self.group, self.interims, self.repetitions, self.seed)

    @property
    def worst_case_runs(self) -> int:
        """Runs of all labels when nothing is decided before the last interim."""
        return len(self.labels) * self.group * self.interims

    @property
    def first_level(self) -> float:
        """The level at which the first pair is decided."""
        return self.alpha if self.family == "maxt" else self.alpha / len(self.pairs)


def smallest_decidable_interim(design: Design) -> int | None:
    """The first interim at which a pair can be decided at all, however far apart its scores are.

    Nothing where even the last interim has too few relabellings for the level: such a design ends
    with every pair undistinguished, and needs a larger group, more interims or more repetitions.
    """
    for interim in range(1, design.interims + 1):
        budget = design.first_level * interim / design.interims
        if design.relabellings.least_p(interim) <= budget + ROUNDING:
            return interim
    return None


def _mistakes(design: Design) -> Iterable[str]:
    if design.group < 1 or design.interims < 1:
        yield f"group {design.group} and interims {design.interims} must be 1 or more"
    if not 0 < design.alpha < 1:
        yield f"alpha {design.alpha} must lie between 0 and 1"
    if design.family not in get_args(Family):
        yield f"there is no family {design.family!r}; families: {', '.join(get_args(Family))}"
    if design.repetitions < 2 or design.seed < 0:
        yield "repetitions must be 2 or more, and the seed 0 or more"
    if not design.pairs:
        yield "there is no pair to decide: name two labels"
    if len({frozenset(pair) for pair in design.pairs}) < len(design.pairs):
        yield "a pair is named twice"
    yield from (f"{a!r} cannot be compared with itself" for a, b in design.pairs if a == b)
