"""Properties of every tuner: suggestions lie in the space and depend on the past only."""

import json
import os
import random
import subprocess
import sys
from copy import deepcopy
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from members import CONF, member, target
from members import settings as values_of
from searches import NUMERIC, SPACES, drawn, ended, problem, search
from tuner_cases import (
    COUNT,
    TUNERS,
    accepts,
    check,
    every_case,
    every_tuner,
    search_with,
    some,
    usual,
)

from rlexp.errors import ConfigError
from rlexp.tuners import Suggestion

HERE = Path(__file__).parent


def test_the_list_of_tuners_is_complete() -> None:
    """The list of tuners under test is complete."""
    assert {"random", "sobol", "grid", "tpe", "gp"} <= set(TUNERS)


@every_tuner
def test_a_yaml_says_what_it_is_and_all_settings(name: str) -> None:
    """A yaml starts with a comment and has every field of the class."""
    assert (CONF / "tuner" / f"{name}.yaml").read_text().startswith("# ")
    values = values_of("tuner", name)
    assert {f.name for f in fields(target(values["_target_"]))} == set(values) - {"_target_"}


@every_tuner
def test_settings_are_a_value(name: str) -> None:
    """Tuners with equal settings are equal; an unknown setting is refused."""
    assert member("tuner", name) == member("tuner", name)
    assert hash(member("tuner", name)) == hash(member("tuner", name))
    with pytest.raises(ConfigError, match=r"unknown key 'tuner\.startpu'"):
        member("tuner", name, startpu=1)


@every_tuner
def test_every_tuner_accepts_a_simple_problem(name: str) -> None:
    """Every tuner accepts a space of numbers with its numbers of objectives."""
    assert accepts(name, problem(NUMERIC, usual(name)))


@every_case
def test_a_problem_is_refused_at_once_and_in_one_line(
    name: str, kind: str, objectives: int
) -> None:
    """A tuner refuses a problem at its start, or never waits for later trials."""
    asked = problem(SPACES[kind], objectives)
    if accepts(name, asked):
        suggester = member("tuner", name).open(asked)
        assert [] == [n for n in range(1, 200) if not 0 <= suggester.needs(n) <= n]
    else:
        with pytest.raises(ConfigError, match=r"^[^\n]*tuner[^\n]*$"):
            member("tuner", name).open(asked)


@every_case
def test_suggestions_are_values_of_the_space(name: str, kind: str, objectives: int) -> None:
    """Suggestions have plain values in their domains, for active parameters only."""
    asked, done = search_with(name, kind, objectives)
    assert COUNT == len(done.suggestions)
    for number, suggestion in done.suggestions.items():
        check(asked, suggestion, number)


@every_case
def test_a_fresh_tuner_suggests_the_same(name: str, kind: str, objectives: int) -> None:
    """State that a suggester keeps does not change its suggestions."""
    asked, done = search_with(name, kind, objectives)
    tuner = member("tuner", name)
    fresh = {n: tuner.open(asked).suggest(done.histories[n], n) for n in some(done)}
    assert {n: done.suggestions[n] for n in fresh} == fresh


@every_case
def test_the_order_of_calls_changes_nothing(name: str, kind: str, objectives: int) -> None:
    """Suggestions do not depend on the order of calls or on other pasts between them."""
    asked, done = search_with(name, kind, objectives)
    suggester = member("tuner", name).open(asked)
    other = [
        ended(asked.space, n, Suggestion(drawn(asked.space, n, 1)), objectives) for n in range(99)
    ]
    backwards = {}
    for number in some(done):
        backwards[number] = suggester.suggest(done.histories[number], number)
        suggester.suggest(other[:number], number)
    assert {n: done.suggestions[n] for n in backwards} == backwards


@every_case
def test_trials_have_no_order_and_stay_as_they_are(name: str, kind: str, objectives: int) -> None:
    """The order of trials does not matter, and a suggester changes none of them."""
    asked, done = search_with(name, kind, objectives)
    past = deepcopy(done.histories[COUNT])
    random.Random(0).shuffle(past)
    before = deepcopy(past)
    assert done.suggestions[COUNT] == member("tuner", name).open(asked).suggest(past, COUNT)
    assert before == past


@every_tuner
def test_random_numbers_come_from_the_seed_alone(name: str) -> None:
    """Global generators are neither read nor changed."""
    asked, done = search_with(name, "numeric", usual(name))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    again = member("tuner", name).open(asked).suggest(done.histories[COUNT], COUNT)
    assert done.suggestions[COUNT] == again
    assert before == (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002


@every_tuner
def test_another_seed_is_another_search(name: str) -> None:
    """Another seed gives other suggestions, unless nothing is drawn."""
    if name == "grid":
        pytest.skip("a grid draws nothing")
    _, done = search_with(name, "numeric", usual(name))
    other = search(member("tuner", name), problem(NUMERIC, usual(name), seed=12), COUNT)
    assert [] == [n for n in done.suggestions if done.suggestions[n] == other.suggestions[n]]


SCRIPT = """
import json, sys
sys.path[:0] = {paths}
from members import member
from searches import SPACES, problem, search
from tuner_cases import COUNT, TUNERS, accepts, usual
print(hash("text"))
for name in TUNERS:
    for space in SPACES.values():
        asked = problem(space, usual(name))
        if accepts(name, asked):
            search_with = search(member("tuner", name), asked, COUNT - 2)
            print(name, json.dumps([dict(s.parameters) for s in search_with.suggestions.values()]))
"""


def suggested(name: str, kind: str) -> str:
    """The suggestions of a tuner in this process, as the script prints them."""
    _, done = search_with(name, kind, usual(name))
    values = [dict(s.parameters) for n, s in done.suggestions.items() if n <= COUNT - 2]
    return f"{name} {json.dumps(values)}"


def test_another_process_suggests_the_same() -> None:
    """Another process with other string hashes gives equal suggestions to the last bit."""
    script = SCRIPT.format(paths=[str(HERE), str(HERE.parent)])
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": other},
        check=True,
        capture_output=True,
        text=True,
    )
    its_hash, *lines = done.stdout.splitlines()
    assert int(its_hash) != hash("text")
    cases = [(n, k) for n in TUNERS for k in SPACES if accepts(n, problem(SPACES[k], usual(n)))]
    assert set(TUNERS) == {name for name, _ in cases}
    assert [suggested(*case) for case in cases] == lines
