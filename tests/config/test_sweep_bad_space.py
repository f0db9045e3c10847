"""Spaces that a configuration does not have or refuses: one line each, before anything trains."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_parts
from samples import write_tree
from sweeping import DEFINITION, domains, refusal

from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep, extreme_values
from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Integer, Real

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


def test_good_sweep_passes(folder: Path) -> None:
    """The definition that the others change is refused for nothing."""
    check_sweep(compose_sweep("mine", [], folder))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # the space
        (
            ["algorithm.gama=interval(0,1)"],
            "sweep.space: unknown key 'algorithm.gama'; did you mean 'gamma'? (algorithm has: ",
        ),
        (["algoritm=ppo,a2c"], "sweep.space: unknown key 'algoritm'; did you mean 'algorithm'?"),
        (["sweep.space.swich.a=[1,2]"], "sweep.space: unknown key 'swich.a' (there are: "),
        (
            ["algorithm=dqn,ddqn"],
            "there is no algorithm=ddqn; did you mean 'dqn'? (there are: a2c",
        ),
        (
            ["sweep.space.algorithm='interval(0,1)'"],
            "sweep.space.algorithm is a group: choose from",
        ),
        (
            ["algorithm=dqn,ppo", "algorithm.tau=interval(0.1,0.5)"],
            ", where algorithm=ppo; say with when: where it is there",
        ),
        (["algorithm.tau=interval(0.5,0.1)"], "a range must go up: 0.5 is not below 0.1"),
        (["algorithm.tau=tag(log,interval(0,1))"], "a log range must begin above 0, not at 0"),
        (["algorithm.tau=tag(log2,interval(0,1))"], "unknown tag 'log2'; did you mean 'log'?"),
        (["algorithm.tau=choice(0.5)"], "sweep.space.algorithm.tau: a choice needs two values"),
        (["sweep.space.algorithm.tau=[]"], "sweep.space.algorithm.tau: a choice needs two values"),
        (["sweep.space.algorithm.tau=0.5"], "0.5 is one value, and nothing to search"),
        (["algorithm.tau=intervall(0,1)"], "cannot read 'algorithm.tau=intervall(0,1)'"),
        (["~sweep.space"], "take parameters out one by one: sweep.space.KEY=null"),
        # values that plug-ins refuse
        (
            ["algorithm.tau=interval(0.5,1.5)"],
            "sweep.space.algorithm.tau may be 1.5, which is refused: algorithm.tau=1.5: must be ",
        ),
        (
            ["algorithm.batch_size=interval(0,64)"],
            "sweep.space.algorithm.batch_size may be 0, which is refused: algorithm.batch_size=0: ",
        ),
        (
            ["algorithm.batch_size=interval(0.5,64)"],
            "algorithm.batch_size=0.5: must be a valid integer",
        ),
        (
            ["agent.activation=tanh,relu,sinh"],
            "sweep.space.agent.activation may be sinh, which is",
        ),
        (
            ["sweep.space.algorithm.tau={values:'interval(0.1,2)',when:{agent.network:[[64]]}}"],
            "sweep.space.algorithm.tau may be 2.0, which is refused",
        ),
        (["algorithm.gamma=interval(0.5,2)"], "sweep.space.algorithm.gamma may be 2.0, which is"),
        (
            ["algorithm=dqn,ppo", "algorithm.n_steps=interval(0,4)", "agent.network=null"],
            "sweep.space.algorithm.n_steps may be 0 with algorithm=dqn, which is refused",
        ),
        (["compute.threads=0,1"], "sweep.space.compute.threads may be 0, which is refused"),
        (["algorithm.tau=7"], "algorithm.tau=7: must be less than or equal to 1"),
        # conditions
        (
            ["++sweep.space.algorithm.tau={values:'0.1,0.2',when:{algorithm.learning_rate:0.1}}"],
            "algorithm.tau depends on algorithm.learning_rate, which is no choice",
        ),
        (
            ["++sweep.space.algorithm.tau={values:'0.1,0.2',when:{switch.gama:true}}"],
            (
                "algorithm.tau depends on switch.gama, which is no choice that stands before it; "
                "did you mean 'switch.gamma'?"
            ),
        ),
        (
            ["++sweep.space.algorithm.tau={values:'0.1,0.2',when:{switch.gamma:yes}}"],
            "algorithm.tau: switch.gamma is never yes (it is one of True, False)",
        ),
        (
            ["++sweep.space.algorithm.tau={values:'0.1,0.2',when:{algorithm:ppo}}"],
            (
                "sweep.space.algorithm.tau would never be there: it depends on algorithm, which is not "
                "searched and is dqn"
            ),
        ),
        (
            [
                "algorithm=dqn,ppo",
                "sweep.space.agent={values:'mlp,cnn',when:{algorithm:ppo}}",
                "++sweep.space.algorithm.tau={values:'0.1,0.2',when:{algorithm:dqn,agent:cnn}}",
            ],
            "sweep.space.algorithm.tau would never be there: no combination of algorithm, agent",
        ),
        (
            ["sweep.space.switch.gamma=null"],
            "algorithm.gamma depends on switch.gamma, which is taken out; say switch.gamma=VALUE",
        ),
    ],
)
def test_refusal_is_one_line(folder: Path, words: list[str], told: str) -> None:
    """It says what was wrong and what is allowed."""
    assert told in refusal(folder, "mine", *words)


def test_hostile_definition_is_refused(folder: Path) -> None:
    """A shared space of the study is checked like its other files, before anything parses it."""
    write_tree(folder, {"sweeps/space/bad.yaml": "a: &a [*a]"})
    assert "bad.yaml" in refusal(folder, "mine")


def test_definition_that_searches_other_tasks_is_refused(folder: Path) -> None:
    """What a word may not ask, a definition may not either."""
    text = DEFINITION + "    environment: [cartpole, acrobot]\n"
    write_tree(folder, {"sweeps/mine.yaml": text})
    assert "sweep.space.environment: scores on different tasks" in refusal(folder, "mine")


def test_option_that_does_not_fit_the_definition_is_named(folder: Path) -> None:
    """A value of the definition that another algorithm does not have is refused where it is."""
    text = DEFINITION.replace("budget:", "algorithm: {tau: 0.5}\nbudget:")
    write_tree(folder, {"sweeps/mine.yaml": text})
    told = refusal(folder, "mine", "algorithm=dqn,ppo")
    assert told.startswith("sweep.space: with algorithm=ppo: unknown key 'algorithm.tau'")


@pytest.fixture(scope="module")
def broad(tmp_path_factory: pytest.TempPathFactory) -> SweepRequest:
    """A sweep over algorithms, with conditions."""
    folder = write_tree(tmp_path_factory.mktemp("study"), {"sweeps/mine.yaml": DEFINITION})
    words = [
        "algorithm=dqn,ppo",
        "sweep.space.algorithm.tau={values:'interval(0.1,1)',when:{algorithm:dqn}}",
        "sweep.space.algorithm.n_epochs={values:'interval(1,9)',when:{algorithm:ppo}}",
    ]
    return compose_sweep("mine", words, folder)


@given(st.lists(st.floats(0, 1), min_size=7, max_size=7))
def test_checked_space_holds_no_value_that_is_refused(
    broad: SweepRequest, point: list[float]
) -> None:
    """What passes at its ends builds everywhere in between."""
    from rlexp.config.validate import validate

    validate(broad.configure(broad.space.decode(point)))


def test_groups_decide_what_is_there(broad: SweepRequest) -> None:
    """Each algorithm has its own parameters."""
    assert Integer(1, 9) == domains(broad)["algorithm.n_epochs"]
    check_sweep(broad)
    with pytest.raises(ConfigError, match=r"unknown key 'algorithm\.n_epochs'"):
        broad.configure({"algorithm": "dqn", "algorithm.n_epochs": 3})
    with pytest.raises(ConfigError, match="n_epoch is no parameter of the space; did you mean"):
        broad.configure({"algorithm.n_epoch": 3})


@pytest.mark.parametrize(
    ("domain", "expected"),
    [(Real(0.0, 1.0), (0.0, 1.0)), (Integer(2, 9), (2, 9)), (Choice((3, 1, 2)), (3, 1, 2))],
)
def test_ends_are_what_is_refused_first(domain: Any, expected: tuple[Any, ...]) -> None:
    """Of a range both ends, of a choice everything."""
    assert expected == extreme_values(domain)
