"""The judgement of candidates: its rule, its e-value, its decisions, and its errors over streams."""

from fractions import Fraction
from itertools import product
from math import comb, inf, nan

import numpy as np
import pytest
from candidate_judges import KeepIfBetter, OnlineJudge
from candidate_streams import CandidateMix, StreamHistories, Terrain, normal_terrain, simulate
from landscape_table import load

from rlexp.stats.sequential.candidates import (
    REASONS,
    CandidateReason,
    CandidateState,
    KeepRule,
    StreamDesign,
    candidate_level,
    decide,
    fewest_seeds,
    judge,
    keep_rule,
    least_seeds,
    seed_signs,
    worse_e_value,
)

DESIGN = StreamDesign(seeds=16)
FIRST = candidate_level(DESIGN, 1, 0)
SMALL, SMALL_LEVEL = StreamDesign(alpha=0.2, seeds=8), 0.15
BETTER = REASONS.index(CandidateReason.BETTER)


def tail(seeds: int, least: int) -> Fraction:
    """Probability of so many heads or more of a fair coin."""
    return Fraction(sum(comb(seeds, heads) for heads in range(least, seeds + 1)), 2**seeds)


# Levels


def test_an_endless_stream_spends_alpha_once() -> None:
    """The levels without a keep sum to alpha T / (T + 50): half of alpha for the first 50."""
    levels = [candidate_level(DESIGN, number, 0) for number in range(1, 5_001)]
    assert sum(levels[:50]) == pytest.approx(0.05 / 2)
    assert sum(levels) == pytest.approx(0.05 * 5_000 / 5_050)


def test_a_horizon_shares_alpha_equally_and_ends() -> None:
    """Each declared candidate has an equal share, and a further one is refused."""
    design = StreamDesign(seeds=16, horizon=20)
    assert sum(candidate_level(design, number, 0) for number in range(1, 21)) == pytest.approx(
        0.05
    )
    with pytest.raises(ValueError, match="candidate 21 is beyond the horizon"):
        candidate_level(design, 21, 0)


def test_a_keep_raises_later_levels() -> None:
    """With R keeps before, the level is R + 1 times that without any."""
    assert candidate_level(DESIGN, 9, 3) == pytest.approx(4 * candidate_level(DESIGN, 9, 0))


@pytest.mark.parametrize(("number", "kept"), [(0, 0), (1, 1), (3, -1)])
def test_senseless_numbers_are_refused(number: int, kept: int) -> None:
    """A candidate before the first, and more keeps than candidates, are refused."""
    with pytest.raises(ValueError, match="the number must be 1 or more"):
        candidate_level(DESIGN, number, kept)


def test_a_design_names_all_its_mistakes() -> None:
    """An invalid design is refused with one sentence for all mistakes."""
    with pytest.raises(ValueError, match=r"alpha 0.*seeds 0.*horizon 0.*margin nan"):
        StreamDesign(alpha=0, seeds=0, horizon=0, margin=nan)


# Rules


@pytest.mark.parametrize("level", [0.6, 0.3, 0.05, 0.01, 0.001, 1e-5])
def test_the_rule_has_most_losses_and_then_fewest_wins(level: float) -> None:
    """No rule within the level and the seeds allows more losses, or as many with fewer wins."""
    for seeds in range(1, 31):
        fitting = {
            (-losses, count - losses)
            for count in range(1, seeds + 1)
            for losses in range(count)
            if tail(count, count - losses) <= level
        }
        rule = keep_rule(level, seeds)
        assert (rule is None) == (not fitting)
        assert rule is None or (-rule.losses, rule.wins) == min(fitting)


def test_the_first_and_the_fiftieth_candidate_can_be_kept() -> None:
    """With the default seeds both can be kept without a keep before; with 9 seeds neither can."""
    default = StreamDesign()
    assert (13, 12) == (fewest_seeds(default, 1, 0), fewest_seeds(default, 50, 0))
    few = StreamDesign(seeds=9)
    assert (None, None) == (fewest_seeds(few, 1, 0), fewest_seeds(few, 50, 0))
    assert (10, 12) == tuple(least_seeds(candidate_level(few, t, 0)) for t in (1, 50))


@pytest.mark.parametrize("level", [0.25, 0.1, 0.00098, 1e-6])
def test_the_least_seeds_are_just_enough(level: float) -> None:
    """A design with the least seeds has a rule, and with one seed less it has none."""
    least = least_seeds(level)
    assert keep_rule(level, least) is not None
    assert keep_rule(level, least - 1) is None


@pytest.mark.parametrize(("wins", "losses"), [(10, 0), (13, 1), (18, 3)])
def test_the_e_value_is_a_fair_bet_that_ends_at_the_threshold(wins: int, losses: int) -> None:
    """It begins at 1, a fair seed leaves its mean as it is, and it ends at 1 / level or at 0."""
    rule = KeepRule(wins=wins, losses=losses)
    assert rule.e_value(0, 0) == 1
    for won, lost in product(range(wins), range(losses + 1)):
        step = (rule.e_value(won + 1, lost) + rule.e_value(won, lost + 1)) / 2
        assert rule.e_value(won, lost) == pytest.approx(step)
        assert rule.e_value(won, lost) < 1 / rule.level
    assert rule.e_value(wins, losses) == 1 / rule.level == 1 / float(tail(wins + losses, wins))
    assert rule.e_value(wins - 1, losses + 1) == 0


def test_the_reverse_e_value_is_the_wealth_of_uniform_stakes() -> None:
    """The closed form is the integral of (1 + λ)^lost (1 − λ)^won over λ from 0 to 1."""
    stakes = (np.arange(20_000) + 0.5) / 20_000
    for won, lost in [(0, 0), (0, 7), (3, 9), (6, 2)]:
        wealth = np.mean((1 + stakes) ** lost * (1 - stakes) ** won)
        assert worse_e_value(won, lost) == pytest.approx(wealth, rel=1e-6)


# Decisions


def every_pattern(seeds: int) -> np.ndarray:
    """All sequences of losses, ties and wins, of shape (3^n, n)."""
    return np.array(list(product((-1, 0, 1), repeat=seeds)), dtype=np.int8)


def test_a_coin_is_kept_as_rarely_as_the_level_says() -> None:
    """Of all sequences of wins and losses, the share that is kept is at most the level."""
    patterns = np.array(list(product((-1, 1), repeat=16)), dtype=np.int8)
    kept = (decide(patterns, FIRST, DESIGN)[0] == BETTER).mean()
    rule = keep_rule(FIRST, 16)
    assert rule is not None
    assert FIRST / 2 < kept == rule.level <= FIRST


def test_a_better_seed_never_loses_a_keep() -> None:
    """If any loss becomes a tie, or any tie a win, then what was kept is still kept."""
    patterns = every_pattern(8)
    kept = decide(patterns, SMALL_LEVEL, SMALL)[0] == BETTER
    assert 0 < kept.mean() < 1
    powers = 3 ** np.arange(7, -1, -1)
    for seed, power in enumerate(powers):
        raisable = np.flatnonzero(patterns[:, seed] < 1)
        assert not (kept[raisable] & ~kept[raisable + power]).any()


def test_every_replay_gives_the_same_decision() -> None:
    """Judging after each seed gives the decision that judging all seeds at once gives."""
    generator = np.random.default_rng(3)
    reasons = set()
    for shift in np.repeat([-3.0, 0.0, 1.0, 3.0], 25):
        scores = np.round(generator.normal(size=(2, 20)) + np.array([[shift], [0]]), 1)
        scores[generator.random((2, 20)) < 0.05] = nan
        design = StreamDesign(alpha=0.3, seeds=int(generator.integers(6, 19)))
        whole = judge(scores[0], scores[1], 0.05, design)
        for n in range(21):
            so_far = judge(scores[0, :n], scores[1, :n], 0.05, design)
            if n < whole.seeds_used:
                assert (so_far.state, so_far.seeds_used) == (CandidateState.CONTINUE, n)
            else:
                assert so_far == whole
        reasons.add(whole.reason)
    assert reasons == set(CandidateReason) - {CandidateReason.MORE_SEEDS}


def test_wins_are_kept_on_the_last_needed_seed() -> None:
    """The e-value reaches its threshold at the thirteenth win, and not before."""
    twelve, thirteen = (judge(np.ones(n), np.zeros(n), FIRST, DESIGN) for n in (12, 13))
    assert (CandidateState.CONTINUE, CandidateState.KEPT) == (twelve.state, thirteen.state)
    assert twelve.e_value < twelve.threshold == thirteen.threshold <= thirteen.e_value


def test_a_candidate_out_of_reach_costs_no_further_seed() -> None:
    """Two losses, or ties that leave too few seeds, end a candidate that may lose once."""
    lost = judge([0, 2, 0, 9], [1, 1, 1, 1], FIRST, DESIGN)
    assert (3, CandidateReason.OUT_OF_REACH, 0.0) == (lost.seeds_used, lost.reason, lost.e_value)
    tied = judge(np.ones(16), np.ones(16), FIRST, DESIGN)
    assert (4, 4, CandidateReason.OUT_OF_REACH) == (tied.seeds_used, tied.tied, tied.reason)


def test_many_losses_say_worse_before_the_candidate_is_out_of_reach() -> None:
    """With 60 seeds a candidate may lose 17; seven losses in a row show that it is worse."""
    judged = judge(np.zeros(60), np.ones(60), FIRST, StreamDesign(seeds=60))
    assert (CandidateState.DISCARDED, CandidateReason.WORSE) == (judged.state, judged.reason)
    assert judged.seeds_used == 7
    assert worse_e_value(0, 6) < 20 <= worse_e_value(0, 7)


def test_the_last_seed_leaves_a_candidate_undecided() -> None:
    """A second loss on the last seed spends the budget; the candidate is not kept."""
    scores = np.array([0, *np.ones(12), 0.5, 0.5, 0])
    judged = judge(scores, np.full(16, 0.5), FIRST, DESIGN)
    assert (12, 2, 2) == (judged.won, judged.lost, judged.tied)
    assert (CandidateState.UNDECIDED, CandidateReason.BUDGET_SPENT) == (
        judged.state,
        judged.reason,
    )


def test_a_level_without_a_rule_trains_nothing() -> None:
    """Where no number of wins is enough, the candidate is out of reach before its first seed."""
    judged = judge([], [], 1e-6, DESIGN)
    assert (CandidateReason.OUT_OF_REACH, 0, None) == (
        judged.reason,
        judged.seeds_used,
        judged.rule,
    )


def test_a_failed_run_ranks_below_every_score() -> None:
    """A failure loses to any score, also with a margin, and two failures are a tie."""
    signs = seed_signs([nan, -9e9, nan, inf, 5], [-9e9, nan, nan, 1, -inf], 100.0)
    assert signs.tolist() == [-1, 1, 0, -1, 1]


def test_a_margin_shifts_the_differences() -> None:
    """A seed is won by more than the margin; a difference that equals it up to rounding ties."""
    assert seed_signs([0.3, 0.31, 0.29, 0.1], [0.2] * 4, 0.1).tolist() == [0, 1, -1, -1]


def test_unequal_seeds_are_refused() -> None:
    """Scores of different lengths, of two dimensions, and a senseless level are refused."""
    with pytest.raises(ValueError, match="both must have the same seeds"):
        judge([1.0], [1.0, 2.0], FIRST, DESIGN)
    with pytest.raises(ValueError, match="they must be a list of seeds"):
        judge([[1.0]], [[1.0]], FIRST, DESIGN)
    with pytest.raises(ValueError, match="level 1 must lie between 0 and 1"):
        judge([1.0], [1.0], 1, DESIGN)


# Streams

LOOSE = StreamDesign(alpha=0.3, seeds=20, horizon=25)
"""A high level, which fewer streams can test."""
STREAMS = 1_500


def streams_of(judging: OnlineJudge | KeepIfBetter, mix: CandidateMix) -> StreamHistories:
    """Streams of normal scores without ties."""
    generator = np.random.default_rng(20261124)
    terrain = normal_terrain(np.linspace(0, 3, 7), 200, generator)
    return simulate(terrain, judging, mix, streams=STREAMS, candidates=25, generator=generator)


ALL_NULL = CandidateMix(name="all null", shares={"null": 1.0})
MIXED = CandidateMix(name="mixed", shares={"null": 0.7, "bad": 0.2, "good": 0.1})


@pytest.mark.parametrize("fresh", [False, True])
def test_streams_of_null_candidates_rarely_keep_any(fresh: bool) -> None:
    """Streams without a better candidate keep one about as often as the levels allow, at most 30 %."""
    history = streams_of(OnlineJudge(design=LOOSE, fresh=fresh), ALL_NULL)
    error = np.sqrt(0.3 * 0.7 / STREAMS)
    assert history.any_false == history.false_discovery_rate < 0.3 + 2 * error
    # On common seeds the champion's luck decides many candidates at once, and fewer streams.
    assert history.any_false > (0.12 if fresh else 0.06)


@pytest.mark.parametrize("fresh", [False, True])
def test_the_false_discovery_rate_stays_below_its_level(fresh: bool) -> None:
    """With better candidates in the stream, the expected share of false keeps is at most alpha."""
    history = streams_of(OnlineJudge(design=LOOSE, fresh=fresh), MIXED)
    assert 0.01 < history.false_discovery_rate < 0.3
    assert history.power(history.clear) > 0.6


def test_keep_if_better_keeps_what_is_no_better() -> None:
    """Nearly every stream of null candidates keeps some if one or three seeds decide."""
    for seeds in (1, 3):
        assert streams_of(KeepIfBetter(seeds), ALL_NULL).any_false > 0.9


def test_real_trainings_keep_the_level_and_find_better_candidates() -> None:
    """On replayed trainings false keeps are rare, clearly better candidates are kept, scores rise."""
    history = simulate(
        Terrain([load("cc_acrobot_dqn")]),
        OnlineJudge(),
        MIXED,
        streams=300,
        candidates=30,
        generator=np.random.default_rng(0),
    )
    assert history.false_discovery_rate < 0.05
    assert history.power(history.clear) > 0.7
    assert history.end.mean() > history.start.mean() + 0.2
    assert (history.best >= history.end).all()
