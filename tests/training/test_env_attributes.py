"""The texts of the attributes of an environment are equal in every process."""

import copy
import os
import random
import subprocess
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hidden_state import Walk

from rlexp.training.environments import env_attributes
from rlexp.training.environments.env_attributes import compare_attributes, read_attributes
from rlexp.training.environments.episode_log import NotReplayable


class Phase(Enum):
    """A phase of a curriculum."""

    EASY = 1
    HARD = 2


@dataclass(slots=True)
class Level:
    """An object without a dictionary."""

    episodes: int


class Node:
    """An object of the same package, which may refer to others."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.next: Any = None


class Holder:
    """A layer with one attribute."""

    def __init__(self, value: Any) -> None:
        self.held = value


def text_of(value: Any) -> str | None:
    """The text of an attribute with this value."""
    return read_attributes([Holder(value)]).get("0 Holder held")


def circle_of_nodes(*numbers: int) -> Node:
    """Nodes that refer to one another in a circle."""
    nodes = [Node(number) for number in numbers]
    for current, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        current.next = following
    return nodes[0]


SHORT = {61: "61", 0.5: "0.5", "easy": "'easy'", np.int64(3): "np.int64(3)"}


@pytest.mark.parametrize(("value", "text"), SHORT.items())
def test_short_values_are_stored_as_they_are(value: Any, text: str) -> None:
    """Short numbers and strings are stored as they are, so that errors can show them."""
    assert text == text_of(value)


def after_a_draw(generator: Any) -> Any:
    """The generator after one draw."""
    generator.random()
    return generator


def after_a_spawn(generator: Any) -> Any:
    """The generator after it made another generator."""
    generator.spawn(1)
    return generator


DIFFERENT: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "kind": (lambda: 1, lambda: 1.0),
    "sign": (lambda: 0.0, lambda: -0.0),
    "truth": (lambda: True, lambda: 1),
    "long number": (lambda: 2**100, lambda: 2**100 + 1),
    "text": (lambda: "x" * 50, lambda: "x" * 51),
    "bytes": (lambda: b"1", lambda: b"2"),
    "borders": (lambda: ["ab", "c"], lambda: ["a", "bc"]),
    "depth": (lambda: [[1], [2, 3]], lambda: [[1, 2], [3]]),
    "order": (lambda: [1, 2], lambda: [2, 1]),
    "ordered": (lambda: OrderedDict(a=1, b=2), lambda: OrderedDict(b=2, a=1)),
    "queue": (lambda: deque([1.0]), lambda: deque([1.0, 1.0])),
    "keys": (lambda: {(0, 1): "a"}, lambda: {(1, 0): "a"}),
    "member": (lambda: {1, (2, 3)}, lambda: {1, (2, 4)}),
    "shape": (lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2))),
    "dtype": (lambda: np.zeros(2, np.int32), lambda: np.zeros(2, np.float32)),
    "element": (lambda: np.arange(2e6), lambda: np.append(np.arange(2e6 - 1), 0.0)),
    "array of objects": (lambda: np.array([1, "a"], object), lambda: np.array([1, "b"], object)),
    "date": (lambda: np.datetime64("2020-01-01"), lambda: np.datetime64("2020-01-02")),
    "member of an enumeration": (lambda: Phase.EASY, lambda: Phase.HARD),
    "generator": (
        lambda: np.random.default_rng(1),
        lambda: after_a_draw(np.random.default_rng(1)),
    ),
    "children": (
        lambda: np.random.default_rng(1),
        lambda: after_a_spawn(np.random.default_rng(1)),
    ),
    "older": (lambda: np.random.RandomState(1), lambda: after_a_draw(np.random.RandomState(1))),
    "twister": (
        lambda: np.random.Generator(np.random.MT19937(1)),
        lambda: after_a_draw(np.random.Generator(np.random.MT19937(1))),
    ),
    "seeds": (lambda: np.random.SeedSequence(1), lambda: after_a_spawn(np.random.SeedSequence(1))),
    "Python's": (lambda: random.Random(1), lambda: after_a_draw(random.Random(1))),
    "object": (lambda: Node(1), lambda: Node(2)),
    "objects": (lambda: [Node(1), Node(2)], lambda: [Node(1), Node(3)]),
    "slot": (lambda: [Level(1)], lambda: [Level(2)]),
    "circle": (lambda: circle_of_nodes(1, 2), lambda: circle_of_nodes(1, 3)),
    "environment inside": (Walk, lambda: after_a_reset(Walk())),
}


def after_a_reset(env: Walk) -> Walk:
    """The environment after a reset."""
    env.reset(seed=1)
    return env


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_values_have_different_texts(case: str) -> None:
    """Different values have different texts, and two copies of a value have equal texts."""
    make_value, make_other_value = DIFFERENT[case]

    assert text_of(make_value()) is not None
    assert text_of(make_value()) == text_of(make_value())
    assert text_of(make_value()) != text_of(make_other_value())


EQUAL: dict[str, tuple[Any, Any]] = {
    "set": ({"a", "b", "c"}, {"c", "b", "a"}),
    "dictionary": ({"a": 1, (1, 2): 2}, {(1, 2): 2, "a": 1}),
    "memory order": (np.ones((2, 3)), np.asfortranarray(np.ones((2, 3)))),
    "strides": (np.arange(3), np.arange(6)[:3]),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_values_have_equal_texts(case: str) -> None:
    """Equal values have equal texts, regardless of insertion order or memory layout."""
    value, equal_value = EQUAL[case]

    assert text_of(value) == text_of(equal_value)


FOREIGN_VALUES = [
    None,
    object(),
    len,
    threading.Lock(),
    gym.spaces.Discrete(2),
    Walk,
    SimpleNamespace(),
]


@pytest.mark.parametrize("value", FOREIGN_VALUES, ids=lambda value: type(value).__name__)
def test_objects_of_other_packages_are_skipped(value: Any) -> None:
    """Objects of other packages are skipped, and None counts as no attribute."""
    assert text_of(value) is None


def test_objects_of_other_packages_are_only_counted() -> None:
    """In a container, only the number and the class of foreign objects count."""
    one_object, two_objects, two_other_objects = (
        text_of([SimpleNamespace(number=n) for n in range(k)]) for k in (1, 2, 2)
    )

    assert one_object != two_objects
    assert two_objects == two_other_objects


def test_objects_in_sets_are_not_read() -> None:
    """Objects in sets are not read, because sets have no stable order."""
    assert text_of({Node(1), Node(2)}) == text_of({Node(3), Node(4)})


def test_layers_are_read_one_by_one() -> None:
    """Keys hold number, class and name; rlexp's own layers and links to layers are left out."""
    env = gym.wrappers.TimeLimit(Walk(), 7)
    env.reset(seed=1)

    attributes = read_attributes([env, env.env], (Walk,))

    assert attributes["0 TimeLimit _elapsed_steps"] == "0"
    assert {"0 TimeLimit"} == {key.rpartition(" ")[0] for key in attributes}
    assert "0 TimeLimit env" not in attributes


def test_circle_of_containers_ends() -> None:
    """A reference cycle ends at a fixed depth."""
    circle: list[Any] = [np.zeros(1)]
    circle.append(circle)

    assert text_of(circle) == text_of(copy.deepcopy(circle))


def test_a_too_large_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with too many parts is refused instead of read for a long time."""
    monkeypatch.setattr(env_attributes, "MOST_PARTS", 100)

    assert text_of([[1.0]] * 20) is not None
    with pytest.raises(NotReplayable, match=r"^held of Holder holds too much to be compared$"):
        text_of([[1.0]] * 200)


def test_every_process_gives_the_same_text() -> None:
    """Texts are equal in two processes with different string hashes."""
    values = [{"a", "b", "c", "d"}, {"x": 1, 2: "y"}]
    code = f"import test_env_attributes as t; h = {values}; print(hash('a')); print(t.text_of(h))"
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"

    process = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    process_hash, process_digest = process.stdout.splitlines()
    assert int(process_hash) != hash("a")
    assert process_digest == text_of(values)
    assert process_digest.startswith("blake2b ")


REASONS = [
    ("2", "61", "episodes of Cart is 2 after the replay and was 61"),
    (None, "61", "episodes of Cart is nothing after the replay and was 61"),
    ("2", None, "episodes of Cart is 2 after the replay and was nothing"),
    ("blake2b ab", "blake2b cd", "episodes of Cart differs after the replay"),
    ("blake2b ab", None, "episodes of Cart differs after the replay"),
    ("'a b'", "'blake2b '", "episodes of Cart is 'a b' after the replay and was 'blake2b '"),
]


@pytest.mark.parametrize(("present", "past", "reason"), REASONS)
def test_difference_names_the_attribute(
    present: str | None, past: str | None, reason: str
) -> None:
    """A difference names the attribute, and its values if they are short."""
    present_attributes, past_attributes = (
        {"0 Cart mass": "1", **({} if text is None else {"1 Cart episodes": text})}
        for text in (present, past)
    )

    with pytest.raises(NotReplayable) as error_info:
        compare_attributes(present_attributes, past_attributes)
    assert str(error_info.value) == reason
    compare_attributes(present_attributes, present_attributes)
