"""Ways to judge candidates: those of `rlexp propose`, what research loops do, and other bets."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from candidate_streams import Array, Counts, Mask

from rlexp.stats.sequential.candidates import (
    REASONS,
    CandidateReason,
    StreamDesign,
    candidate_level,
    decide,
    seed_signs,
    worse_e_value,
)
from rlexp.stats.sequential.design import ROUNDING

BETTER = REASONS.index(CandidateReason.BETTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineJudge:
    """The judgement of `rlexp propose`.

    Attributes:
        design: Of the stream.
        fresh: Whether every candidate has fresh seeds on both sides.
        corrected: Whether the stream shares alpha; if not, every candidate has alpha.
    """

    design: StreamDesign = field(default_factory=StreamDesign)
    fresh: bool = False
    corrected: bool = True

    @property
    def seeds(self) -> int:
        """Most seeds of a candidate."""
        return self.design.seeds

    def judge(
        self, candidate: Array, champion: Array, number: int, kept: Counts
    ) -> tuple[Mask, Counts]:
        """StreamHistories with as many keeps have the same level and are decided together."""
        signs = seed_signs(candidate, champion, self.design.margin)
        better, used = np.zeros(len(signs), bool), np.zeros(len(signs), np.int64)
        for before in np.unique(kept):
            rows = kept == before
            level = candidate_level(self.design, number, int(before))
            codes, used[rows] = decide(
                signs[rows], level if self.corrected else self.design.alpha, self.design
            )
            better[rows] = codes == BETTER
        return better, used


@dataclass(frozen=True, slots=True)
class KeepIfBetter:
    """What research loops do: keep the candidate if its mean is higher.

    Attributes:
        seeds: Seeds of the mean. The mean of a configuration with a failed run is below all others.
    """

    seeds: int
    fresh: bool = False

    def judge(
        self, candidate: Array, champion: Array, number: int, kept: Counts
    ) -> tuple[Mask, Counts]:
        """Compare the means."""
        del number, kept
        new, old = (np.nan_to_num(x, nan=-np.inf).mean(axis=1) for x in (candidate, champion))
        return new > old, np.full(len(new), self.seeds)


@dataclass(frozen=True, kw_only=True)
class UniformStakes:
    """e-LOND with gamblers whose stakes are uniform on [0, 1], which know no number of seeds.

    A candidate is dropped as soon as wins on all remaining seeds would not be enough.
    """

    design: StreamDesign = field(default_factory=StreamDesign)
    fresh: bool = False

    @property
    def seeds(self) -> int:
        """Most seeds of a candidate."""
        return self.design.seeds

    @cached_property
    def wealth(self) -> Array:
        """The e-value after w wins and l losses, of shape (N + 1, N + 1)."""
        sizes = range(self.seeds + 1)
        return np.array([[worse_e_value(lost, won) for lost in sizes] for won in sizes])

    def judge(
        self, candidate: Array, champion: Array, number: int, kept: Counts
    ) -> tuple[Mask, Counts]:
        """Follow the wealth of all streams."""
        signs = seed_signs(candidate, champion, self.design.margin)
        won, lost = (np.cumsum(signs == sign, axis=1) for sign in (1, -1))
        levels = [candidate_level(self.design, number, int(k)) for k in kept]
        needed = 1 / np.array(levels)[:, None]
        left = self.seeds - np.arange(1, self.seeds + 1)
        better = self.wealth[won, lost] >= needed
        ended = better | (self.wealth[won + left, lost] < needed)
        first = ended.argmax(axis=1)
        return better[np.arange(len(first)), first], first + 1


@dataclass(frozen=True, kw_only=True)
class SignedRanks:
    """Wilcoxon's signed-rank test of all N seeds at the level of e-LOND, which uses magnitudes.

    Its level needs differences that are symmetric about 0 where the candidate is no better. A
    candidate is dropped as soon as its lost ranks are too many.
    """

    design: StreamDesign = field(default_factory=StreamDesign)
    fresh: bool = False

    @property
    def seeds(self) -> int:
        """Seeds of a candidate."""
        return self.design.seeds

    @cached_property
    def chances(self) -> tuple[Array, ...]:
        """P(sum of negative ranks ≤ s) of n fair differences, for n = 0 to N; of shape (s + 1,)."""
        counts, tables = np.ones(1), [np.ones(1)]
        for rank in range(1, self.seeds + 1):
            shifted = np.concatenate([np.zeros(rank), counts])
            counts = np.concatenate([counts, np.zeros(rank)]) + shifted
            tables.append(np.cumsum(counts) / 2**rank)
        return tuple(tables)

    def judge(
        self, candidate: Array, champion: Array, number: int, kept: Counts
    ) -> tuple[Mask, Counts]:
        """Compare the negative ranks with the largest sum whose chance is within the level."""
        levels = [candidate_level(self.design, number, int(k)) for k in kept]
        differences = _differences(candidate, champion)
        sums = np.stack(
            [_negative_ranks(differences[:, : n + 1]) for n in range(self.seeds)], axis=1
        )
        informative = (differences != 0).sum(axis=1)
        largest = np.array(
            [
                np.searchsorted(self.chances[n], level * (1 + ROUNDING), side="right") - 1
                for n, level in zip(informative, levels, strict=True)
            ]
        )
        # The sum only grows with further seeds; without ties, the limit is known from the start.
        lost = sums > largest[:, None]
        used = np.where(lost.any(axis=1), lost.argmax(axis=1) + 1, self.seeds)
        return ~lost[:, -1] & (largest >= 0), used


def _differences(candidate: Array, champion: Array) -> Array:
    """Differences of shape (S, N); larger than all others where one run failed."""
    signs = seed_signs(candidate, champion, 0.0)
    gap = np.abs(candidate - champion)
    size = np.where(np.isfinite(gap), gap, np.inf)
    return np.where(signs == 0, 0, np.copysign(size, signs))


def _negative_ranks(differences: Array) -> Array:
    """Sum of the mean ranks of the negative among n differences other than 0, of shape (S,)."""
    size = np.where(differences == 0, np.inf, np.abs(differences))
    counted = (differences != 0)[:, None, :]
    below = ((size[:, None, :] < size[:, :, None]) & counted).sum(axis=2)
    equal = ((size[:, None, :] == size[:, :, None]) & counted).sum(axis=2)
    ranks = below + (equal + 1) / 2
    return np.asarray(np.where(differences < 0, ranks, 0).sum(axis=1))
