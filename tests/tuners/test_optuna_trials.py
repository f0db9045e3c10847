"""Trials and spaces in Optuna's terms, and a study that copies none of them."""

import logging
import warnings
from dataclasses import replace
from math import inf, nan
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from searches import BRANCHED, MIXED, NUMERIC, SPACES, complete, drawn

from rlexp.protocol.space import Choice, Domain, Integer, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners.optuna_study import sampler_seed, suggest_parameters
from rlexp.tuners.optuna_trials import (
    ConvertedTrials,
    distribution,
    distributions,
    finite_values,
    from_internal,
    frozen_trial,
    internal_values,
    middle_values,
    to_internal,
)


def told(space: Space, count: int) -> list[optuna.trial.FrozenTrial]:
    """Complete trials, drawn at random."""
    searched = distributions(space)
    found = []
    for number in range(count):
        values = drawn(space, number)
        params = internal_values(space, values)
        assert params is not None
        score = complete(space, number, values).values
        found.append(frozen_trial(number, params, searched, values=score))
    return found


@given(st.sampled_from(list(SPACES)), st.integers(0, 10**6))
def test_values_survive_the_way_there_and_back(kind: str, number: int) -> None:
    """And are inside the distribution on the way."""
    space = SPACES[kind]
    values = drawn(space, number)
    found = internal_values(space, values)
    assert found is not None
    for parameter in space.active(values):
        internal, domain = found[parameter.key], parameter.domain
        searched = distribution(domain)
        assert searched._contains(searched.to_internal_repr(internal))
        back = from_internal(domain, internal)
        value = values[parameter.key]
        assert type(value) is type(back)
        assert back == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("domain", "value", "expected"),
    [
        (Real(1e-4, 1e-2, "log"), 1e-3, 0.5),
        (Real(1e-4, 1e-2, "log"), 0.0, 0.0),
        (Real(1e-4, 1e-2, "log"), 7, 1.0),
        (Real(0.9, 0.999, "flipped_log"), 0.99, 0.5),
        (Real(0, 1), None, None),
        (Real(0, 1), "linear", None),
        (Real(0, 1), nan, None),
        (Real(0, 1), True, None),
        (Integer(1, 8), 99, 8),
        (Integer(1, 8), -5, 1),
        (Integer(1, 8), None, None),
        (Integer(0, 1000), 2000, 1000.5 / 1001),
        (Choice((1, True, "1")), True, 1),
        (Choice(([64], [64, 64])), [64, 64], 1),
        (Choice(("a", "b")), "c", None),
    ],
)
def test_values_as_the_samplers_have_them(domain: Domain, value: Any, expected: Any) -> None:
    """What is outside goes to the nearer end, and what is foreign is nothing."""
    found = to_internal(domain, value)
    assert expected == (pytest.approx(found) if isinstance(found, float) else found)


def test_wide_ranges_of_whole_numbers_are_continuous() -> None:
    """A search along a million steps would take long; along a hundred it is exact."""
    assert distribution(Integer(1, 100)) == optuna.distributions.IntDistribution(1, 100)
    assert distribution(Integer(1, 101)) == optuna.distributions.FloatDistribution(0, 1)
    assert 51 == from_internal(Integer(1, 101), 0.5)


def test_a_parameter_without_a_value_makes_the_trial_foreign() -> None:
    """One that is not active is not asked for."""
    assert internal_values(BRANCHED, {"algorithm": "a2c", "algorithm.learning_rate": 1e-3}) is None
    whole = {"algorithm": "a2c", "algorithm.learning_rate": 1e-3, "algorithm.n_steps": 4}
    assert {
        "algorithm": 2,
        "algorithm.learning_rate": pytest.approx(0.5),
        "algorithm.n_steps": 4,
    } == (internal_values(BRANCHED, {**whole, "algorithm.clip_range": 0.2}))


def test_middles() -> None:
    """Of every domain, whether it is there or not."""
    expected = {
        "algorithm": 1,
        "algorithm.learning_rate": pytest.approx(0.5),
        "switch.noise": 1,
        "algorithm.sigma": pytest.approx(0.5),
        "algorithm.n_steps": 5,
        "algorithm.clip_range": pytest.approx(0.5),
    }
    assert expected == middle_values(BRANCHED)


@pytest.mark.parametrize(
    ("values", "expected"),
    [((), ()), ((1.0, 2.0), (1.0, 2.0)), ((1.0, nan), ()), ((inf,), ()), ((-inf,), ())],
)
def test_values_that_are_no_numbers_are_none(
    values: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    """Neither direction can be won by a training that broke."""
    assert expected == finite_values(
        complete(NUMERIC, 0, {}, values or ()) if values else failed()
    )


def failed() -> Trial:
    """A trial that failed."""
    return replace(complete(NUMERIC, 0, {}, (0.0,)), state=TrialState.FAILED, values=())


def test_a_trial_is_converted_once_and_again_when_it_changes() -> None:
    """However often it comes, in whatever order and company."""
    seen: list[int] = []

    def number(trial: Trial) -> int | None:
        seen.append(trial.number)
        return trial.number if trial.number != 1 else None

    history = ConvertedTrials(number)
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(4)]
    assert [0, 2] == history.of(trials[:3])
    assert [0, 2, 3] == history.of([trials[3], *trials[:3]])
    assert [3] == history.of([replace(trials[3])])
    assert [0, 1, 2, 3] == seen
    assert [2] == history.of([replace(trials[2], values=(9.0,))])
    assert [0, 1, 2, 3, 2] == seen


@pytest.mark.parametrize("kind", SPACES)
def test_a_suggestion_is_the_one_of_a_study_that_people_use(kind: str) -> None:
    """Trials told to Optuna's own storage lead to the same."""
    space = SPACES[kind]
    finished = told(space, 30)
    study = optuna.create_study(direction="maximize", sampler=sampler(5))
    for trial in finished:
        study.add_trial(
            optuna.create_trial(
                params=trial.params, distributions=trial.distributions, values=trial.values
            )
        )
    usual = study.ask()
    expected = dict[str, Any]()
    for parameter in space.parameters:
        if parameter.is_active(expected):
            searched = distribution(parameter.domain)
            internal = usual._suggest(parameter.key, searched)
            expected[parameter.key] = from_internal(parameter.domain, internal)
    assert expected == suggest_parameters(sampler(5), finished, space, 1)


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Optuna's default one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=0, multivariate=True, group=True, constant_liar=False
        )


def test_asking_leaves_the_history_and_the_logging_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is added, and Optuna is as talkative as before, but not meanwhile."""
    finished = told(MIXED, 12)
    optuna.logging.set_verbosity(optuna.logging.INFO)
    optuna.logging.enable_propagation()
    try:
        with caplog.at_level(logging.DEBUG):
            suggest_parameters(sampler(1), finished, MIXED, 1)
        assert optuna.logging.INFO == optuna.logging.get_verbosity()
    finally:
        optuna.logging.disable_propagation()
    assert [] == caplog.records
    assert finished == told(MIXED, 12)


def test_seeds_of_samplers_are_of_32_bits_and_differ() -> None:
    """From trial to trial, and from sweep to sweep."""
    seeds = {sampler_seed(seed, number) for seed in (0, 1, 2**32 - 1) for number in range(1, 999)}
    assert 3 * 998 == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
