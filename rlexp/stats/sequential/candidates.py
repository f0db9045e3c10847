"""Candidates of a stream, each judged against the champion of its time, seed by seed.

A stream is a sequence of candidates t = 1, 2, … A candidate that is kept becomes the champion. The
false discovery rate of the whole stream is controlled by e-LOND (Xu and Ramdas 2024, "Online
multiple testing with e-values"): candidate t has the level α_t = α γ_t (R + 1), where R candidates
were kept before and γ sums to at most 1, and it is kept where its e-value reaches 1 / α_t.

The e-value is the wealth of a gambler who starts with 1 and bets on the sign of every paired
difference. The null hypothesis is that a fresh seed is won with a probability that is not above
that of a loss. No distribution of scores is assumed. The gambler bets on one outcome of Pascal's problem
of points: that the candidate wins w seeds before it loses ℓ + 1. Of all tests of w + ℓ signs with
the same probability of a false keep, this one keeps better candidates most often (Neyman and
Pearson 1933), and a candidate that is no better costs few seeds.

The level holds at any stopping time where every candidate has fresh seeds on both sides. On common
seeds, `docs/decisions/0030-candidates-by-e-values.md` shows when it holds.

Shapes: n seeds, in their fixed order. Scores are in the units of the measure; greater is better.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, comb, isfinite, log2

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sequential.design import ROUNDING

Signs = NDArray[np.int8]
Codes = NDArray[np.int8]
Counts = NDArray[np.int64]

HALF_SPENT = 50
"""Candidates of an endless stream after which half of alpha is spent."""


class CandidateState(StrEnum):
    """What is known about a candidate after some seeds."""

    KEPT = "kept"
    DISCARDED = "discarded"
    CONTINUE = "continue"
    UNDECIDED = "undecided"


class CandidateReason(StrEnum):
    """Why a candidate has its state; the codes are stable.

    `better`: the e-value has reached its threshold. `worse`: the losses show at the level alpha of
    the stream that the champion is better. `out_of_reach`: the candidate cannot be kept any more,
    even if it wins all remaining seeds. `budget_spent`: the last seed is used, and the candidate is
    not kept. `more_seeds`: the next seed can still decide.
    """

    BETTER = "better"
    WORSE = "worse"
    OUT_OF_REACH = "out_of_reach"
    BUDGET_SPENT = "budget_spent"
    MORE_SEEDS = "more_seeds"


REASONS = tuple(CandidateReason)
"""The reasons in the order of the codes of `decide`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDesign:
    """The judgement of a stream of candidates, fixed before the first score.

    Attributes:
        alpha: False discovery rate of the stream: the largest expected share of false keeps among
            all keeps.
        seeds: Most seeds of a candidate.
        horizon: Declared number of candidates, which share alpha equally; None for an endless
            stream, of which the first 50 candidates have half of alpha.
        margin: Smallest improvement that matters, in units of the scores, 0 or more. A seed is won
            where the candidate is better by more than the margin.
    """

    alpha: float = 0.05
    seeds: int = 16
    horizon: int | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid design, with all mistakes in one message."""
        mistakes = []
        if not 0 < self.alpha < 1:
            mistakes.append(f"alpha {self.alpha} must lie between 0 and 1")
        if self.seeds < 1:
            mistakes.append(f"seeds {self.seeds} must be 1 or more")
        if self.horizon is not None and self.horizon < 1:
            mistakes.append(f"horizon {self.horizon} must be 1 or more, or none")
        if not (isfinite(self.margin) and self.margin >= 0):
            mistakes.append(f"margin {self.margin} must be a finite number, 0 or more")
        if mistakes:
            raise ValueError(f"invalid design: {'; '.join(mistakes)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """A candidate is kept when it wins `wins` seeds before it loses more than `losses`.

    Attributes:
        wins: Seeds w that it must win.
        losses: Seeds ℓ that it may lose.
    """

    wins: int
    losses: int

    @property
    def level(self) -> float:
        """Probability of a keep if every seed is won or lost with probability ½."""
        return self._chance(0, 0)

    def e_value(self, won: int, lost: int) -> float:
        """The gambler's wealth after some wins and losses; 1 before the first.

        It is the probability that the candidate reaches its wins if the remaining seeds are fair,
        over the same probability before the first seed: a martingale under a fair coin, and a
        supermartingale under the null hypothesis.
        """
        return self._chance(won, lost) / self.level

    def _chance(self, won: int, lost: int) -> float:
        if won >= self.wins:
            return 1.0
        if lost > self.losses:
            return 0.0
        missing, spare = self.wins - won, self.losses - lost
        # The problem of points: of so many further seeds, at most `spare` are lost.
        further = missing + spare
        return sum(comb(further, i) for i in range(spare + 1)) / (1 << further)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateJudgement:
    """The state of a candidate after some seeds.

    Attributes:
        state: Kept, discarded, undecided with no seed left, or to be continued.
        e_value: The e-value after the seeds used; 1 before the first.
        threshold: The e-value at which the candidate is kept: 1 / level.
        seeds_used: Seeds up to the decision; later ones are ignored.
        reason: Stable code of why it has this state.
        won: Seeds used on which the candidate is better by more than the margin.
        lost: Seeds used on which it is not, except ties.
        tied: Seeds used whose difference is the margin, or on which both runs failed.
        rule: Wins that the candidate needs, and losses that it may have; None where no number of
            wins within the seeds of the design is enough for its level.
    """

    state: CandidateState
    e_value: float
    threshold: float
    seeds_used: int
    reason: CandidateReason
    won: int
    lost: int
    tied: int
    rule: KeepRule | None


def candidate_level(design: StreamDesign, number: int, kept_before: int) -> float:
    """The level α_t = α γ_t (R + 1) of a candidate (e-LOND).

    An endless stream has γ_t = c / ((t + c − 1)(t + c)) with c = 50, whose sum is 1; the first T
    candidates have T / (T + c) of it. With a horizon H, γ_t = 1 / H.

    Args:
        design: The design of the stream.
        number: Number t of the candidate, from 1.
        kept_before: Number R of candidates that were kept before it.

    Raises:
        ValueError: The number is below 1 or beyond the horizon, or more candidates were kept than
            judged.
    """
    if number < 1 or not 0 <= kept_before < number:
        raise ValueError(
            f"candidate {number} after {kept_before} keeps: the number must be 1 or more, "
            f"and the keeps from 0 to the number less 1"
        )
    if design.horizon is None:
        share = HALF_SPENT / ((number + HALF_SPENT - 1) * (number + HALF_SPENT))
    elif number > design.horizon:
        raise ValueError(
            f"candidate {number} is beyond the horizon: the stream was declared for "
            f"{design.horizon} candidates, and their alpha is spent"
        )
    else:
        share = 1 / design.horizon
    return design.alpha * share * (kept_before + 1)


def keep_rule(level: float, seeds: int) -> KeepRule | None:
    """The rule with most losses whose level is at most a given one and that fits into the seeds.

    More losses nearly always give more power: the rounding of the wins takes 2 points at most. Among
    the rules with so many losses, it is the one with fewest wins.

    Args:
        level: Largest probability of a false keep.
        seeds: Most seeds of the candidate.

    Returns:
        None where not even a win on every seed is rare enough.
    """
    best, count, losses, patterns = None, 0, 0, 1
    # `patterns` of the 2^count patterns of wins and losses have at most `losses` losses.
    while count <= seeds:
        if patterns / (1 << count) <= level:
            best = KeepRule(wins=count - losses, losses=losses)
            losses += 1
            patterns += comb(count, losses)
        else:
            patterns = 2 * patterns - comb(count, losses)
            count += 1
    return best


def fewest_seeds(design: StreamDesign, number: int, kept_before: int) -> int | None:
    """The fewest seeds on which a candidate can be kept; None if more than the design has.

    Args:
        design: The design of the stream.
        number: Number of the candidate, from 1.
        kept_before: Number of candidates that were kept before it.

    Raises:
        ValueError: As `candidate_level`.
    """
    rule = keep_rule(candidate_level(design, number, kept_before), design.seeds)
    return None if rule is None else rule.wins


def least_seeds(level: float) -> int:
    """The fewest seeds with which any design can keep a candidate of a level: wins on all of them.

    Args:
        level: The level of `candidate_level`.
    """
    return ceil(-log2(level))


def seed_signs(candidate: ArrayLike, champion: ArrayLike, margin: float) -> Signs:
    """1 for every seed that the candidate wins, −1 for a loss, 0 for a tie.

    A failed run ranks below every score. Differences that equal the margin up to rounding are ties.

    Args:
        candidate: Scores of the candidate, of shape (…, n); NaN or infinite for a failed run.
        champion: Scores of the champion on the same seeds, of the same shape.
        margin: Smallest improvement that matters, in units of the scores.

    Returns:
        Of shape (…, n).

    Raises:
        ValueError: The shapes differ.
    """
    new, old = np.asarray(candidate, np.float64), np.asarray(champion, np.float64)
    if new.shape != old.shape:
        raise ValueError(
            f"the candidate's scores have the shape {new.shape} and the champion's {old.shape}: "
            "both must have the same seeds"
        )
    ran, stood = np.isfinite(new), np.isfinite(old)
    both = ran & stood
    x, y = np.where(both, new, 0), np.where(both, old, 0)
    difference = x - y - margin
    size = np.maximum(np.maximum(np.abs(x), np.abs(y)), margin)
    scored = np.where(np.abs(difference) <= ROUNDING * size, 0, np.sign(difference))
    failed = ran.astype(np.int8) - stood.astype(np.int8)
    return np.where(both, scored, failed).astype(np.int8)


def worse_e_value(won: int, lost: int) -> float:
    """e-value of the hypothesis that the candidate is as good as the champion or better.

    The wealth of gamblers who stake every share λ of their wealth on a loss, with λ uniform on
    [0, 1]: ∫ (1 + λ)^lost (1 − λ)^won dλ, which is a sum of binomial coefficients.
    """
    bets = won + lost
    total = sum(comb(bets + 1, i) for i in range(lost + 1))
    return total / ((bets + 1) * comb(bets, lost))


def decide(signs: Signs, level: float, design: StreamDesign) -> tuple[Codes, Counts]:
    """Judge candidates of the same level at once: `judge` is this for one candidate.

    Args:
        signs: Signs of `seed_signs` in the order of the seeds, of shape (…, n).
        level: The level of all these candidates.
        design: The design of the stream.

    Returns:
        The position in `REASONS` after the deciding seed, or after the last; and the number of
        seeds until then; both of shape (…).
    """
    rule = keep_rule(level, design.seeds)
    seeds = signs[..., : design.seeds]
    before_the_first = np.zeros((*seeds.shape[:-1], 1), dtype=np.int64)
    counts = [np.cumsum(seeds == sign, axis=-1, dtype=np.int64) for sign in (1, -1)]
    won, lost = (np.concatenate([before_the_first, count], axis=-1) for count in counts)
    codes = _codes(won, lost, rule, design)
    decided = codes != REASONS.index(CandidateReason.MORE_SEEDS)
    used = np.where(decided.any(axis=-1), decided.argmax(axis=-1), seeds.shape[-1])
    return np.take_along_axis(codes, used[..., None], axis=-1)[..., 0], used


def _codes(won: Counts, lost: Counts, rule: KeepRule | None, design: StreamDesign) -> Codes:
    """Position in `REASONS` after 0 to n seeds, of shape (…, n + 1) as the counts."""
    used = np.arange(won.shape[-1])
    # No count reaches so many wins, and none is so low as to be a loss too many.
    wins, losses = (design.seeds + 1, design.seeds) if rule is None else (rule.wins, rule.losses)
    conditions = {
        CandidateReason.BETTER: won >= wins,
        CandidateReason.WORSE: lost >= _worse_from(design)[won],
        CandidateReason.BUDGET_SPENT: np.broadcast_to(used >= design.seeds, won.shape),
        CandidateReason.OUT_OF_REACH: (lost > losses) | (wins - won > design.seeds - used),
    }
    codes = [REASONS.index(reason) for reason in conditions]
    more = REASONS.index(CandidateReason.MORE_SEEDS)
    return np.select(list(conditions.values()), codes, more).astype(np.int8)


def _worse_from(design: StreamDesign) -> Counts:
    """The fewest losses that show a worse candidate, for 0 to N wins, of shape (N + 1,)."""
    fewest, lost = [], 0
    for won in range(design.seeds + 1):
        # A further win never makes fewer losses enough.
        while won + lost <= design.seeds and worse_e_value(won, lost) < 1 / design.alpha:
            lost += 1
        fewest.append(lost if won + lost <= design.seeds else design.seeds + 1)
    return np.array(fewest)


def judge(
    candidate_scores: ArrayLike, champion_scores: ArrayLike, level: float, design: StreamDesign
) -> CandidateJudgement:
    """Judge a candidate on the seeds so far.

    The judgement depends on the first seeds up to the decision alone: judging after every seed, and
    judging all seeds at once, give the same decision.

    Args:
        candidate_scores: Scores of the candidate in the order of the seeds, of shape (n,); greater
            is better; NaN for a failed run, which ranks below every score.
        champion_scores: Scores of the champion on the same seeds, of shape (n,).
        level: The level of `candidate_level`.
        design: The design of the stream.

    Raises:
        ValueError: The level is not between 0 and 1, or the shapes differ or are not (n,).
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level} must lie between 0 and 1")
    signs = seed_signs(candidate_scores, champion_scores, design.margin)
    if signs.ndim != 1:
        raise ValueError(f"scores have the shape {signs.shape}: they must be a list of seeds")
    code, used = decide(signs, level, design)
    reason, seeds = REASONS[code], signs[:used]
    won, lost = int((seeds > 0).sum()), int((seeds < 0).sum())
    rule = keep_rule(level, design.seeds)
    return CandidateJudgement(
        state=_STATES[reason],
        e_value=1.0 if rule is None else rule.e_value(won, lost),
        threshold=1 / level,
        seeds_used=int(used),
        reason=reason,
        won=won,
        lost=lost,
        tied=int(used) - won - lost,
        rule=rule,
    )


_STATES = {
    CandidateReason.BETTER: CandidateState.KEPT,
    CandidateReason.WORSE: CandidateState.DISCARDED,
    CandidateReason.OUT_OF_REACH: CandidateState.DISCARDED,
    CandidateReason.BUDGET_SPENT: CandidateState.UNDECIDED,
    CandidateReason.MORE_SEEDS: CandidateState.CONTINUE,
}
