"""The interim analyses ("looks") of a sequential comparison, for a batch of studies at once.

Shapes: S studies of m pairs; B relabellings, the true one first; L levels.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sequential.design import ROUNDING, Design

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AlphaSpending:
    """The level that group-sequential relabelling tests have spent.

    Attributes:
        alive: Mask of the relabellings that have crossed no boundary, of shape (…, B).
        spent: Fraction of the relabellings that have crossed a boundary, of shape (…).
    """

    alive: Mask
    spent: Array


@dataclass(frozen=True, slots=True)
class GroupSequentialLook:
    """The interim analysis of several tests; all fields are of shape (…).

    Attributes:
        p: Fraction of relabellings that are alive and at least as extreme as the data.
        budget: Largest p that rejects: the level allowed up to this look minus the spent level.
        boundary: A relabelling beyond it dies; meaningless where `rejected`.
        spent: Level spent so far; a test that has rejected spends no more.
        rejected: Whether p is within the budget.
        crossed: Look, from 1, at which p and budget were computed and the boundary was crossed; 0
            if no boundary was crossed.
    """

    p: Array
    budget: Array
    boundary: Array
    spent: Array
    rejected: Mask
    crossed: Counts


@dataclass(frozen=True, slots=True)
class SequentialState:
    """State of a batch of studies between two looks.

    Attributes:
        looks: Number of looks so far.
        sums: Sums over blocks of the differences of means under each relabelling, (S, m, B).
        largest: Largest absolute score so far, (S,).
        spending: Spent level of every pair and level, (S, L, m), or of the joint test, (S,).
        crossed: Look at which a pair crossed the boundary of a level, or 0, (S, L, m).
        p: p-value at that look, (S, L, m).
        budget: Budget at that look, (S, L, m).
        undecided: Mask of the undecided pairs, (S, m).
    """

    looks: int
    sums: Array
    largest: Array
    spending: AlphaSpending
    crossed: Counts
    p: Array
    budget: Array
    undecided: Mask


def unspent(shape: tuple[int, ...], relabellings: int) -> AlphaSpending:
    """The spent level of tests of shape (…) before their first look: 0."""
    return AlphaSpending(np.ones((*shape, relabellings), dtype=bool), np.zeros(shape))


def first_state(design: Design, studies: int) -> SequentialState:
    """The state of studies before their first look."""
    pairs, count = len(design.pairs), design.relabellings.count
    tests = (studies, len(_sizes(design)), pairs)
    return SequentialState(
        looks=0,
        sums=np.zeros((studies, pairs, count)),
        largest=np.zeros(studies),
        spending=unspent((studies,) if design.family == "maxt" else tests, count),
        crossed=np.zeros(tests, dtype=np.int64),
        p=np.ones(tests),
        budget=np.zeros(tests),
        undecided=np.ones((studies, pairs), dtype=bool),
    )


def share_reaching(values: Array, threshold: Array, slack: Array) -> Array:
    """Fraction of values (…, B), along the last axis, that reach a threshold up to rounding."""
    reaching = values >= (threshold - slack)[..., None]
    return np.asarray(reaching.mean(axis=-1))


def take_look(
    spending: AlphaSpending, values: Array, observed: Array, allowed: Array, slack: Array
) -> tuple[AlphaSpending, GroupSequentialLook]:
    """Analyse one look: test the data, and let the most extreme relabellings die.

    The boundary is the smallest value above which no larger share lies than the budget (Mathieu
    et al. 2023, "AdaStop: adaptive statistical testing for sound comparisons of Deep RL agents").

    Args:
        spending: Spent level before the look, of tests of shape (…).
        values: The statistic under each relabelling, of shape (…, B).
        observed: The statistic of the data, of shape (…).
        allowed: Level that may be spent up to this look, of shape (…).
        slack: Values that differ by no more count as equal, of shape (…).
    """
    living = np.where(spending.alive, values, -np.inf)
    p = share_reaching(living, observed, slack)
    budget = allowed - spending.spent
    boundary = _boundary(living, budget)
    rejected = p <= budget + ROUNDING
    crossing = (living > (boundary + slack)[..., None]) & ~rejected[..., None]
    spent = spending.spent + crossing.mean(axis=-1)
    none = np.zeros(p.shape, dtype=np.int64)
    return AlphaSpending(spending.alive & ~crossing, spent), GroupSequentialLook(
        p, budget, boundary, spent, rejected, none
    )


def _boundary(values: Array, budget: Array) -> Array:
    count = values.shape[-1]
    # Rounding must not lose a relabelling where budget times count is an integer.
    may_cross = np.floor(budget * count + count * ROUNDING).astype(np.int64)
    # A budget of 1 or a negative one would lead out of the sorted values.
    index = np.clip(count - 1 - may_cross, 0, count - 1)
    return np.take_along_axis(np.sort(values, axis=-1), index[..., None], axis=-1)[..., 0]


def next_look(
    design: Design, state: SequentialState, first: Array, second: Array
) -> tuple[SequentialState, GroupSequentialLook]:
    """Add one block of scores to every pair and test all that are undecided.

    Scores are sorted within a block, because the order of runs must not matter. The joint test is
    an exception: it relabels the same positions of all pairs, and sorting would make the pairs
    dependent. Three equal labels would then be distinguished in 8 % of cases at alpha = 0.05.

    Args:
        design: Design of all studies.
        state: State after the previous look.
        first: Scores of the first label of each pair, of shape (S, m, n); ignored where decided.
        second: Scores of the second label, of the same shape.

    Returns:
        The next state, and the look at every pair, of shape (S, m), which is meaningless for pairs
        that were decided before.
    """
    if design.family != "maxt":
        first, second = np.sort(first, axis=-1), np.sort(second, axis=-1)
    added = design.relabellings.differences(first, second, state.looks)
    extremes = np.maximum(np.abs(first), np.abs(second)).max(axis=2)
    largest = np.where(state.undecided, extremes, 0).max(axis=1)
    state = replace(
        state,
        looks=state.looks + 1,
        sums=state.sums + np.where(state.undecided[..., None], added, 0),
        largest=np.maximum(state.largest, largest),
    )
    judge = _judge_jointly if design.family == "maxt" else _judge_by_pair
    return judge(design, state)


def _judge_by_pair(
    design: Design, state: SequentialState
) -> tuple[SequentialState, GroupSequentialLook]:
    """Test each pair separately, at every level that the closed test may need."""
    sizes = _sizes(design)
    values = np.abs(state.sums)[:, None]
    shape = state.crossed.shape
    share = design.alpha * state.looks / design.interims
    allowed = np.broadcast_to((share / sizes)[:, None], shape)
    slack = np.broadcast_to(_slack(state)[:, None, None], shape)
    observed = np.broadcast_to(values[..., 0], shape)
    spending, looks = take_look(state.spending, values, observed, allowed, slack)
    # A boundary crossed at an earlier look may decide the pair only now, after other pairs have
    # crossed theirs. Then p and budget of the earlier look are reported.
    before = state.crossed > 0
    now = looks.rejected & state.undecided[:, None] & ~before
    crossed = np.where(now, state.looks, state.crossed)
    p, budget = np.where(before, state.p, looks.p), np.where(before, state.budget, looks.budget)
    needed = _needed(crossed > 0, sizes)
    rejected = ((crossed > 0) | ~needed).all(axis=1) & state.undecided
    left = state.undecided & ~rejected
    after = replace(state, spending=spending, crossed=crossed, p=p, budget=budget, undecided=left)
    by_level = replace(looks, p=p, budget=budget, crossed=crossed)
    return after, replace(_strictest(by_level, needed), rejected=rejected)


def _sizes(design: Design) -> Counts:
    """Number of pairs among which alpha is divided, for each level."""
    pairs = len(design.pairs)
    return np.arange(1, pairs + 1) if design.family == "holm" else np.array([pairs])


def _needed(crossed: Mask, sizes: Counts) -> Mask:
    """Mask of the levels that a pair itself must cross to be decided, of shape (S, L, m).

    By the closed test, a pair is decided if every set of pairs that contains it has a member that
    has crossed alpha / size. A set of size s in which only the pair itself can have crossed exists
    if and only if at least s - 1 other pairs have not crossed. With a single level, each pair must
    cross it.
    """
    if len(sizes) == 1:
        return np.ones_like(crossed)
    others = (~crossed).sum(axis=2, keepdims=True) - ~crossed
    return np.asarray(others >= (sizes - 1)[:, None])


def _strictest(looks: GroupSequentialLook, needed: Mask) -> GroupSequentialLook:
    """The look of each pair at the strictest level that it must cross, (S, L, m) to (S, m)."""
    last = needed.shape[1] - 1 - needed[:, ::-1].argmax(axis=1)
    study, pair = np.indices(last.shape)
    return GroupSequentialLook(
        p=looks.p[study, last, pair],
        budget=looks.budget[study, last, pair],
        boundary=looks.boundary[study, last, pair],
        spent=looks.spent[study, last, pair],
        rejected=looks.rejected[study, last, pair],
        crossed=looks.crossed[study, last, pair],
    )


def _judge_jointly(
    design: Design, state: SequentialState
) -> tuple[SequentialState, GroupSequentialLook]:
    """Test the largest difference against that of each relabelling, and step down."""
    values, slack = np.abs(state.sums), _slack(state)
    allowed = np.full(len(values), design.alpha * state.looks / design.interims)
    budget = allowed - state.spending.spent
    undecided, p = state.undecided, np.ones(state.undecided.shape)
    while True:
        p = np.where(undecided, _joint_p(values, undecided, state.spending, slack), p)
        observed = np.where(undecided, values[..., 0], -1)
        top = np.arange(observed.shape[1]) == observed.argmax(axis=1)[:, None]
        rejected = top & undecided & (p <= budget[:, None] + ROUNDING)
        if not rejected.any():
            break
        undecided = undecided & ~rejected
    largest = np.where(undecided[..., None], values, 0).max(axis=1)
    spending, look = take_look(state.spending, largest, largest[:, 0], allowed, slack)
    left = undecided.any(axis=1)
    spending = AlphaSpending(spending.alive, np.where(left, spending.spent, state.spending.spent))
    everywhere = np.ones_like(p)
    look_of_pairs = GroupSequentialLook(
        p=p,
        budget=budget[:, None] * everywhere,
        boundary=look.boundary[:, None] * everywhere,
        spent=spending.spent[:, None] * everywhere,
        rejected=state.undecided & ~undecided,
        crossed=np.where(state.undecided & ~undecided, state.looks, 0),
    )
    return replace(state, spending=spending, undecided=undecided), look_of_pairs


def _joint_p(values: Array, undecided: Mask, spending: AlphaSpending, slack: Array) -> Array:
    """Fraction of relabellings whose largest difference reaches that of each pair, (S, m)."""
    largest = np.where(undecided[..., None], values, 0).max(axis=1)
    living = np.where(spending.alive, largest, -np.inf)[:, None]
    return share_reaching(living, values[..., 0], slack[:, None])


def _slack(state: SequentialState) -> Array:
    return ROUNDING * state.looks * state.largest
