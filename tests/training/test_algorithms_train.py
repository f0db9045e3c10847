"""Every algorithm trains, is evaluated and publishes a model by the same code."""

from pathlib import Path

import pytest
from trainings import run_training

from rlexp.config.config_files import group_options
from rlexp.records.events import Ending, Evaluated

CONTINUOUS = {"sac", "td3", "ddpg", "tqc", "crossq", "compiled_sac"}
SPECIAL = {
    "recurrent_ppo": (
        *("agent=lstm", "agent.lstm_hidden_size=16"),
        *("algorithm.n_steps=64", "algorithm.batch_size=64"),
    ),
    "maskable_ppo": (
        "environment=gymnasium",
        "environment.id=odd_environments:Masked-v0",
        "algorithm.n_steps=64",
    ),
    "ppo": ("algorithm.n_steps=64",),
    "trpo": ("algorithm.n_steps=64", "algorithm.batch_size=64"),
    "ars": ("algorithm.n_delta=2", "algorithm.n_top=1"),
}


NAMES = sorted(
    {n for n in group_options("algorithm", Path("nowhere")) if "/" not in n} - {"external"}
)


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_trains(name: str, tmp_path: Path) -> None:
    """A short training gives evaluations during and after it, and publishes a model."""
    if name.startswith("compiled_"):
        pytest.importorskip("jax")
    words = [
        f"algorithm={name}",
        "environment=pendulum" if name in CONTINUOUS else "environment=cartpole",
        *("budget.steps=130", "budget.evaluation_every=64", "budget.evaluation_episodes=2"),
        *("budget.final_episodes=2", "environment.max_episode_steps=50"),
        *(() if name == "ars" else ("agent.network=[16]",)),
        *SPECIAL.get(name, ()),
    ]
    listener, end = run_training(tmp_path, *words)
    assert (Ending.COMPLETED, None) == (end.ending, end.reason)
    evaluations = [e for e in listener.events if isinstance(e, Evaluated)]
    assert len(evaluations) >= 2
    assert evaluations[-1].final
    assert (tmp_path / "model.zip").stat().st_size > 1000
