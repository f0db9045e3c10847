"""Short trainings by recipes, with the real libraries in virtual environments of their own."""

import json
import os
from pathlib import Path

import pytest

from rlexp import api
from rlexp.app.commands.setup.recipe import install_recipe
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.workspace import Workspace

pytestmark = pytest.mark.skipif(
    "RLEXP_RECIPE_TESTS" not in os.environ, reason="make test-suites installs other libraries"
)


@pytest.mark.parametrize(
    ("recipe", "task", "settings"),
    [
        ("sbx_ppo", "cartpole", {"n_steps": 256, "n_epochs": 4}),
        ("sbx_sac", "pendulum", {"learning_starts": 50}),
    ],
)
def test_a_recipe_trains(
    recipe: str,
    task: str,
    settings: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two seeds train, are evaluated during training and at the end, and have different scores."""
    monkeypatch.chdir(tmp_path)
    install_recipe(recipe, Workspace.here())
    outcome = api.run(
        f"algorithm=recipe/{recipe}",
        f"environment={task}",
        {f"algorithm.settings.{key}": value for key, value in settings.items()},
        {"budget.steps": 1024, "budget.evaluation_every": 512, "budget.evaluation_episodes": 1},
        {"budget.final_episodes": 2, "seeds.test": 2, "environment.vector.count": 2},
        experiment="x",
    )
    assert isinstance(outcome, RunOutcome)
    scores = [score for by_seed in outcome.scores.values() for score in by_seed.values()]
    assert 2 == len({*scores}), scores
    files = [*tmp_path.glob("runs/x/*/attempts/1/results.jsonl")]
    assert [{512, 1024}] * 2 == [evaluated_steps(file) for file in files]


def evaluated_steps(results: Path) -> set[int]:
    """The steps of the evaluations of a run."""
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {line["step"] for line in lines if "returns" in line}
