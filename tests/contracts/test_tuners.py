"""What every tuner keeps: its suggestions are values of the space, and functions of the past."""

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
from tuner_cases import COUNT, TUNERS, check, every_case, every_tuner, found, opens, some, usual

from rlexp.errors import ConfigError
from rlexp.tuners import Suggestion

HERE = Path(__file__).parent


def test_the_known_ones_are_there() -> None:
    """Each of them is tested below."""
    assert {"random", "sobol", "grid", "tpe", "gp"} <= set(TUNERS)


@every_tuner
def test_a_yaml_says_what_it_is_and_all_settings(name: str) -> None:
    """A comment first, then every field of the class."""
    assert (CONF / "tuner" / f"{name}.yaml").read_text().startswith("# ")
    values = values_of("tuner", name)
    assert {f.name for f in fields(target(values["_target_"]))} == set(values) - {"_target_"}


@every_tuner
def test_settings_are_a_value(name: str) -> None:
    """Equal settings are equal tuners, and an unknown one is refused."""
    assert member("tuner", name) == member("tuner", name)
    assert hash(member("tuner", name)) == hash(member("tuner", name))
    with pytest.raises(ConfigError, match=r"unknown key 'tuner\.startpu'"):
        member("tuner", name, startpu=1)


@every_tuner
def test_every_tuner_solves_the_plainest_problem(name: str) -> None:
    """Numbers, under one objective or several."""
    assert opens(name, problem(NUMERIC, usual(name)))


@every_case
def test_a_problem_is_refused_at_once_and_in_one_line(
    name: str, kind: str, objectives: int
) -> None:
    """Or it is taken on, and no trial waits for ones that come after it."""
    asked = problem(SPACES[kind], objectives)
    if opens(name, asked):
        suggester = member("tuner", name).open(asked)
        assert [] == [n for n in range(1, 200) if not 0 <= suggester.needs(n) <= n]
    else:
        with pytest.raises(ConfigError, match=r"^[^\n]*tuner[^\n]*$"):
            member("tuner", name).open(asked)


@every_case
def test_suggestions_are_values_of_the_space(name: str, kind: str, objectives: int) -> None:
    """Plain values inside the domains, for the active parameters and no other."""
    asked, done = found(name, kind, objectives)
    assert COUNT == len(done.suggestions)
    for number, suggestion in done.suggestions.items():
        check(asked, suggestion, number)


@every_case
def test_a_fresh_tuner_suggests_the_same(name: str, kind: str, objectives: int) -> None:
    """What a suggester keeps from the whole search changes no suggestion."""
    asked, done = found(name, kind, objectives)
    tuner = member("tuner", name)
    fresh = {n: tuner.open(asked).suggest(done.histories[n], n) for n in some(done)}
    assert {n: done.suggestions[n] for n in fresh} == fresh


@every_case
def test_other_questions_in_between_change_nothing(name: str, kind: str, objectives: int) -> None:
    """Asked from the last number to the first, with other pasts between, it says the same."""
    asked, done = found(name, kind, objectives)
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
    """Trials count by their numbers, wherever they stand, and a suggester changes none of them."""
    asked, done = found(name, kind, objectives)
    past = deepcopy(done.histories[COUNT])
    random.Random(0).shuffle(past)
    before = deepcopy(past)
    assert done.suggestions[COUNT] == member("tuner", name).open(asked).suggest(past, COUNT)
    assert before == past


@every_tuner
def test_random_numbers_come_from_the_seed_alone(name: str) -> None:
    """Global generators are neither read nor moved."""
    asked, done = found(name, "numeric", usual(name))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    again = member("tuner", name).open(asked).suggest(done.histories[COUNT], COUNT)
    assert done.suggestions[COUNT] == again
    assert before == (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002


@every_tuner
def test_another_seed_is_another_search(name: str) -> None:
    """Unless nothing is drawn."""
    if name == "grid":
        pytest.skip("a grid draws nothing")
    _, done = found(name, "numeric", usual(name))
    other = search(member("tuner", name), problem(NUMERIC, usual(name), seed=12), COUNT)
    assert [] == [n for n in done.suggestions if done.suggestions[n] == other.suggestions[n]]


SCRIPT = """
import json, sys
sys.path[:0] = {paths}
from members import member
from searches import SPACES, problem, search
from tuner_cases import COUNT, TUNERS, opens, usual
print(hash("text"))
for name in TUNERS:
    for space in SPACES.values():
        asked = problem(space, usual(name))
        if opens(name, asked):
            found = search(member("tuner", name), asked, COUNT - 2)
            print(name, json.dumps([dict(s.parameters) for s in found.suggestions.values()]))
"""


def suggested(name: str, kind: str) -> str:
    """What a tuner suggests in this process, as the script prints it."""
    _, done = found(name, kind, usual(name))
    values = [dict(s.parameters) for n, s in done.suggestions.items() if n <= COUNT - 2]
    return f"{name} {json.dumps(values)}"


def test_another_process_suggests_the_same() -> None:
    """To the last bit, though Python hashes differently there."""
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
    cases = [(n, k) for n in TUNERS for k in SPACES if opens(n, problem(SPACES[k], usual(n)))]
    assert set(TUNERS) == {name for name, _ in cases}
    assert [suggested(*case) for case in cases] == lines
