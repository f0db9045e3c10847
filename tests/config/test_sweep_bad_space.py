"""Search spaces with unknown keys or invalid values: refused in one line before training."""

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
    """The unchanged definition passes the checks."""
    check_sweep(compose_sweep("mine", [], folder))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        # the space
        (
            ["algorithm.gama=interval(0,1)"],
            "sweep.space: unknown key 'algorithm.gama'; did you mean 'algorithm.gamma'? (algorithm has: ",
        ),
        (["algoritm=ppo,a2c"], "sweep.space: unknown key 'algoritm'; did you mean 'algorithm'?"),
        (["sweep.space.swich.a=[1,2]"], "sweep.space: unknown key 'swich.a' (there are: "),
        (
            ["algorithm=dqn,ddqn"],
            "there is no algorithm=ddqn; did you mean 'dqn'? (there are: compiled_dqn, crossq",
        ),
        (
            ["sweep.space.algorithm='interval(0,1)'"],
            "sweep.space.algorithm is a group and takes a choice of its options",
        ),
        (
            ["algorithm=dqn,ppo", "algorithm.tau=interval(0.1,0.5)"],
            "(with algorithm=ppo): write the condition with when: GROUP: OPTION",
        ),
        (["algorithm.tau=interval(0.5,0.1)"], "a range must go up: 0.5 is not below 0.1"),
        (["algorithm.tau=tag(log,interval(0,1))"], "a log range must begin above 0, not at 0"),
        (["algorithm.tau=tag(log2,interval(0,1))"], "unknown tag 'log2'; did you mean 'log'?"),
        (["algorithm.tau=choice(0.5)"], "sweep.space.algorithm.tau: a choice needs two values"),
        (["sweep.space.algorithm.tau=[]"], "sweep.space.algorithm.tau: a choice needs two values"),
        (["sweep.space.algorithm.tau=0.5"], "0.5 is a single value, not a set of values"),
        (["algorithm.tau=intervall(0,1)"], "cannot read 'algorithm.tau=intervall(0,1)'"),
        (["~sweep.space"], "parameters must be removed one by one: write sweep.space.KEY=null"),
        # values that plug-ins refuse
        (
            ["algorithm.tau=interval(0.5,1.5)"],
            "sweep.space.algorithm.tau has an invalid value, 1.5: algorithm.tau=1.5: must be ",
        ),
        (
            ["algorithm.batch_size=interval(0,64)"],
            "sweep.space.algorithm.batch_size has an invalid value, 0: algorithm.batch_size=0: ",
        ),
        (
            ["algorithm.batch_size=interval(0.5,64)"],
            "algorithm.batch_size=0.5: must be an integer",
        ),
        (
            ["agent.activation=tanh,relu,sinh"],
            "sweep.space.agent.activation has an invalid value, sinh:",
        ),
        (
            ["sweep.space.algorithm.tau={values:'interval(0.1,2)',when:{agent.network:[[64]]}}"],
            "sweep.space.algorithm.tau has an invalid value, 2.0:",
        ),
        (
            ["algorithm.gamma=interval(0.5,2)"],
            "sweep.space.algorithm.gamma has an invalid value, 2.0:",
        ),
        (
            ["algorithm=dqn,ppo", "algorithm.n_steps=interval(0,4)", "agent.network=null"],
            "sweep.space.algorithm.n_steps has an invalid value, 0 with algorithm=dqn:",
        ),
        (["compute.threads=0,1"], "sweep.space.compute.threads has an invalid value, 0:"),
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
                "sweep.space.algorithm.tau is never active: it depends on algorithm, which is not "
                "searched and has the value dqn"
            ),
        ),
        (
            [
                "algorithm=dqn,ppo",
                "sweep.space.agent={values:'mlp,cnn',when:{algorithm:ppo}}",
                "++sweep.space.algorithm.tau={values:'0.1,0.2',when:{algorithm:dqn,agent:cnn}}",
            ],
            "sweep.space.algorithm.tau is never active: no combination of algorithm, agent",
        ),
        (
            ["sweep.space.switch.gamma=null"],
            "algorithm.gamma depends on switch.gamma, which an override removes from the space; write switch.gamma=VALUE",
        ),
    ],
)
def test_invalid_spaces_are_refused_in_one_line(
    folder: Path, overrides: list[str], message: str
) -> None:
    """The error for an invalid space names the parameter and what is allowed."""
    assert message in refusal(folder, "mine", *overrides)


def test_hostile_definition_is_refused(folder: Path) -> None:
    """A hostile shared space of a study is refused."""
    write_tree(folder, {"sweeps/space/bad.yaml": "a: &a [*a]"})
    assert "bad.yaml" in refusal(folder, "mine")


def test_definition_that_searches_other_tasks_is_refused(folder: Path) -> None:
    """A definition that searches tasks is refused, like an override that searches tasks."""
    text = DEFINITION + "    environment: [cartpole, acrobot]\n"
    write_tree(folder, {"sweeps/mine.yaml": text})
    assert "sweep.space.environment: environment takes one value" in refusal(folder, "mine")


def test_option_that_does_not_fit_the_definition_is_named(folder: Path) -> None:
    """The error names the searched option to which a value of the definition does not fit."""
    text = DEFINITION.replace("budget:", "algorithm: {tau: 0.5}\nbudget:")
    write_tree(folder, {"sweeps/mine.yaml": text})
    message = refusal(folder, "mine", "algorithm=dqn,ppo")
    assert message.startswith("sweep.space: with algorithm=ppo: unknown key 'algorithm.tau'")


@pytest.fixture(scope="module")
def broad_sweep(tmp_path_factory: pytest.TempPathFactory) -> SweepRequest:
    """A sweep over algorithms, with conditions."""
    folder = write_tree(tmp_path_factory.mktemp("study"), {"sweeps/mine.yaml": DEFINITION})
    overrides = [
        "algorithm=dqn,ppo",
        "sweep.space.algorithm.tau={values:'interval(0.1,1)',when:{algorithm:dqn}}",
        "sweep.space.algorithm.n_epochs={values:'interval(1,9)',when:{algorithm:ppo}}",
    ]
    return compose_sweep("mine", overrides, folder)


@given(st.lists(st.floats(0, 1), min_size=7, max_size=7))
def test_checked_space_has_only_valid_values(
    broad_sweep: SweepRequest, point: list[float]
) -> None:
    """If all extreme values build, every point of the space builds."""
    from rlexp.config.validate import validate

    validate(broad_sweep.configure(broad_sweep.space.decode(point)))


def test_active_parameters_depend_on_the_group(broad_sweep: SweepRequest) -> None:
    """A trial may set only the parameters of its algorithm."""
    assert Integer(1, 9) == domains(broad_sweep)["algorithm.n_epochs"]
    check_sweep(broad_sweep)
    with pytest.raises(ConfigError, match=r"unknown key 'algorithm\.n_epochs'"):
        broad_sweep.configure({"algorithm": "dqn", "algorithm.n_epochs": 3})
    with pytest.raises(ConfigError, match="n_epoch is not a parameter of the space; did you mean"):
        broad_sweep.configure({"algorithm.n_epoch": 3})


@pytest.mark.parametrize(
    ("domain", "expected"),
    [(Real(0.0, 1.0), (0.0, 1.0)), (Integer(2, 9), (2, 9)), (Choice((3, 1, 2)), (3, 1, 2))],
)
def test_extreme_values_are_ends_or_all_choices(domain: Any, expected: tuple[Any, ...]) -> None:
    """The extreme values of a range are its ends; those of a choice are all its values."""
    assert expected == extreme_values(domain)
