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
    sample_numbers,
    search_with,
    usual_objectives,
)

from rlexp.errors import ConfigError
from rlexp.tuners import Suggestion

HERE = Path(__file__).parent


def test_the_list_of_tuners_is_complete() -> None:
    """The tuners under test include random, Sobol, grid, TPE and GP."""
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
    """Every tuner accepts a numeric space with one or two objectives."""
    assert accepts(name, problem(NUMERIC, usual_objectives(name)))


@every_case
def test_a_problem_is_refused_at_once_and_in_one_line(
    name: str, kind: str, objectives: int
) -> None:
    """A tuner refuses a problem at its start in one line, or never waits for later trials."""
    search_problem = problem(SPACES[kind], objectives)
    if accepts(name, search_problem):
        suggester = member("tuner", name).open(search_problem)
        assert [] == [n for n in range(1, 200) if not 0 <= suggester.needs(n) <= n]
    else:
        with pytest.raises(ConfigError, match=r"^[^\n]*tuner[^\n]*$"):
            member("tuner", name).open(search_problem)


@every_case
def test_suggestions_are_values_of_the_space(name: str, kind: str, objectives: int) -> None:
    """Suggestions have values in the domains of the active parameters only."""
    search_problem, result = search_with(name, kind, objectives)
    assert COUNT == len(result.suggestions)
    for number, suggestion in result.suggestions.items():
        check(search_problem, suggestion, number)


@every_case
def test_a_fresh_tuner_suggests_the_same(name: str, kind: str, objectives: int) -> None:
    """A new suggester gives the same suggestions as one that suggested all earlier trials."""
    search_problem, result = search_with(name, kind, objectives)
    tuner = member("tuner", name)
    new_suggestions = {
        n: tuner.open(search_problem).suggest(result.histories[n], n)
        for n in sample_numbers(result)
    }
    assert {n: result.suggestions[n] for n in new_suggestions} == new_suggestions


@every_case
def test_the_order_of_calls_changes_nothing(name: str, kind: str, objectives: int) -> None:
    """Suggestions do not depend on the order of calls, or on calls with other trials."""
    search_problem, result = search_with(name, kind, objectives)
    suggester = member("tuner", name).open(search_problem)
    other_trials = [
        ended(search_problem.space, n, Suggestion(drawn(search_problem.space, n, 1)), objectives)
        for n in range(99)
    ]
    reversed_suggestions = {}
    for number in sample_numbers(result):
        reversed_suggestions[number] = suggester.suggest(result.histories[number], number)
        suggester.suggest(other_trials[:number], number)
    assert {n: result.suggestions[n] for n in reversed_suggestions} == reversed_suggestions


@every_case
def test_trials_have_no_order_and_stay_as_they_are(name: str, kind: str, objectives: int) -> None:
    """The order of trials does not matter, and a suggester changes none of them."""
    search_problem, result = search_with(name, kind, objectives)
    past = deepcopy(result.histories[COUNT])
    random.Random(0).shuffle(past)
    before = deepcopy(past)
    assert result.suggestions[COUNT] == member("tuner", name).open(search_problem).suggest(
        past, COUNT
    )
    assert before == past


@every_tuner
def test_random_numbers_come_from_the_seed_alone(name: str) -> None:
    """A tuner neither reads nor changes the global random generators."""
    search_problem, result = search_with(name, "numeric", usual_objectives(name))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    second_suggestion = (
        member("tuner", name).open(search_problem).suggest(result.histories[COUNT], COUNT)
    )
    assert result.suggestions[COUNT] == second_suggestion
    assert before == (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002


@every_tuner
def test_another_seed_is_another_search(name: str) -> None:
    """Another seed gives other suggestions, unless nothing is drawn."""
    if name == "grid":
        pytest.skip("a grid draws nothing")
    _, result = search_with(name, "numeric", usual_objectives(name))
    other_result = search(
        member("tuner", name), problem(NUMERIC, usual_objectives(name), seed=12), COUNT
    )
    assert [] == [
        n for n in result.suggestions if result.suggestions[n] == other_result.suggestions[n]
    ]


SCRIPT = """
import json, sys
sys.path[:0] = {paths}
from members import member
from searches import SPACES, problem, search
from tuner_cases import COUNT, TUNERS, accepts, usual_objectives
print(hash("text"))
for name in TUNERS:
    for space in SPACES.values():
        search_problem = problem(space, usual_objectives(name))
        if accepts(name, search_problem):
            result = search(member("tuner", name), search_problem, COUNT - 2)
            print(name, json.dumps([dict(s.parameters) for s in result.suggestions.values()]))
"""


def suggestions_line(name: str, kind: str) -> str:
    """The suggestions of a tuner in this process, as the script prints them."""
    _, result = search_with(name, kind, usual_objectives(name))
    values = [dict(s.parameters) for n, s in result.suggestions.items() if n <= COUNT - 2]
    return f"{name} {json.dumps(values)}"


def test_another_process_suggests_the_same() -> None:
    """Another process with other string hashes gives equal suggestions to the last bit."""
    script = SCRIPT.format(paths=[str(HERE), str(HERE.parent)])
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    process_hash, *lines = process.stdout.splitlines()
    assert int(process_hash) != hash("text")
    cases = [
        (n, k)
        for n in TUNERS
        for k in SPACES
        if accepts(n, problem(SPACES[k], usual_objectives(n)))
    ]
    assert set(TUNERS) == {name for name, _ in cases}
    assert [suggestions_line(*case) for case in cases] == lines
