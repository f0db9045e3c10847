"""Python values as settings: the composed configuration holds the same values."""

import enum
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from composing import compose_one, grid_choices, value_at
from hypothesis import example, given
from hypothesis import strategies as st

from rlexp.config.override_words import Setting, override_words
from rlexp.config.overrides import parse_overrides
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError

KEY = "environment.arguments.value"
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]*", fullmatch=True).filter(
    lambda name: name.lower() not in {"null", "true", "false", "nan", "inf"}
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda text: text != "???")
    | st.text("\\'\"${}[](),:=+~@ \t\n0eE.-_antrulf", max_size=8).filter(lambda t: t != "???")
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


def plain(word: str) -> Any:
    """The value of a word in a configuration with references that are resolved."""
    from omegaconf import OmegaConf

    (parsed,) = parse_overrides([word])
    assert not parsed.is_sweep_override()
    config = OmegaConf.create({"other": 1})
    OmegaConf.update(config, parsed.key_or_group, parsed.value(), merge=True, force_add=True)
    content = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    return value_at(content, KEY)


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal and of equal types, inside of lists and mappings too."""
    return repr(first) == repr(second)


def refusal(settings: Mapping[str, Any]) -> str:
    """The error about wrong settings, which must be one line."""
    with pytest.raises(ConfigError) as error:
        override_words([settings])
    assert "\n" not in str(error.value)
    return str(error.value)


@given(VALUES)
@example("${other}")
@example("\\${other} \\\\${b")
@example("ends in \\")
@example("it's \\' and \\\\'")
@example(["null", "True", "1e5", "", " ", "a,b", "k=v", "NaN", "0x1"])
@example({"a": {"b": [{"c": -0.0}]}})
def test_the_configuration_holds_the_same_value(value: Any) -> None:
    """Any text, number, truth value, None, list and mapping is the same in the configuration."""
    (word,) = override_words([{KEY: value}])
    assert same(value, plain(word))


HARD = [
    *(
        "a'b\"c",
        "a,b=c",
        "${budget.steps}",
        "\\${oc.env:HOME}",
        "1e5",
        "null",
        "",
        "ü → 漢",
        "a\nb",
    ),
    *([64, [1.5, None]], {"x": {"y": "x(1)"}}, 10**30, 5e-324, False, []),
]


@pytest.mark.parametrize("value", HARD, ids=ascii)
def test_hydra_composes_the_same_value(tmp_path: Path, value: Any) -> None:
    """The whole composition keeps the value, not only the parser of words."""
    words = override_words([{KEY: value}])
    assert same(value, value_at(compose_one(tmp_path, *words), KEY))


def test_scalars_of_numpy_paths_and_enumerations_are_value_words() -> None:
    """A scalar of NumPy is its number, a path its text, and a member of an enumeration its value."""
    color = enum.Enum("color", {"RED": "red"})
    cases = [
        (np.float64(0.1), "x=0.1"),
        (np.float32(0.5), "x=0.5"),
        (np.int64(7), "x=7"),
        (np.bool_(True), "x=true"),
        (np.str_("a b"), "x='a b'"),
        (PurePosixPath("/a/b c"), "x='/a/b c'"),
        (color["RED"], "x=red"),
        ([np.int64(1)], "x=[1]"),
    ]
    assert [word for _, word in cases] == [override_words([{"x": v}])[0] for v, _ in cases]


def test_a_tuple_is_several_values_and_a_list_is_one(tmp_path: Path) -> None:
    """A tuple makes a grid; a list, also inside of a tuple, is one value."""
    words = override_words(
        [{"algorithm": ("ppo", "a2c"), "agent.network": ([64, 64], [32]), "component": ["none"]}]
    )
    assert ("algorithm=ppo,a2c", "agent.network=[64,64],[32]", "component=['none']") == words
    choices = grid_choices(tmp_path, *words[:2])
    assert 4 == len(choices)
    assert (("algorithm", "ppo"), ("agent.network", "[64,64]")) == choices[0]
    assert ("algorithm=ppo",) == override_words([{"algorithm": ("ppo",)}])


@given(st.lists(st.text() | st.integers(), min_size=2, max_size=4))
def test_each_value_of_a_tuple_is_kept(values: list[Any]) -> None:
    """The choices of a grid are the values of the tuple, in their order."""
    if "???" in values:
        return
    (word,) = override_words([{KEY: tuple(values)}])
    (parsed,) = parse_overrides([word])
    texts = [f"{KEY}={text}" for text in parsed.sweep_string_iterator()]
    assert same(values, [plain(text) for text in texts])


def test_sections_are_mappings_and_words_keep_their_place(tmp_path: Path) -> None:
    """The keys of a section are set one by one, words stay, and deeper mappings are values."""
    settings: list[Setting] = [
        "algorithm=ppo",
        {"budget": {"steps": 5, "score": "auc"}, "seeds.test": [0, 1]},
        {"algorithm": {"learning_rate": {"shape": "linear", "initial": 0.1}}},
        "~component",
    ]
    assert (
        "algorithm=ppo",
        *("budget.steps=5", "budget.score=auc", "seeds.test=[0,1]"),
        "algorithm.learning_rate={shape:'linear',initial:0.1}",
        "~component",
    ) == override_words(settings)
    kept = {"environment": {"vector": {"count": 2}}}
    composed = compose_one(tmp_path, *override_words([kept]))
    assert 2 == value_at(composed, "environment.vector.count")
    assert "frame_stack" in value_at(composed, "environment.vector")


def test_a_benchmark_needs_no_sign() -> None:
    """The group `benchmark` has no default option, and its word gets the `+`."""
    assert ("+benchmark=classic_control",) == override_words([{"benchmark": "classic_control"}])
    assert ("+benchmark=a,b",) == override_words([{"+benchmark": ("a", "b")}])


def test_ranges_are_searched_in_sweeps_only(tmp_path: Path) -> None:
    """In a sweep, a text that is a range is searched; elsewhere it is a text."""
    text = "tag(log, interval(1e-5, 1e-2))"
    rate = {"algorithm.learning_rate": text}
    assert (f"algorithm.learning_rate='{text}'",) == override_words([rate])
    forms: list[Mapping[str, Any]] = [
        {**rate, "algorithm.n_steps": (128, 256)},
        {"sweep": {"space": {**rate, "algorithm.n_steps": [128, 256]}}},
        {"sweep.space": {"algorithm": {"learning_rate": text, "n_steps": [128, 256]}}},
    ]
    spaces = [
        compose_sweep(None, override_words([form], searching=True), tmp_path).space
        for form in forms
    ]
    assert ["algorithm.learning_rate", "algorithm.n_steps"] == list(spaces[0].keys)
    assert spaces[0] == spaces[1] == spaces[2]
    foreign = {"algorithm.learning_rate": "loguniform(1e-5, 1e-2)"}
    with pytest.raises(ConfigError, match="tag\\(log,interval\\(1e-5,1e-2\\)\\)"):
        compose_sweep(None, override_words([foreign], searching=True), tmp_path)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "x.y: nan cannot stand in a configuration: write a finite number, or None"),
        ([float("inf")], "x.y: inf cannot stand in"),
        (np.float64("-inf"), "x.y: -inf cannot stand in"),
        (lambda: 0, "x.y: a value of the type function is not allowed: write text, a number"),
        ({1, 2}, "x.y: a value of the type set is not allowed"),
        (b"x", "x.y: a value of the type bytes is not allowed"),
        (np.zeros(2), "x.y: a value of the type ndarray is not allowed: write value.tolist()"),
        ((1, (2, 3)), "x.y: a tuple cannot stand inside another value: write a list"),
        ([(1, 2)], "x.y: a tuple cannot stand inside another value"),
        ((), "x.y: an empty tuple has no value"),
        ("???", "x.y: '???' stands for a missing value"),
        ("\ud800", "x.y: '\\ud800' is no text: it holds half of a surrogate pair"),
        ({1: 2}, "x.y: the key 1 in a mapping must be text"),
        ({"null": 2}, "x.y: 'null' is not a valid key"),
        ({"a b": 2}, "x.y: 'a b' is not a valid key"),
    ],
)
def test_other_values_are_refused_with_their_key(value: Any, reason: str) -> None:
    """A value that no configuration can hold is refused on one line that names its key."""
    assert refusal({"x.y": value}).startswith(reason)


@pytest.mark.parametrize("key", ["", "a b", "a=b", "~component", 3, "a,b"])
def test_other_keys_are_refused(key: Any) -> None:
    """A key that is no name is refused; the form `~KEY` is written as a string."""
    assert f"{key!r} is no key of a configuration" in refusal({key: 1})


def test_other_settings_are_refused() -> None:
    """A setting is a string or a mapping."""
    with pytest.raises(ConfigError, match="of the type int is not allowed: write a string"):
        override_words([7])  # type: ignore[list-item]
