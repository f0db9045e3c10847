"""The design of a sequential comparison: all settings that are fixed before the first score."""

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
    """Relabellings: assignments of the 2n scores of two labels to the labels, within each block.

    A block has C(2n, n) relabellings, and k blocks have C(2n, n)^k. As many blocks as `limit`
    allows are enumerated; in the later blocks each relabelling is completed at random. The first
    relabelling is always the true one. The enumerated part has every assignment equally often, so
    that p-values are exact while the interims are enumerated. Afterwards the test still keeps its
    level exactly, for any limit: the set of relabellings has the same distribution if it is applied
    to data that were relabelled by one of its members (Hemerik and Goeman 2018, "Exact testing with
    random permutations", theorem 2).

    Attributes:
        group: Scores n of a label in a block.
        blocks: Largest number of blocks.
        limit: Largest number of relabellings.
        seed: Seed of the random relabellings.
    """

    group: int
    blocks: int
    limit: int
    seed: int

    @property
    def ways(self) -> int:
        """Number C(2n, n) of relabellings of one block."""
        return comb(2 * self.group, self.group)

    @property
    def enumerated(self) -> int:
        """Number of blocks whose relabellings are all enumerated."""
        fitting = range(1, self.blocks + 1)
        return max((k for k in fitting if self.ways**k <= self.limit), default=0)

    @property
    def count(self) -> int:
        """Number B of relabellings."""
        # A multiple of the enumerated part, so that it has every assignment equally often.
        cycle: int = self.ways**self.enumerated
        return cycle if self.enumerated == self.blocks else self.limit // cycle * cycle

    def least_p(self, blocks: int) -> float:
        """Smallest p-value that a two-sided test of a number of blocks can have.

        The true relabelling and its mirror image are equally extreme. Among random relabellings
        the mirror image may be missing.
        """
        ways: int = self.ways**blocks
        return max(2 / ways, 1 / self.count)

    def signs(self, block: int) -> Array:
        """The relabellings of a block, as signs.

        Args:
            block: Number of the block, from 0.

        Returns:
            Of shape (B, 2n): 1 assigns a score to the first label, -1 to the second. In the first
            row the first n scores are the first label's.
        """
        if block < self.enumerated:
            number = np.arange(self.count) // self.ways**block % self.ways
            return np.asarray(_every_way(self.group)[number])
        signs = np.tile(np.repeat([1.0, -1.0], self.group), (self.count, 1))
        generator = Resampling(seed=self.seed).generator(block)
        # The first row stays as it is: it is the true relabelling.
        generator.permuted(signs[1:], axis=1, out=signs[1:])
        return signs

    def differences(self, first: Array, second: Array, block: int) -> Array:
        """Mean of the first label minus mean of the second, under every relabelling of a block.

        Args:
            first: Scores of the first label in the block, of shape (…, n).
            second: Scores of the second label, of the same shape.
            block: Number of the block, from 0.

        Returns:
            Of shape (…, B), the true difference first.
        """
        pooled = np.concatenate([first, second], axis=-1)
        # The common origin cancels. Without it, scores far from 0 would lose digits, and equal
        # scores would have differences other than 0.
        moved = pooled - pooled.min(axis=-1, keepdims=True)
        return np.asarray(moved @ self.signs(block).T) / self.group


def _every_way(group: int) -> Array:
    """Signs of all relabellings of 2n scores, of shape (C(2n, n), 2n), the true one first."""
    chosen = np.array(list(combinations(range(2 * group), group)))
    signs = np.full((len(chosen), 2 * group), -1.0)
    np.put_along_axis(signs, chosen, 1.0, axis=1)
    return signs


Pair = tuple[str, str]
"""Two labels; the first is judged better or worse than the second."""

Family = Literal["holm", "bonferroni", "maxt"]
"""Method that shares the family-wise error among pairs."""

ROUNDING = 1e-12
"""Numbers that differ by no more than this fraction of the largest count as equal."""


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
        interims: Largest number K of interims.
        alpha: Family-wise error: probability that any pair of equal labels is distinguished, over
            all pairs and interims. Up to interim k, alpha k / K of it may be spent.
        pairs: Pairs to decide.
        family: `holm`: each pair has its own test, at the levels of a closed test. `bonferroni`:
            each pair is tested at alpha / pairs. `maxt`: one step-down test of the largest
            difference.
        repetitions: Number of relabellings if there are too many to enumerate.
        seed: Seed of the random relabellings.
    """

    group: int
    interims: int
    pairs: tuple[Pair, ...]
    alpha: float = 0.05
    family: Family = "holm"
    repetitions: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an invalid design, with all mistakes in one message."""
        if mistakes := list(_mistakes(self)):
            raise ValueError(f"invalid design: {'; '.join(mistakes)}")

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
        """Runs of all labels if no pair is decided before the last interim."""
        return len(self.labels) * self.group * self.interims

    @property
    def first_level(self) -> float:
        """The level at which the first pair is decided."""
        return self.alpha if self.family == "maxt" else self.alpha / len(self.pairs)


def smallest_decidable_interim(design: Design) -> int | None:
    """The first interim at which a pair can be decided, even with completely separated scores.

    None if even the last interim has too few relabellings for the level. Such a design never
    decides a pair; it needs a larger group, more interims or more repetitions.
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
        yield f"family {design.family!r} must be one of {', '.join(get_args(Family))}"
    if design.repetitions < 2 or design.seed < 0:
        yield "repetitions must be 2 or more, and the seed 0 or more"
    if not design.pairs:
        yield "there is no pair to decide: give at least two labels"
    if len({frozenset(pair) for pair in design.pairs}) < len(design.pairs):
        yield "a pair is given twice"
    yield from (f"{a!r} cannot be compared with itself" for a, b in design.pairs if a == b)
