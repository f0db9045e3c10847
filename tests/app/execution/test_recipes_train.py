"""Short trainings by recipes, with the real libraries in virtual environments of their own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from killed_command import kill_after

from rlexp import api
from rlexp.app.commands.setup.recipe import install_recipe
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.execution.scripts.recipe_environments import RecipeEnvironment
from rlexp.app.workspace import Workspace
from rlexp.config.option_lookup import read_option

pytestmark = [
    pytest.mark.skipif(
        "RLEXP_RECIPE_TESTS" not in os.environ, reason="make test-suites installs other libraries"
    ),
    # The first test of a library installs it.
    pytest.mark.timeout(3600),
]

SMALL = (
    *("budget.evaluation_every=512", "budget.evaluation_episodes=1", "budget.final_episodes=2"),
)
FRONT = (
    *("environment=deep_sea_treasure", "environment.reference_point={treasure: 0, time: -101}"),
    *("budget.score=hypervolume", "algorithm.settings.steps_per_part=256"),
)
OFFLINE = (
    *("environment=pendulum", "environment.unit=gradient_steps", "dataset=minari"),
    *(
        "dataset.id=./recorded",
        "algorithm.settings.layers=[16]",
        "algorithm.settings.batch_size=16",
    ),
    "algorithm.settings.checkpoint_every=256",
)
RECIPES = {
    "sbx_ppo": [
        *("environment=cartpole", "environment.vector.count=2"),
        *("algorithm.settings.n_steps=256", "algorithm.settings.n_epochs=4"),
    ],
    "sbx_sac": [
        *("environment=pendulum", "environment.vector.count=2"),
        "algorithm.settings.learning_starts=50",
    ],
    "morl_q_learning": [*FRONT],
    "morl_envelope": [
        *(*FRONT, "algorithm.settings.batch_size=16", "algorithm.settings.net_arch=[16]"),
    ],
    "benchmarl_mappo": [
        *("environment=external", "environment.name=vmas/balance", "environment.return_of=team"),
        *("algorithm.settings.layers=[16]", "algorithm.settings.on_policy_minibatch_size=128"),
        "algorithm.settings.on_policy_collected_frames_per_batch=256",
        "algorithm.settings.on_policy_n_envs_per_worker=4",
        "algorithm.settings.on_policy_n_minibatch_iters=2",
    ],
    "jaxmarl_ippo": [
        *("environment=external", "environment.name=MPE_simple_spread_v3"),
        *("environment.return_of=team", "algorithm.settings.width=16"),
        *("algorithm.settings.n_envs=4", "algorithm.settings.n_steps=64"),
        "algorithm.settings.checkpoint_every=256",
    ],
    **{
        name: [*OFFLINE] for name in ("d3rlpy_cql", "d3rlpy_iql", "d3rlpy_td3_bc", "d3rlpy_rebrac")
    },
    "trl_rloo": [
        *("environment=external", "environment.name=letters", "environment.unit=tokens"),
        *("algorithm.settings.width=16", "algorithm.settings.checkpoint_every=256"),
        "algorithm.settings.per_device_train_batch_size=16",
    ],
}
"""The words with which each recipe trains for a moment."""
MEASURES = {
    "morl_q_learning": {"hypervolume", "policies", "best/treasure", "best/time"},
    "morl_envelope": {"hypervolume", "policies", "best/treasure", "best/time"},
    "benchmarl_mappo": {"return/team", *(f"return/agent_{k}" for k in range(4))},
    "jaxmarl_ippo": {"return/team", *(f"return/agent_{k}" for k in range(3))},
}
"""The measures of the recipes whose evaluations are vectors."""
CONTINUING = tuple(name for name in RECIPES if not name.startswith("sbx"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds train, are evaluated during training and at the end, and differ."""
    monkeypatch.chdir(tmp_path)
    if recipe.startswith("d3rlpy"):
        record_pendulum(tmp_path / "recorded")
    install_recipe(recipe, Workspace.here())
    outcome = api.run(
        *(f"algorithm=recipe/{recipe}", *SMALL, *RECIPES[recipe]),
        *("budget.steps=1024", "seeds.test=2", "experiment=x"),
    )
    assert isinstance(outcome, RunOutcome)
    rows = outcome.summary.runs
    assert ["completed"] * 2 == [row.state for row in rows], [row.reason for row in rows]
    assert [MEASURES.get(recipe, set())] * 2 == [set(row.measure_means) for row in rows]
    files = [*tmp_path.glob("runs/x/*/attempts/1/results.jsonl")]
    assert 2 == len({file.read_text() for file in files})
    for file in files:
        first, last = evaluated_steps(file)
        assert 512 <= first < 1024 <= last, file


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_killed_recipe_ends_with_the_same_numbers(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9, the same command gives the same last line; it continues from a checkpoint if there are any."""
    monkeypatch.chdir(tmp_path)
    if recipe.startswith("d3rlpy"):
        record_pendulum(tmp_path / "recorded")
    install_recipe(recipe, Workspace.here())
    words = [f"algorithm=recipe/{recipe}", *SMALL, *RECIPES[recipe]]
    words += ["budget.steps=2048", "seeds.test=1"]
    api.run(*words, experiment="whole")
    sign = "files/checkpoint.json" if recipe in CONTINUING else "results.jsonl"
    kill_after(sign, words, tmp_path)
    outcome = api.run(*words, experiment="killed")
    assert isinstance(outcome, RunOutcome)
    (row,) = outcome.summary.runs
    assert "completed" == row.state, row.reason
    assert (recipe in CONTINUING) == bool(row.continued)
    (whole,) = tmp_path.glob("runs/whole/*/attempts/1/results.jsonl")
    (killed,) = tmp_path.glob("runs/killed/*/attempts/2/results.jsonl")
    assert whole.read_text().splitlines()[-1] == killed.read_text().splitlines()[-1]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name.startswith("d3rlpy")])
def test_updates_are_those_of_d3rlpy(recipe: str, tmp_path: Path) -> None:
    """On the same transitions, losses and actions equal those of the library with the same settings."""
    record_pendulum(tmp_path / "recorded")
    workspace = Workspace.here()
    install_recipe(recipe, workspace)
    part = read_option("algorithm", f"recipe/{recipe}", workspace.folder)
    settings = {**part["settings"], "layers": [16, 16], "batch_size": 32}
    done = subprocess.run(
        [
            str(RecipeEnvironment(recipe, part["requirements"]).python),
            str(Path(__file__).with_name("d3rlpy_updates.py")),
            *(str(tmp_path / "recorded" / "data"), json.dumps(settings)),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-2000:]


def record_pendulum(folder: Path) -> None:
    """Record two episodes of uniform actions as a dataset of Minari."""
    storage_of = pytest.importorskip("minari.dataset.minari_storage").MinariStorage
    buffer = pytest.importorskip("minari.data_collector.episode_buffer").EpisodeBuffer
    environment = gymnasium.make("Pendulum-v1")
    environment.action_space.seed(0)
    folder.mkdir()
    storage = storage_of.new(folder / "data", env_spec=environment.spec)
    episodes = []
    for number in range(2):
        observations = [environment.reset(seed=number)[0]]
        steps: list[tuple[Any, ...]] = []
        while not steps or not steps[-1][3]:
            action = environment.action_space.sample()
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(observation)
            steps.append((action, float(reward), terminated, truncated))
        actions, rewards, ends, cuts = map(np.array, zip(*steps, strict=True))
        episodes.append(
            buffer(
                id=number, observations=np.array(observations), actions=actions, rewards=rewards,
                terminations=ends, truncations=cuts, infos={},
            )
        )  # fmt: skip
    storage.update_episodes(episodes)


def evaluated_steps(results: Path) -> tuple[int, int]:
    """The steps of the two evaluations of a run."""
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    first, last = (line["step"] for line in lines if {"returns", "front"} & {*line})
    return first, last
