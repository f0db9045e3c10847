"""`rlexp extend` gives the numbers of runs of that length, after kills and removals too."""

import json
from pathlib import Path
from typing import Any

import pytest
from in_full import long
from last_words import last_words
from studies import StudyFolder, new_study, wait_until

PPO = ("algorithm=ppo", "algorithm.n_steps=64", "algorithm.n_epochs=2")
SAC = (
    *("algorithm=sac", "environment=pendulum", "environment.max_episode_steps=50"),
    *("algorithm.learning_starts=100", "algorithm.buffer_size=500", "algorithm.batch_size=16"),
    *("algorithm.train_freq=8", "budget.keep_last=true"),
)
WORDS = (
    "budget.evaluation_every=256",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=3",
    "agent.network=[8]",
    "seeds.test=2",
)


def give(study: StudyFolder, *words: str) -> str:
    """Give a command that succeeds; returns its output."""
    code, output = study.give(*words)
    assert code == 0, output
    return output


def train(study: StudyFolder, *words: str) -> None:
    """Train the parents, `short` with 600 steps, and `fresh` with 2000 steps."""
    for name, steps in (("short", 600), ("fresh", 2000)):
        given = last_words(*WORDS, *words, f"budget.steps={steps}", f"experiment={name}")
        give(study, "run", *given)


@pytest.mark.slow
def test_a_killed_extension_equals_fresh_runs(tmp_path: Path) -> None:
    """After a SIGKILL, and with the parent removed, the same command gives the numbers of fresh runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        train(study, *PPO)
        extend = ("extend", "short", "budget.steps=2000", "budget.checkpoint_every=128")
        command = study.start(*extend)
        wait_until(lambda: len(study.events("short-2000", "checkpointed")) >= 3)
        command.kill()
        command.communicate(timeout=60)
        code, output = study.give("rm", "short", "--yes")
        assert code == 0, output
        code, output = study.give(*extend)
        assert code == 0, output
        assert "short-2000 extends short: 2 runs from step 576, up to 2,000" in output
        assert numbers(study, "fresh") == numbers(study, "short-2000")
        assert len(study.events("short-2000", "continued")) >= 3
        begun = len(study.events("short-2000", "started"))
        code, output = study.give(*extend)
        assert code == 0, output
        assert "nothing to run" in output
        assert begun == len(study.events("short-2000", "started"))
        code, output = study.give("verify")
        assert code == 0, output
        code, output = study.give("compare", "fresh", "short-2000")
        assert code == 0, output
        assert "fresh/ppo and short-2000/ppo are identical" in output
        code, output = study.give("extend", "short-2000", "budget.steps=2500")
        assert code == 0, output
        assert not list((study.folder / "runs").glob("*/*/parent"))


@long
@pytest.mark.slow
def test_a_killed_extension_with_a_replay_buffer_equals_fresh_runs(tmp_path: Path) -> None:
    """SAC continues with the buffer of its parent, also after a SIGKILL and a removal by `rlexp gc`."""
    with new_study(tmp_path / "study", warm=True) as study:
        train(study, *SAC, "seeds.test=1")
        extend = ("extend", "short", "budget.steps=2000", "budget.checkpoint_every=128")
        command = study.start(*extend)
        wait_until(lambda: len(study.events("short-2000", "checkpointed")) >= 3)
        # The extension has taken over the state by now, so the parent's one may go.
        assert "short: 1 run, replay buffers" in give(study, "gc", "--states", "--yes")
        command.kill()
        command.communicate(timeout=60)
        give(study, *extend)
        assert numbers(study, "fresh") == numbers(study, "short-2000")


@pytest.mark.slow
def test_workers_receive_the_states_of_parents(tmp_path: Path) -> None:
    """With executor=pull, runs that a worker extends have the numbers of fresh runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        train(study, *PPO)
        command = study.start("extend", "short", "budget.steps=2000", "executor=pull")
        orders = study.folder / "runs" / "short-2000" / "orders"
        wait_until(lambda: len([*orders.glob("[!.]*.json")]) == 2)
        give(study, "rm", "short", "--yes")
        give(study, "worker", "short-2000", "--workers=2")
        output, _ = command.communicate(timeout=60)
        assert command.returncode == 0, output
        assert numbers(study, "fresh") == numbers(study, "short-2000")
        assert not list((study.folder / "runs").glob("*/*/parent"))


def numbers(study: StudyFolder, experiment: str) -> dict[int, Any]:
    """Evaluations by step, weights and score of every run over all attempts, by its seed."""
    numbers_by_seed: dict[int, Any] = {}
    for run in study.runs(experiment):
        folder = study.folder / "runs" / experiment / run["run"]
        journals = sorted(folder.glob("attempts/*/events.jsonl"))
        events = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
        returns = {e["step"]: e["returns"] for e in events if e["event"] == "evaluated"}
        weights = [e["weights"] for e in events if e.get("weights")]
        numbers_by_seed[run["seed"]] = (returns, weights, run["score"])
    return numbers_by_seed
