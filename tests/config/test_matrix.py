"""Matrices of benchmarks: one word that stands for many cells, which other words narrow or change."""

from pathlib import Path
from textwrap import dedent

import pytest
from composing import at, grid, one, refusal
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
    """Write a benchmark into a study; returns the study."""
    path = folder / "conf" / "benchmark" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(content))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a matrix of two tasks."""
    return write(tmp_path)


def cells(folder: Path, *words: str) -> list[tuple[str, str]]:
    """Task and algorithm of every configuration."""
    found = [dict(choices) for choices in grid(folder, "+benchmark=two", *words)]
    return [(choices["environment"], choices["algorithm"]) for choices in found]


def test_a_matrix_is_all_its_cells_with_their_own_settings(folder: Path) -> None:
    """What a task's cells share, and what each sets by itself."""
    first, second, third, fourth = (c.plain for c in compose(["+benchmark=two"], folder))
    assert CELLS == cells(folder)
    assert [1000, 1000, 100_000, 100_000] == [
        at(p, "budget.steps") for p in (first, second, third, fourth)
    ]
    assert (2, 16) == (at(first, "environment.vector.count"), at(first, "algorithm.n_steps"))
    assert {"shape": "linear", "initial": 1e-3} == at(first, "algorithm.learning_rate")
    assert ([8], 1) == (at(second, "agent.network"), at(second, "environment.vector.count"))
    assert (None, {"log_std_init": -2}) == tuple(
        at(third, f"agent.{key}") for key in ("network", "policy_kwargs")
    )
    assert ("Pendulum-v1", "auto_0.1") == (
        at(fourth, "environment.id"),
        at(fourth, "algorithm.ent_coef"),
    )


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["algorithm=ppo"], [0, 2]),
        (["algorithm=ppo,sac"], [0, 2, 3]),
        (["environment=cartpole"], [0, 1]),
        (["environment=Pendulum-v1", "algorithm=sac"], [3]),
        (["environment='Pendulum-v1',cartpole", "algorithm=ppo"], [0, 2]),
    ],
)
def test_algorithm_and_environment_narrow_a_matrix(
    folder: Path, words: list[str], left: list[int]
) -> None:
    """In the order of its file, whatever the order of the words."""
    assert [CELLS[position] for position in left] == cells(folder, *words)


@pytest.mark.parametrize(
    ("words", "said"),
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
        (["+benchmark=two"], "several matrices are a choice"),
    ],
)
def test_what_selects_or_fits_nothing_is_refused(
    folder: Path, words: list[str], said: str
) -> None:
    """With what there is, and with the cell that a word does not fit."""
    assert said in refusal(folder, "+benchmark=two", *words)


def test_words_win_over_every_cell(folder: Path) -> None:
    """Wherever they stand among the words."""
    found = compose(["budget.steps=7", "+benchmark=two", "agent.network=[3]"], folder)
    assert {(7, (3,))} == {
        (at(c.plain, "budget.steps"), tuple(at(c.plain, "agent.network"))) for c in found
    }


def test_an_agent_of_the_command_comes_without_the_agent_of_the_cell(folder: Path) -> None:
    """Whose settings it would not have."""
    chosen = one(folder, "+benchmark=two", "algorithm=a2c", "agent=linear")
    assert "rlexp.agents.linear.Linear" == at(chosen, "agent._target_")
    assert "network" not in chosen["agent"]


def test_choices_of_values_multiply_the_cells(folder: Path) -> None:
    """Each cell with each value."""
    found = grid(folder, "+benchmark=two", "environment=cartpole", "algorithm.gamma=0.9,0.8")
    assert [("ppo", "0.9"), ("ppo", "0.8"), ("a2c", "0.9"), ("a2c", "0.8")] == [
        (dict(choices)["algorithm"], dict(choices)["algorithm.gamma"]) for choices in found
    ]


def test_several_benchmarks_stand_side_by_side(folder: Path) -> None:
    """Matrices, and what is none."""
    found = compose(["+benchmark=two,cartpole", "budget.steps=9"], folder)
    assert ["two"] * 4 + [None] == [c.cell and c.cell.matrix for c in found]
    assert (("benchmark", "cartpole"),) == found[-1].choices


def test_several_matrices_are_narrowed_together(folder: Path) -> None:
    """Each has what it has of the options; one that none has is refused."""
    write(folder, "tasks: {cartpole: {algorithms: {dqn: }}}", "more")
    words = ("+benchmark=two,more", "environment=cartpole", "algorithm=a2c,dqn")
    found = [(c.cell.matrix, *dict(c.choices).values()) for c in compose(words, folder) if c.cell]
    assert [("two", "cartpole", "a2c"), ("more", "cartpole", "dqn")] == found
    assert "selects no cell of benchmark=two,more" in refusal(folder, words[0], "algorithm=td3")


def test_a_benchmark_of_one_configuration_stays_what_it_was(folder: Path) -> None:
    """The choice of an algorithm replaces the one that it makes."""
    assert 32 == at(one(folder, "+benchmark=cartpole"), "algorithm.n_steps")
    replaced = one(folder, "+benchmark=cartpole", "algorithm=a2c")
    assert "rlexp.algorithms.a2c.A2C" == at(replaced, "algorithm._target_")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("tasks: {}", "tasks must be a mapping with one entry or more"),
        ("tasks: [cartpole]", "tasks must be a mapping"),
        ("tasks: {cartpole: {}}", "tasks.cartpole must be a mapping"),
        ("tasks: {cartpole: {algorithms: {}}}", "tasks.cartpole.algorithms must be a mapping"),
        (
            "tasks: {cartpoll: {algorithms: {ppo: }}}",
            "nor is it an id of Gymnasium (Name-v1); did",
        ),
        ("tasks: {cartpole: {algorithms: {poo: }}}", "there is no algorithm=poo; did you mean"),
        ("{tasks: {cartpole: {algorithms: {ppo: }}}, more: 1}", "unknown key 'more'"),
        (
            "tasks: {cartpole: {algorithms: {ppo: {seeds: {test: 3}}}}}",
            "seeds belongs to the whole",
        ),
        ("tasks: {cartpole: {algorithms: {ppo: {budgets: {steps: 3}}}}}", "did you mean 'budget'"),
        ("tasks: {cartpole: {algorithms: {ppo: {algorithm: sac}}}}", "give its settings"),
        (
            "tasks: {cartpole: {algorithms: {ppo: {budget: {timeout: 3}}}}}",
            "leave it to the command",
        ),
        (
            "tasks: {cartpole: {algorithms: {ppo: {algorithm: {n_step: 3}}}}}",
            "ppo on cartpole: unk",
        ),
        ("tasks: {cartpole: {algorithms: {ppo: {algorithm: {gamma: {'a b': 1}}}}}}", "is no name"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_place(
    tmp_path: Path, content: str, said: str
) -> None:
    """The file, or the cell."""
    told = refusal(write(tmp_path, content, "wrong"), "+benchmark=wrong")
    assert said in told
    assert "wrong" in told


@pytest.mark.parametrize(
    "text", ["a'b", "it's \\", "${algorithm.gamma}", "a,b", "x=[1,2]", "null", "1e3", ""]
)
def test_a_text_in_a_cell_reaches_the_configuration_as_it_is(tmp_path: Path, text: str) -> None:
    """Nothing in it is read as grammar, but for references to other values."""
    content = "tasks: {cartpole: {algorithms: {ppo: {environment: {name: %s}}}}}"
    quoted = "'" + text.replace("'", "''") + "'"
    plain = one(write(tmp_path, content % quoted, "text"), "+benchmark=text")
    assert (0.99 if "$" in text else text) == at(plain, "environment.name")


def test_a_sweep_starts_from_one_cell(folder: Path) -> None:
    """Which is chosen as for a run; several are refused."""
    words = ["+benchmark=two", "environment=cartpole", "algorithm=ppo"]
    asked = compose_sweep("ppo_cartpole", words, folder)
    assert 16 == at(asked.plain, "algorithm.n_steps")
    with pytest.raises(ConfigError, match="has 2 cells left: choose one"):
        compose_sweep("ppo_cartpole", words[:2], folder)
