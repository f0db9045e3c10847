"""Looks: their JSON values, and how many configurations they count."""

import json
from typing import Any

import pytest
from look_samples import look

from rlexp.errors import RecordError
from rlexp.records.look import (
    Look,
    SeedsOfTask,
    digest_of_looks,
    looks_by_configuration,
)

SEEDS = SeedsOfTask(task="CartPole-v1", root=0, seeds=frozenset({0, 1, 2}))


@pytest.mark.parametrize("deviation", [None, 0.0, 2.5])
def test_a_look_is_the_same_after_json(deviation: float | None) -> None:
    """A look that is written as JSON and read again is equal."""
    written = look(3, deviation=deviation)
    assert written == Look.from_plain(json.loads(json.dumps(written.plain())))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mean", 11.0),
        ("mean", "nan"),
        ("deviation", 3.0),
        ("label", "another"),
        ("label", 7),
        ("root", True),
        ("root", -1),
        ("steps", 1.5),
        ("seeds", []),
        ("seeds", [1, 0, 2]),
        ("seeds", [0, 0, 2]),
        ("task", None),
        ("look", "0" * 64),
        ("sum", "0" * 64),
    ],
)
def test_an_edited_look_is_refused(field: str, value: Any) -> None:
    """A look with another value in any field is refused, also without the lines around it."""
    with pytest.raises(RecordError, match="not a look"):
        Look.from_plain({**look().plain(), field: value})


def test_each_configuration_counts_once() -> None:
    """Further seeds of a configuration add no configuration, and its largest look is used."""
    larger = look(1, seeds=(0, 1, 2, 3, 4))
    assert (look(0), larger) == looks_by_configuration([look(1), look(0), larger], SEEDS)


@pytest.mark.parametrize("values", [{"root": 1}, {"task": "Acrobot-v1"}, {"seeds": (3, 4)}])
def test_looks_on_other_seeds_do_not_count(values: dict[str, Any]) -> None:
    """Another root, another task, or other seeds of the same root begin a count of their own."""
    assert (look(0),) == looks_by_configuration([look(0), look(1, **values)], SEEDS)


def test_the_digest_depends_on_the_looks_and_not_on_their_order() -> None:
    """The digest is the same for another order, and differs for another score."""
    assert digest_of_looks([look(0), look(1)]) == digest_of_looks([look(1), look(0)])
    assert digest_of_looks([look(0), look(1)]) != digest_of_looks([look(0), look(1, mean=1.0)])
