"""Properties of every pruner: it decides by ranks only, and keeps the best and the first trial."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from members import member, names

from rlexp.errors import ConfigError
from rlexp.pruners import Pruner, PruningPoint

PRUNERS = names("pruner")
BUILT: dict[str, Pruner] = {name: member("pruner", name) for name in PRUNERS}
STEPS, EVERY, SEEDS = 1000, 100, 5

# Values are eighths and shifts are whole numbers: sums are exact, so that ties stay ties.
values = st.integers(-800, 800).map(lambda number: number / 8)
paired = st.lists(st.tuples(values, values), min_size=1, max_size=SEEDS)


@st.composite
def points(draw: st.DrawFn) -> PruningPoint:
    """Points at which a trial can be compared."""
    step = draw(st.integers(1, STEPS // EVERY)) * EVERY
    number = draw(st.integers(1, 40))
    pairs = draw(paired)
    scores, best = (tuple(side) for side in zip(*pairs, strict=True))
    return PruningPoint(
        number=number,
        position=len(pairs) - 1,
        step=step,
        steps=STEPS,
        every=EVERY,
        value=draw(values),
        peers=draw(st.dictionaries(st.integers(0, number - 1), values, max_size=30)),
        scores=scores if step == STEPS else scores[:-1],
        best=best,
    )


TIED = PruningPoint(
    number=40,
    position=1,
    step=500,
    steps=STEPS,
    every=EVERY,
    value=1.0,
    peers=dict.fromkeys(range(40), 1.0),
    scores=(1.0,),
    best=(1.0, 1.0),
)
"""A trial that equals each of its forty peers."""


def rescaled(point: PruningPoint, factor: float, shift: float) -> PruningPoint:
    """The same point with its values on another scale."""

    def rescale(value: float) -> float:
        return value * factor + shift

    return replace(
        point,
        value=rescale(point.value),
        peers={number: rescale(value) for number, value in point.peers.items()},
        scores=tuple(map(rescale, point.scores)),
        best=tuple(map(rescale, point.best)),
    )


def test_there_are_five_pruners() -> None:
    """The pruners are those of the design."""
    assert ["hyperband", "median", "none", "successive_halving", "wilcoxon"] == PRUNERS


@pytest.mark.parametrize("name", PRUNERS)
def test_a_pruner_is_its_settings(name: str) -> None:
    """Pruners with equal settings are equal and hashable."""
    assert member("pruner", name) == member("pruner", name)
    assert hash(member("pruner", name)) == hash(member("pruner", name))


@pytest.mark.parametrize("name", PRUNERS)
def test_unknown_settings_are_refused(name: str) -> None:
    """A misspelt setting is refused."""
    with pytest.raises(ConfigError, match=r"unknown key 'pruner\.treshold'"):
        member("pruner", name, treshold=0.5)


@pytest.mark.parametrize(
    ("name", "setting", "wrong_value"),
    [
        ("median", "startup_trials", 0),
        ("median", "warm_up", 1.5),
        ("successive_halving", "minimum", 0.0),
        ("successive_halving", "minimum", 1.0),
        ("successive_halving", "eta", 1),
        ("hyperband", "minimum", float("nan")),
        ("hyperband", "eta", 2.5),
        ("wilcoxon", "threshold", 0.0),
        ("wilcoxon", "startup_seeds", "two"),
    ],
)
def test_a_setting_out_of_its_range_is_refused(
    name: str, setting: str, wrong_value: object
) -> None:
    """The error for a setting out of its range is one line with the name of the setting."""
    with pytest.raises(ConfigError, match=f"pruner.{setting}") as refusal:
        member("pruner", name, **{setting: wrong_value})
    assert 1 == len(str(refusal.value).splitlines())


@given(points(), st.randoms())
def test_a_point_decides_alone(point: PruningPoint, random: Random) -> None:
    """A decision does not depend on earlier calls or on the order of peers."""
    for name, pruner in BUILT.items():
        first_decision = pruner.prunes(point)
        numbers = random.sample(sorted(point.peers), len(point.peers))
        pruner.prunes(replace(point, value=point.value - 1.0))
        reordered_point = replace(point, peers={number: point.peers[number] for number in numbers})
        assert first_decision == pruner.prunes(reordered_point), name


@given(points())
def test_a_reason_is_a_sentence(point: PruningPoint) -> None:
    """The reason of a pruner is one line that contains a number."""
    for name, pruner in BUILT.items():
        reason = pruner.prunes(point)
        if reason is not None:
            assert 1 == len(reason.splitlines()), name
            assert any(character.isdigit() for character in reason), name


@example(TIED)
@given(points())
def test_the_best_trial_is_not_pruned(point: PruningPoint) -> None:
    """A trial as good as all its peers and as the best trial is not pruned."""
    highest = max([point.value, *point.peers.values()])
    best_point = replace(point, value=highest, scores=point.best[: len(point.scores)])
    assert dict.fromkeys(BUILT) == {name: p.prunes(best_point) for name, p in BUILT.items()}


@given(points())
def test_the_first_trial_is_not_pruned(point: PruningPoint) -> None:
    """A trial without peers is not pruned."""
    first_trial = replace(point, peers={}, best=())
    assert dict.fromkeys(BUILT) == {name: p.prunes(first_trial) for name, p in BUILT.items()}


@given(points(), st.integers(0, 100))
def test_greater_is_better(point: PruningPoint, increase: int) -> None:
    """A trial that is not pruned would not be pruned with greater values."""
    greater_point = replace(
        point,
        value=point.value + increase,
        scores=tuple(score + increase for score in point.scores),
    )
    for name, pruner in BUILT.items():
        if pruner.prunes(point) is None:
            assert pruner.prunes(greater_point) is None, name


@given(points(), st.sampled_from([0.125, 0.5, 4.0, 1024.0]), st.integers(-10_000, 10_000))
def test_the_scale_does_not_matter(point: PruningPoint, factor: float, shift: int) -> None:
    """The unit and the zero of values do not change a decision."""
    rescaled_point = rescaled(point, factor, shift)
    for name, pruner in BUILT.items():
        assert (pruner.prunes(point) is None) == (pruner.prunes(rescaled_point) is None), name


@pytest.mark.parametrize("name", [name for name in PRUNERS if name != "none"])
def test_a_hopeless_trial_is_pruned(name: str) -> None:
    """A trial worse than many others on every seed is pruned."""
    pruner: Pruner = member("pruner", name)
    early_point = PruningPoint(
        number=40,
        position=0,
        step=EVERY,
        steps=STEPS,
        every=EVERY,
        value=-9.0,
        peers={number: float(number) for number in range(40)},
    )
    late_point = replace(early_point, position=4, step=STEPS, scores=(-9.0,) * 5, best=(1.0,) * 5)
    assert pruner.prunes(early_point) or pruner.prunes(late_point)


def test_none_prunes_nothing() -> None:
    """The pruner `none` keeps even the worst trial."""
    pruner: Pruner = member("pruner", "none")
    worst_point = PruningPoint(
        number=9, position=0, step=EVERY, steps=STEPS, every=EVERY, value=-9.0, peers={0: 1.0}
    )
    assert pruner.prunes(worst_point) is None
