"""Matrices: benchmarks with many cells, which overrides select or change."""

from pathlib import Path
from textwrap import dedent

import pytest
from composing import compose_one, grid_choices, refusal, value_at
from quick_parts import quick_parts

from rlexp.config.compose import compose
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)

MATRIX = """\
    # Two tasks.
    tasks:
      cartpole:
        budget: {steps: 1000}
        agent: {network: [8]}
        algorithms:
          ppo:
            environment: {vector: {count: 2}}
            algorithm: {n_steps: 16, learning_rate: {shape: linear, initial: 1.0e-3}}
          a2c:
      Pendulum-v1:
        algorithms:
          ppo:
            agent: {policy_kwargs: {log_std_init: -2}}
          sac: {algorithm: {ent_coef: auto_0.1}}
    """
CELLS = [("cartpole", "ppo"), ("cartpole", "a2c"), ("Pendulum-v1", "ppo"), ("Pendulum-v1", "sac")]


def write(folder: Path, content: str = MATRIX, name: str = "two") -> Path:
    """Write a benchmark into a study, and return the study."""
    path = folder / "conf" / "benchmark" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(content))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a matrix of two tasks."""
    return write(tmp_path)


def cells(folder: Path, *overrides: str) -> list[tuple[str, str]]:
    """Task and algorithm of every configuration."""
    all_choices = [dict(choices) for choices in grid_choices(folder, "+benchmark=two", *overrides)]
    return [(choices["environment"], choices["algorithm"]) for choices in all_choices]


def test_matrix_has_all_cells_with_their_settings(folder: Path) -> None:
    """A cell has the settings of its task and its own settings."""
    first, second, third, fourth = (c.plain for c in compose(["+benchmark=two"], folder))
    assert CELLS == cells(folder)
    assert [1000, 1000, 100_000, 100_000] == [
        value_at(p, "budget.steps") for p in (first, second, third, fourth)
    ]
    assert (2, 16) == (
        value_at(first, "environment.vector.count"),
        value_at(first, "algorithm.n_steps"),
    )
    assert {"shape": "linear", "initial": 1e-3} == value_at(first, "algorithm.learning_rate")
    assert ([8], 1) == (
        value_at(second, "agent.network"),
        value_at(second, "environment.vector.count"),
    )
    assert (None, {"log_std_init": -2}) == tuple(
        value_at(third, f"agent.{key}") for key in ("network", "policy_kwargs")
    )
    assert ("Pendulum-v1", "auto_0.1") == (
        value_at(fourth, "environment.id"),
        value_at(fourth, "algorithm.ent_coef"),
    )


@pytest.mark.parametrize(
    ("overrides", "positions"),
    [
        (["algorithm=ppo"], [0, 2]),
        (["algorithm=ppo,sac"], [0, 2, 3]),
        (["environment=cartpole"], [0, 1]),
        (["environment=Pendulum-v1", "algorithm=sac"], [3]),
        (["environment='Pendulum-v1',cartpole", "algorithm=ppo"], [0, 2]),
    ],
)
def test_algorithm_and_environment_select_cells(
    folder: Path, overrides: list[str], positions: list[int]
) -> None:
    """Algorithm and environment select cells, which keep the order of the file."""
    assert [CELLS[position] for position in positions] == cells(folder, *overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm=sacc"], "did you mean 'sac'? (there are: ppo, a2c, sac)"),
        (["algorithm=ppo,dqn"], "algorithm=dqn selects no cell of benchmark=two"),
        (["environment=pendulum"], "environment=pendulum selects no cell"),
        (
            ["algorithm=sac", "environment=cartpole"],
            "algorithm=sac with environment=cartpole (with algorithm=sac it has: Pendulum-v1)",
        ),
        (["algorithm=a2c,ppo", "environment=Pendulum-v1"], "no cell of algorithm=a2c"),
        (["algorithm.n_epochs=1"], "benchmark=two, a2c on cartpole: unknown key"),
        (["seeds.test=1,2"], "belongs to the whole experiment"),
        (["+benchmark=two"], "several matrices must be written as one choice"),
    ],
)
def test_override_without_a_matching_cell_is_refused(
    folder: Path, overrides: list[str], message: str
) -> None:
    """The error for an override that fits no cell lists the options, or names the failing cell."""
    assert message in refusal(folder, "+benchmark=two", *overrides)


def test_a_cell_sets_the_replay(tmp_path: Path) -> None:
    """A cell may have settings of the replay that the command chooses."""
    content = "tasks: {cartpole: {replay: {alpha: 0.9}, algorithms: {dqn: }}}"
    settings = compose_one(write(tmp_path, content), "+benchmark=two", "replay=prioritised")
    assert 0.9 == value_at(settings, "replay.alpha")


def test_overrides_win_over_every_cell(folder: Path) -> None:
    """Overrides win over the settings of cells, regardless of their order."""
    result = compose(["budget.steps=7", "+benchmark=two", "agent.network=[3]"], folder)
    assert {(7, (3,))} == {
        (value_at(c.plain, "budget.steps"), tuple(value_at(c.plain, "agent.network")))
        for c in result
    }


def test_agent_of_the_command_replaces_the_agent_of_the_cell(folder: Path) -> None:
    """The agent settings of the cell do not reach another agent."""
    settings = compose_one(folder, "+benchmark=two", "algorithm=a2c", "agent=linear")
    assert "rlexp.agents.linear.Linear" == value_at(settings, "agent._target_")
    assert "network" not in settings["agent"]


def test_choices_of_values_multiply_the_cells(folder: Path) -> None:
    """A choice of values makes one configuration per cell and value."""
    result = grid_choices(
        folder, "+benchmark=two", "environment=cartpole", "algorithm.gamma=0.9,0.8"
    )
    assert [("ppo", "0.9"), ("ppo", "0.8"), ("a2c", "0.9"), ("a2c", "0.8")] == [
        (dict(choices)["algorithm"], dict(choices)["algorithm.gamma"]) for choices in result
    ]


def test_several_benchmarks_can_be_chosen(folder: Path) -> None:
    """One choice may have matrices and ordinary benchmarks."""
    result = compose(["+benchmark=two,cartpole", "budget.steps=9"], folder)
    assert ["two"] * 4 + [None] == [c.cell and c.cell.matrix for c in result]
    assert (("benchmark", "cartpole"),) == result[-1].choices


def test_one_selection_applies_to_several_matrices(folder: Path) -> None:
    """An option may select cells of one of several matrices only."""
    write(folder, "tasks: {cartpole: {algorithms: {dqn: }}}", "more")
    overrides = ("+benchmark=two,more", "environment=cartpole", "algorithm=a2c,dqn")
    result = [
        (c.cell.matrix, *dict(c.choices).values()) for c in compose(overrides, folder) if c.cell
    ]
    assert [("two", "cartpole", "a2c"), ("more", "cartpole", "dqn")] == result
    assert "selects no cell of benchmark=two,more" in refusal(
        folder, overrides[0], "algorithm=td3"
    )


def test_ordinary_benchmark_is_not_a_matrix(folder: Path) -> None:
    """An override replaces the algorithm of an ordinary benchmark."""
    assert 32 == value_at(compose_one(folder, "+benchmark=cartpole"), "algorithm.n_steps")
    settings = compose_one(folder, "+benchmark=cartpole", "algorithm=a2c")
    assert "rlexp.algorithms.a2c.A2C" == value_at(settings, "algorithm._target_")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("tasks: {}", "tasks must be a mapping with one entry or more"),
        ("tasks: [cartpole]", "tasks must be a mapping"),
        ("tasks: {cartpole: {}}", "tasks.cartpole must be a mapping"),
        ("tasks: {cartpole: {algorithms: {}}}", "tasks.cartpole.algorithms must be a mapping"),
        (
            "tasks: {cartpoll: {algorithms: {ppo: }}}",
            "it is not a Gymnasium id (Name-v1); did",
        ),
        ("tasks: {cartpole: {algorithms: {poo: }}}", "there is no algorithm=poo; did you mean"),
        ("{tasks: {cartpole: {algorithms: {ppo: }}}, more: 1}", "unknown key 'more'"),
        (
            "tasks: {cartpole: {algorithms: {ppo: {seeds: {test: 3}}}}}",
            "seeds belongs to the whole",
        ),
        ("tasks: {cartpole: {algorithms: {ppo: {budgets: {steps: 3}}}}}", "did you mean 'budget'"),
        ("tasks: {cartpole: {algorithms: {ppo: {algorithm: sac}}}}", "must be a mapping: write"),
        (
            "tasks: {cartpole: {algorithms: {ppo: {budget: {timeout: 3}}}}}",
            "remove it from the matrix",
        ),
        (
            "tasks: {cartpole: {algorithms: {ppo: {algorithm: {n_step: 3}}}}}",
            "ppo on cartpole: unk",
        ),
        (
            "tasks: {cartpole: {algorithms: {ppo: {algorithm: {gamma: {'a b': 1}}}}}}",
            "is not a valid key",
        ),
    ],
)
def test_mistake_in_a_matrix_file_is_located(tmp_path: Path, content: str, expected: str) -> None:
    """The error for a mistake in a matrix names the file or the cell."""
    message = refusal(write(tmp_path, content, "wrong"), "+benchmark=wrong")
    assert expected in message
    assert "wrong" in message


@pytest.mark.parametrize(
    "text", ["a'b", "it's \\", "${algorithm.gamma}", "a,b", "x=[1,2]", "null", "1e3", ""]
)
def test_text_in_a_cell_is_not_parsed_as_grammar(tmp_path: Path, text: str) -> None:
    """A text in a cell is used as it is, except for references to other values."""
    content = "tasks: {cartpole: {algorithms: {ppo: {environment: {name: %s}}}}}"
    quoted_text = "'" + text.replace("'", "''") + "'"
    settings = compose_one(write(tmp_path, content % quoted_text, "text"), "+benchmark=text")
    assert (0.99 if "$" in text else text) == value_at(settings, "environment.name")


def test_a_sweep_starts_from_one_cell(folder: Path) -> None:
    """A sweep starts from one selected cell; a selection of several cells is refused."""
    overrides = ["+benchmark=two", "environment=cartpole", "algorithm=ppo"]
    request = compose_sweep("ppo_cartpole", overrides, folder)
    assert 16 == value_at(request.plain, "algorithm.n_steps")
    with pytest.raises(ConfigError, match="has 2 cells left: choose one"):
        compose_sweep("ppo_cartpole", overrides[:2], folder)
