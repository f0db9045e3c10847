"""What one look of a sequential comparison decides, for one study or a batch of them at once.

A batch has S studies of m pairs; B relabellings, the true one first; L levels.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sequential.design import ROUNDING, Design

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a group-sequential relabelling test has spent.

    Attributes:
        alive: Relabellings that have crossed no boundary, of shape (…, B).
        spent: Share of all relabellings that have, of shape (…).
    """

    alive: Mask
    spent: Array


@dataclass(frozen=True, slots=True)
class Look:
    """One look at several tests.

    Attributes:
        p: Share of the relabellings that are alive and at least as extreme as the data, (…).
        budget: What p may be at most: the level that may be spent by now, less what is, (…).
        boundary: What a relabelling crosses to die, (…); says nothing where `rejected`.
        spent: By now, (…); a test that rejects is over, and spends no more.
        rejected: Whether p is within the budget, (…).
        crossed: The look, from 1, that p and budget are of where a boundary has been crossed; 0
            where none has, (…).
    """

    p: Array
    budget: Array
    boundary: Array
    spent: Array
    rejected: Mask
    crossed: Counts


@dataclass(frozen=True, slots=True)
class State:
    """Studies between two looks.

    Attributes:
        looks: Looks so far.
        sums: Sums over blocks of the differences of means under each relabelling, (S, m, B).
        largest: Largest absolute score so far, (S,).
        ledger: Of every pair at every level, (S, L, m), or of the one joint test, (S,).
        crossed: The look at which a pair crossed a boundary of a level, or 0, (S, L, m).
        p: At that look, (S, L, m).
        budget: At that look, (S, L, m).
        undecided: Of shape (S, m).
    """

    looks: int
    sums: Array
    largest: Array
    ledger: Ledger
    crossed: Counts
    p: Array
    budget: Array
    undecided: Mask


def open_ledger(shape: tuple[int, ...], relabellings: int) -> Ledger:
    """A ledger of tests, shape (…), of which nothing is spent."""
    return Ledger(np.ones((*shape, relabellings), dtype=bool), np.zeros(shape))


def first_state(design: Design, studies: int) -> State:
    """Studies before their first look."""
    pairs, count = len(design.pairs), design.relabellings.count
    tests = (studies, len(_sizes(design)), pairs)
    return State(
        looks=0,
        sums=np.zeros((studies, pairs, count)),
        largest=np.zeros(studies),
        ledger=open_ledger((studies,) if design.family == "maxt" else tests, count),
        crossed=np.zeros(tests, dtype=np.int64),
        p=np.ones(tests),
        budget=np.zeros(tests),
        undecided=np.ones((studies, pairs), dtype=bool),
    )


def share_reaching(values: Array, threshold: Array, slack: Array) -> Array:
    """Share of the last axis of values, (…, B), that reaches a threshold but for rounding, (…)."""
    reaching = values >= (threshold - slack)[..., None]
    return np.asarray(reaching.mean(axis=-1))


def take_look(
    ledger: Ledger, values: Array, observed: Array, allowed: Array, slack: Array
) -> tuple[Ledger, Look]:
    """Test, and let the most extreme relabellings die.

    The boundary is the smallest value above which no larger share lies than the budget (Mathieu
    et al. 2023, "AdaStop: adaptive statistical testing for sound comparisons of Deep RL agents").

    Args:
        ledger: Before the look, of tests of shape (…).
        values: The statistic under each relabelling, of shape (…, B).
        observed: That of the data, of shape (…).
        allowed: Level that may be spent by now, of shape (…).
        slack: Values that differ by no more are equal, of shape (…).
    """
    living = np.where(ledger.alive, values, -np.inf)
    p = share_reaching(living, observed, slack)
    budget = allowed - ledger.spent
    boundary = _boundary(living, budget)
    rejected = p <= budget + ROUNDING
    crossing = (living > (boundary + slack)[..., None]) & ~rejected[..., None]
    spent = ledger.spent + crossing.mean(axis=-1)
    none = np.zeros(p.shape, dtype=np.int64)
    return Ledger(ledger.alive & ~crossing, spent), Look(
        p, budget, boundary, spent, rejected, none
    )


def _boundary(values: Array, budget: Array) -> Array:
    count = values.shape[-1]
    may_cross = np.floor(budget * count + count * ROUNDING).astype(np.int64)
    place = np.clip(count - 1 - may_cross, 0, count - 1)
    return np.take_along_axis(np.sort(values, axis=-1), place[..., None], axis=-1)[..., 0]


def next_look(design: Design, state: State, first: Array, second: Array) -> tuple[State, Look]:
    """Add one block of scores to every pair and test all that are undecided.

    Runs have no order, so scores are sorted; not for the joint test, though, which relabels the
    same places of all pairs: sorted scores would bind the pairs together, and three equal labels
    would be told apart 8 times in 100 at alpha = 0.05.

    Args:
        design: Of all the studies.
        state: After the looks before.
        first: Scores of the first label of each pair, of shape (S, m, n); ignored where decided.
        second: Of the second, of the same shape.

    Returns:
        The next state, and the look at every pair, of shape (S, m), which says nothing of pairs
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


def _judge_by_pair(design: Design, state: State) -> tuple[State, Look]:
    """Each pair by its own test, at every level that the closed test may ask for."""
    sizes = _sizes(design)
    values = np.abs(state.sums)[:, None]
    shape = state.crossed.shape
    share = design.alpha * state.looks / design.interims
    allowed = np.broadcast_to((share / sizes)[:, None], shape)
    slack = np.broadcast_to(_slack(state)[:, None, None], shape)
    observed = np.broadcast_to(values[..., 0], shape)
    ledger, looks = take_look(state.ledger, values, observed, allowed, slack)
    # A level that was crossed before may decide only now: its numbers are those of its crossing.
    before = state.crossed > 0
    now = looks.rejected & state.undecided[:, None] & ~before
    crossed = np.where(now, state.looks, state.crossed)
    p, budget = np.where(before, state.p, looks.p), np.where(before, state.budget, looks.budget)
    needed = _needed(crossed > 0, sizes)
    rejected = ((crossed > 0) | ~needed).all(axis=1) & state.undecided
    left = state.undecided & ~rejected
    after = replace(state, ledger=ledger, crossed=crossed, p=p, budget=budget, undecided=left)
    told = replace(looks, p=p, budget=budget, crossed=crossed)
    return after, replace(_strictest(told, needed), rejected=rejected)


def _sizes(design: Design) -> Counts:
    """Numbers of pairs among which alpha is divided, one a level."""
    pairs = len(design.pairs)
    return np.arange(1, pairs + 1) if design.family == "holm" else np.array([pairs])


def _needed(crossed: Mask, sizes: Counts) -> Mask:
    """Levels that a pair itself must cross to be decided, of shape (S, L, m).

    By the closed test, a pair is decided when every set of pairs that it belongs to holds one
    that has crossed alpha / size of the set. There is a set of size s in which only the pair
    itself can have crossed just when s - 1 others have not. With one level, each must cross it.
    """
    if len(sizes) == 1:
        return np.ones_like(crossed)
    others = (~crossed).sum(axis=2, keepdims=True) - ~crossed
    return np.asarray(others >= (sizes - 1)[:, None])


def _strictest(looks: Look, needed: Mask) -> Look:
    """Each pair's look at the strictest level that it must cross, from (S, L, m) to (S, m)."""
    last = needed.shape[1] - 1 - needed[:, ::-1].argmax(axis=1)
    study, pair = np.indices(last.shape)
    return Look(
        p=looks.p[study, last, pair],
        budget=looks.budget[study, last, pair],
        boundary=looks.boundary[study, last, pair],
        spent=looks.spent[study, last, pair],
        rejected=looks.rejected[study, last, pair],
        crossed=looks.crossed[study, last, pair],
    )


def _judge_jointly(design: Design, state: State) -> tuple[State, Look]:
    """The largest difference against the largest of each relabelling, stepping down."""
    values, slack = np.abs(state.sums), _slack(state)
    allowed = np.full(len(values), design.alpha * state.looks / design.interims)
    budget = allowed - state.ledger.spent
    undecided, p = state.undecided, np.ones(state.undecided.shape)
    while True:
        p = np.where(undecided, _joint_p(values, undecided, state.ledger, slack), p)
        observed = np.where(undecided, values[..., 0], -1)
        top = np.arange(observed.shape[1]) == observed.argmax(axis=1)[:, None]
        rejected = top & undecided & (p <= budget[:, None] + ROUNDING)
        if not rejected.any():
            break
        undecided = undecided & ~rejected
    largest = np.where(undecided[..., None], values, 0).max(axis=1)
    ledger, look = take_look(state.ledger, largest, largest[:, 0], allowed, slack)
    left = undecided.any(axis=1)
    ledger = Ledger(ledger.alive, np.where(left, ledger.spent, state.ledger.spent))
    everywhere = np.ones_like(p)
    found = Look(
        p=p,
        budget=budget[:, None] * everywhere,
        boundary=look.boundary[:, None] * everywhere,
        spent=ledger.spent[:, None] * everywhere,
        rejected=state.undecided & ~undecided,
        crossed=np.where(state.undecided & ~undecided, state.looks, 0),
    )
    return replace(state, ledger=ledger, undecided=undecided), found


def _joint_p(values: Array, undecided: Mask, ledger: Ledger, slack: Array) -> Array:
    """Share of the relabellings whose largest difference reaches that of each pair, (S, m)."""
    largest = np.where(undecided[..., None], values, 0).max(axis=1)
    living = np.where(ledger.alive, largest, -np.inf)[:, None]
    return share_reaching(living, values[..., 0], slack[:, None])


def _slack(state: State) -> Array:
    return ROUNDING * state.looks * state.largest
