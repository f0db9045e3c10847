"""Conversion of trials and spaces to Optuna, and suggestions without copies."""

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


def complete_trials(space: Space, count: int) -> list[optuna.trial.FrozenTrial]:
    """Complete trials at random points."""
    space_distributions = distributions(space)
    result = []
    for number in range(count):
        values = drawn(space, number)
        params = internal_values(space, values)
        assert params is not None
        score = complete(space, number, values).values
        result.append(frozen_trial(number, params, space_distributions, values=score))
    return result


@given(st.sampled_from(list(SPACES)), st.integers(0, 10**6))
def test_values_can_be_converted_back(kind: str, number: int) -> None:
    """Converted values lie inside the distribution and convert back to the same values."""
    space = SPACES[kind]
    values = drawn(space, number)
    result = internal_values(space, values)
    assert result is not None
    for parameter in space.active(values):
        internal, domain = result[parameter.key], parameter.domain
        optuna_distribution = distribution(domain)
        assert optuna_distribution._contains(optuna_distribution.to_internal_repr(internal))
        restored = from_internal(domain, internal)
        value = values[parameter.key]
        assert type(value) is type(restored)
        assert restored == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


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
def test_converted_values(domain: Domain, value: Any, expected: Any) -> None:
    """A value outside a range becomes the nearer end; an unknown choice becomes None."""
    result = to_internal(domain, value)
    assert expected == (pytest.approx(result) if isinstance(result, float) else result)


def test_wide_integer_ranges_are_continuous() -> None:
    """An integer range with 100 steps or more is continuous for the sampler."""
    assert distribution(Integer(1, 100)) == optuna.distributions.IntDistribution(1, 100)
    assert distribution(Integer(1, 101)) == optuna.distributions.FloatDistribution(0, 1)
    assert 51 == from_internal(Integer(1, 101), 0.5)


def test_missing_value_excludes_the_trial() -> None:
    """A trial is excluded if an active parameter has no value."""
    assert internal_values(BRANCHED, {"algorithm": "a2c", "algorithm.learning_rate": 1e-3}) is None
    complete_values = {"algorithm": "a2c", "algorithm.learning_rate": 1e-3, "algorithm.n_steps": 4}
    assert {
        "algorithm": 2,
        "algorithm.learning_rate": pytest.approx(0.5),
        "algorithm.n_steps": 4,
    } == (internal_values(BRANCHED, {**complete_values, "algorithm.clip_range": 0.2}))


def test_middle_values() -> None:
    """Every domain has a middle value, whether it is active or not."""
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
def test_values_that_are_not_finite_are_dropped(
    values: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    """A trial with a value that is not finite counts as failed."""
    assert expected == finite_values(
        complete(NUMERIC, 0, {}, values or ()) if values else failed()
    )


def failed() -> Trial:
    """A failed trial."""
    return replace(complete(NUMERIC, 0, {}, (0.0,)), state=TrialState.FAILED, values=())


def test_trial_is_converted_once_per_change() -> None:
    """A trial is converted again only if it changed, whatever the order of trials."""
    converted_numbers: list[int] = []

    def convert(trial: Trial) -> int | None:
        converted_numbers.append(trial.number)
        return trial.number if trial.number != 1 else None

    history = ConvertedTrials(convert)
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(4)]
    assert [0, 2] == history.of(trials[:3])
    assert [0, 2, 3] == history.of([trials[3], *trials[:3]])
    assert [3] == history.of([replace(trials[3])])
    assert [0, 1, 2, 3] == converted_numbers
    assert [2] == history.of([replace(trials[2], values=(9.0,))])
    assert [0, 1, 2, 3, 2] == converted_numbers


@pytest.mark.parametrize("kind", SPACES)
def test_suggestion_equals_that_of_an_ordinary_study(kind: str) -> None:
    """An ordinary Optuna study with the same trials gives the same suggestion."""
    space = SPACES[kind]
    finished_trials = complete_trials(space, 30)
    study = optuna.create_study(direction="maximize", sampler=sampler(5))
    for trial in finished_trials:
        study.add_trial(
            optuna.create_trial(
                params=trial.params, distributions=trial.distributions, values=trial.values
            )
        )
    next_trial = study.ask()
    expected = dict[str, Any]()
    for parameter in space.parameters:
        if parameter.is_active(expected):
            optuna_distribution = distribution(parameter.domain)
            internal = next_trial._suggest(parameter.key, optuna_distribution)
            expected[parameter.key] = from_internal(parameter.domain, internal)
    assert expected == suggest_parameters(sampler(5), finished_trials, space, 1)


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Optuna's default sampler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=0, multivariate=True, group=True, constant_liar=False
        )


def test_suggesting_does_not_change_history_or_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A suggestion adds no trial, logs nothing and keeps the log level of Optuna."""
    finished_trials = complete_trials(MIXED, 12)
    optuna.logging.set_verbosity(optuna.logging.INFO)
    optuna.logging.enable_propagation()
    try:
        with caplog.at_level(logging.DEBUG):
            suggest_parameters(sampler(1), finished_trials, MIXED, 1)
        assert optuna.logging.INFO == optuna.logging.get_verbosity()
    finally:
        optuna.logging.disable_propagation()
    assert [] == caplog.records
    assert finished_trials == complete_trials(MIXED, 12)


def test_sampler_seeds_have_32_bits_and_differ() -> None:
    """Seeds of samplers have 32 bits and differ between trials and between sweeps."""
    seeds = {sampler_seed(seed, number) for seed in (0, 1, 2**32 - 1) for number in range(1, 999)}
    assert 3 * 998 == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
