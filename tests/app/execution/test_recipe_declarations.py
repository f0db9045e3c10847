"""What a recipe needs of its environment and allows as settings is checked before anything is written."""

from pathlib import Path

import pytest

from rlexp import api
from rlexp.app.execution.checks.script_declarations import check_declarations
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.config_files import group_options
from rlexp.config.option_lookup import read_option
from rlexp.errors import ConfigError

LETTERS = ("environment=external", "environment.name=letters", "environment.unit=tokens")
TEAM = ("environment=external", "environment.name=vmas/balance")
POINT = "environment.reference_point={treasure: 0, time: -50}"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty workspace, and no virtual environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))


def refusal(recipe: str, *words: str) -> str:
    """The one line with which a command is refused; nothing was written."""
    with pytest.raises(ConfigError) as caught:
        api.run(f"algorithm=recipe/{recipe}", *words)
    assert not [*Path().glob("runs/*")]
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        (
            "morl_envelope", ["environment=deep_sea_treasure"],
            "add 'environment.reference_point={treasure: NUMBER, time: NUMBER}' budget.score=hypervolume",
        ),
        (
            "morl_q_learning", ["environment=cartpole"],
            f"choose environment=deep_sea_treasure '{POINT}' budget.score=hypervolume",
        ),
        ("benchmarl_mappo", TEAM, "(team, or the name of an agent): add environment.return_of=team"),
        (
            "jaxmarl_ippo", ["environment=cartpole"],
            "choose environment=external environment.name=MPE_simple_spread_v3 environment.return_of=team",
        ),
        ("trl_rloo", LETTERS[:2], "trl_rloo counts tokens, .*: add environment.unit=tokens"),
    ],
)  # fmt: skip
def test_a_missing_declaration_is_named(recipe: str, words: list[str], expected: str) -> None:
    """The message says what is missing, and the words to type for this task."""
    message = refusal(recipe, *words)
    start, _, end = expected.partition(".*")
    assert start in message
    assert message.endswith(end)


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        (
            "trl_rloo", [*LETTERS, "algorithm.settings.algorithm=groo"],
            "did you mean 'rloo'? (allowed: rloo, grpo): algorithm.settings.algorithm=rloo",
        ),
        (
            "benchmarl_mappo", [*TEAM, "algorithm.settings.algorithm=qmix"],
            "(allowed: mappo, ippo)",
        ),
        (
            "d3rlpy_iql", ["environment=pendulum", "algorithm.settings.algorithm=null"],
            "algorithm.settings.algorithm=null (allowed: CQL, IQL, TD3PlusBC, ReBRAC)",
        ),
        (
            "trl_rloo", ["environment=cartpole", "environment.unit=tokens"],
            "environment.name=null (allowed: letters): choose environment=external environment.name=letters",
        ),
    ],
)  # fmt: skip
def test_a_value_that_a_recipe_lacks_is_refused(
    recipe: str, words: list[str], expected: str
) -> None:
    """The message has the allowed values, and the nearest of them."""
    assert expected in refusal(recipe, *words)


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        ("trl_rloo", [*LETTERS, "environment.return_of=team"], "environment.return_of"),
        (
            "sbx_ppo", ["environment=deep_sea_treasure", POINT, "budget.score=hypervolume"],
            "environment.reference_point",
        ),
        ("benchmarl_mappo", [*TEAM, POINT, "budget.score=hypervolume"], "environment.reference_point"),
    ],
)  # fmt: skip
def test_a_declaration_of_something_else_is_refused(
    recipe: str, words: list[str], expected: str
) -> None:
    """A recipe whose evaluations are returns is not declared to report vectors, and the other way round."""
    message = refusal(recipe, *words)
    assert f"and {expected} is for a script that reports" in message
    assert message.endswith("leave it out")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["environment=cartpole", "environment.vector.frame_stack=4"], "vector.frame_stack"),
        (
            ["environment=cartpole", "environment.vector.normalise_rewards=true"],
            "vector.normalise_rewards",
        ),
        (
            ["environment=cartpole", "environment.wrappers=[{name: FlattenObservation}]"],
            "wrappers",
        ),
    ],
)
def test_a_transformation_that_a_recipe_does_not_make_is_refused(
    words: list[str], expected: str
) -> None:
    """Runs would be named by wrappers that their script never added."""
    assert f"without environment.{expected}: leave it out" in refusal("sbx_ppo", *words)


def test_the_example_of_every_recipe_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `rlexp recipe NAME` suggests to type passes these checks, for each recipe that comes with rlexp."""
    recipes = [o for o in group_options("algorithm", tmp_path) if o.startswith("recipe/")]
    assert recipes
    for option in recipes:
        part = read_option("algorithm", option, tmp_path)
        example = [w for w in part["example"] if not w.startswith("dataset")]
        words = [f"algorithm={option}", *example, "experiment=x"]
        request = read_request(words, Workspace.here())
        for configuration in request.experiment.configurations:
            check_declarations(configuration)
