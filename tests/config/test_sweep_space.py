"""Parsing of search spaces: Hydra's grammar, lists, conditions and invalid spaces."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_yaml
from sweeping import conditions, domains

from rlexp.config.parameter_entries import ParameterEntry, ordered, read_domain, read_entries
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Domain, Integer, Real

quick = pytest.fixture(autouse=True)(quick_yaml)


@pytest.mark.parametrize(
    ("values", "default", "expected"),
    [
        ("interval(0.1, 0.9)", 0.5, Real(0.1, 0.9)),
        ("interval(start=0, end=1)", 0.5, Real(0.0, 1.0)),
        ("tag(log, interval(1e-5, 1e-1))", 0.1, Real(1e-5, 0.1, "log")),
        ("tag(flipped_log, interval(0.8, 0.9999))", 0.9, Real(0.8, 0.9999, "flipped_log")),
        ("int(interval(1, 20))", 3, Integer(1, 20)),
        ("int(interval(1, 20))", None, Integer(1, 20)),
        ("tag(log, int(interval(1, 256)))", 4, Integer(1, 256, log=True)),
        ("int(tag(log, interval(1, 256)))", 4, Integer(1, 256, log=True)),
        ("int(interval(1_000, 1_000_000))", 4, Integer(1000, 1_000_000)),
        ("choice(64, 128)", 64, Choice((64, 128))),
        ("choice(a, 'b c', 1.5, true, [64, 64])", 1, Choice(("a", "b c", 1.5, True, [64, 64]))),
        ("choice({shape:linear,initial:0.1}, 0.1)", 1, None),
        ("64,128", 64, Choice((64, 128))),
        ("null,0.2", None, Choice((None, 0.2))),
        ("range(0, 10, 2)", 0, Choice((0, 2, 4, 6, 8))),
        ("range(1, 4)", 0, Choice((1, 2, 3))),
        ("range(0, 1, 0.5)", 0, Choice((0.0, 0.5))),
        ([None, [64], "x"], None, Choice((None, [64], "x"))),
    ],
)
def test_values_are_parsed_with_hydras_grammar(
    values: Any, default: Any, expected: Domain | None
) -> None:
    """Intervals, scales, types, choices, ranges and lists become domains."""
    result = read_domain("algorithm.x", values, default)
    assert (expected or Choice(({"shape": "linear", "initial": 0.1}, 0.1))) == result


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        (10, Integer(1, 20)),
        (10.0, Real(1.0, 20.0)),
        (True, Real(1.0, 20.0)),
        (None, Real(1.0, 20.0)),
        ("auto", Real(1.0, 20.0)),
    ],
)
def test_integer_default_makes_an_integer_interval(default: Any, expected: Domain) -> None:
    """Hydra reads the ends as real numbers; an integer default makes them integers."""
    assert expected == read_domain("algorithm.x", "interval(1, 20)", default)


def test_fractional_ends_stay_real_numbers() -> None:
    """The ends of a range are not rounded, even if the default is an integer."""
    assert Real(0.5, 20.0) == read_domain("algorithm.x", "interval(0.5, 20)", 10)


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_ends_are_exact(first: float, second: float) -> None:
    """The parsed ends of a range equal the written ends to the last bit."""
    low, high = sorted((first, second))
    if low == high:
        return
    result = read_domain("algorithm.x", f"tag(log, interval({low!r}, {high!r}))", 0.1)
    assert Real(low, high, "log") == result


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("interval(3, 1)", "a range must go up: 3 is not below 1"),
        ("interval(1, 1)", "a range must go up: 1 is not below 1"),
        ("interval(0, inf)", "the ends of a range must be finite"),
        ("tag(log, interval(0, 1))", "a log range must begin above 0, not at 0"),
        (
            "tag(log, int(interval(0, 8)))",
            "a log range of whole numbers must begin at 1, not at 0",
        ),
        ("tag(flipped_log, interval(0, 1))", "a flipped_log range must end below 1, not at 1"),
        ("tag(flipped_log, int(interval(0, 8)))", "flipped_log is a scale for real numbers"),
        ("tag(lug, interval(1, 2))", "unknown tag 'lug'; did you mean 'log'? (there are: log, "),
        ("tag(log, flipped_log, interval(0.1, 0.2))", "an interval has one scale"),
        ("tag(log, choice(1, 2))", "only an interval can have a tag"),
        ("shuffle(choice(1, 2))", "remove shuffle()"),
        ("glob(*)", "write the options as choice(first, second)"),
        ("choice()", "empty choice is not legal"),
        ("choice(1)", "a choice needs two values or more"),
        ("range(0, 1)", "a choice needs two values or more"),
        ("choice(1, 1)", "a choice names a value twice"),
        ("choice(nan, 1)", "has a value that is not JSON, such as nan"),
        ([], "a choice needs two values or more"),
        ([[64]], "a choice needs two values or more"),
        ("0.99", "'0.99' is a single value, not a set of values; write interval(low, high)"),
        (0.99, "0.99 is a single value, not a set of values"),
        (True, "True is a single value, not a set of values"),
        ("linear", "'linear' is a single value"),
        ("intervall(0, 1)", "cannot read 'intervall(0, 1)'"),
        ("interval(0, 1", "cannot read 'interval(0, 1'"),
        ("", "'' is a single value"),
    ],
)
def test_invalid_values_are_refused_in_one_line(values: Any, message: str) -> None:
    """The error for invalid values names the parameter and the mistake."""
    with pytest.raises(ConfigError) as error_info:
        read_domain("algorithm.x", values, 0.5)
    text = str(error_info.value)
    assert (True, True, False) == (
        text.startswith("sweep.space.algorithm.x: "),
        message in text,
        "\n" in text,
    )


@pytest.mark.parametrize(
    "space",
    [
        {"algorithm": {"gamma": "a,b", "clip": {"values": "c,d", "when": {"switch.x": True}}}},
        {
            "algorithm.gamma": "a,b",
            "algorithm.clip": {"values": "c,d", "when": {"switch.x": [True]}},
        },
        {
            "algorithm": {
                "clip": {"when": {"switch": {"x": True}}, "values": "c,d"},
                "gamma": "a,b",
            }
        },
    ],
)
def test_keys_may_be_nested_or_dotted(space: Any) -> None:
    """Nested and dotted keys mean the same, as do a single value and a list of one."""
    expected = {
        "algorithm.gamma": ParameterEntry("a,b"),
        "algorithm.clip": ParameterEntry("c,d", {"switch.x": (True,)}),
    }
    assert expected == read_entries(space)


def test_null_removes_a_parameter() -> None:
    """A definition can remove a parameter of a shared space."""
    assert {"algorithm.gamma": None} == read_entries({"algorithm": {"gamma": None}})


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([1], "must be a mapping of parameters to values"),
        ("interval(0, 1)", "must be a mapping of parameters to values"),
        ({"a": {"b": "1,2"}, "a.b": "1,2"}, "sweep.space.a.b stands twice"),
        ({"a.b": {"when": {"c": 1}}}, "sweep.space.a.b has no values"),
        ({"a.b": {"values": "1,2", "whem": {}}}, "unknown key 'whem'; did you mean 'when'?"),
        ({"a.b": {"values": "1,2", "when": "c"}}, "when='c' must be a mapping"),
        ({"a.b": {"values": "1,2", "when": {"c": []}}}, "when: c has no values"),
    ],
)
def test_invalid_space_is_refused_in_one_line(space: Any, message: str) -> None:
    """The error for an invalid space says what is wrong with it."""
    with pytest.raises(ConfigError, match=r"sweep\.space") as error_info:
        read_entries(space)
    assert message in str(error_info.value)


@given(st.permutations(list("abcde")))
def test_order_is_topological_then_alphabetical(keys: list[str]) -> None:
    """Parameters are ordered by their conditions and then by name, however they are written."""
    parents: dict[str, dict[str, tuple[int, ...]]] = {
        "a": {"e": (1,)},
        "b": {"c": (1,), "a": (1,)},
    }
    assert ["e", "a", "c", "b", "d"] == ordered({key: parents.get(key, {}) for key in keys})


def test_conditions_in_a_circle_are_refused() -> None:
    """The error for conditions in a circle shows the circle."""
    with pytest.raises(ConfigError, match="a → c → b → a"):
        ordered({"a": {"c": ()}, "b": {"a": ()}, "c": {"b": ()}})


def test_conditions_reach_the_space(tmp_path: Path) -> None:
    """A parent may be a choice, a switch or a group, and may have several values."""
    overrides = [
        "algorithm=ppo,a2c,dqn",
        "switch.clip=true,false",
        "sweep.space.algorithm.clip_range_vf={values:'interval(0.1,0.5)',when:{algorithm:ppo,switch.clip:true}}",
        "sweep.space.algorithm.gae_lambda={values:'interval(0.8,0.9)',when:{algorithm:[ppo,a2c]}}",
        "agent.network=[64],[64,64]",
        "sweep.space.agent.activation={values:'tanh,relu',when:{agent.network:[[64,64]]}}",
    ]
    request = compose_sweep(None, overrides, tmp_path)
    assert conditions(request) == {
        "algorithm.clip_range_vf": {"algorithm": ("ppo",), "switch.clip": (True,)},
        "algorithm.gae_lambda": {"algorithm": ("ppo", "a2c")},
        "agent.activation": {"agent.network": ([64, 64],)},
    }
    assert False is request.default["switch.clip"]
    assert Choice(("ppo", "a2c", "dqn")) == domains(request)["algorithm"]
