"""A script of a compiled run plays its policy, and does not pretend to train it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from finished_runs import finish

from rlexp.app.commands.exchange.export import export
from rlexp.app.exporting.output import ExportRequest

KINDS = {
    "compiled_dqn": ("environment=cartpole", "algorithm.learning_starts=16"),
    "compiled_sac": ("environment=pendulum", "algorithm.learning_starts=16", "agent.network=[16]"),
    "compiled_ppo": ("environment=cartpole", "algorithm.n_steps=32", "algorithm.batch_size=32"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_plays_and_refuses_to_train(kind: str, tmp_path: Path) -> None:
    """The script gives the recorded returns without rlexp and JAX, and `--train` is one line."""
    run = finish(tmp_path, f"algorithm={kind}", *KINDS[kind])
    export(ExportRequest(format="script", targets=(run.name,), output="out"), run.study)
    script = tmp_path / "out" / "evaluate.py"
    assert "import rlexp" not in script.read_text()
    assert "jax" not in (tmp_path / "out" / "requirements.txt").read_text()
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    played, trained = (
        subprocess.run(
            [sys.executable, script, *options],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        for options in ([], ["--train"])
    )
    assert 0 == played.returncode, played.stderr
    assert "These are the returns and lengths that the run recorded." in played.stdout
    assert (1, 1) == (trained.returncode, len(trained.stderr.splitlines()))
    assert "a program compiled by rlexp trained the policy" in trained.stderr


def test_the_card_names_the_compiled_algorithm(tmp_path: Path) -> None:
    """The title of a card for the Hub says `compiled_ppo`, and the class that loads the model is PPO."""
    run = finish(tmp_path, "algorithm=compiled_ppo", *KINDS["compiled_ppo"])
    request = ExportRequest(format="huggingface", targets=(run.name.split("/")[0],), output="out")
    export(request, run.study)
    card = (tmp_path / "out" / "README.md").read_text()
    assert r"# compiled\_ppo on CartPole-v1" in card
    assert "PPO.load(" in card
