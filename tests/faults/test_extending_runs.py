"""`rlexp extend` gives the numbers of runs of that length, after kills and removals too."""

import json
from pathlib import Path
from typing import Any

import pytest
from studies import StudyFolder, new_study, wait_until

WORDS = (
    "algorithm.n_steps=64",
    "algorithm.n_epochs=2",
    "budget.evaluation_every=256",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=3",
    "agent.network=[8]",
    "seeds.test=2",
)


@pytest.mark.slow
def test_a_killed_extension_equals_fresh_runs(tmp_path: Path) -> None:
    """After a SIGKILL, and with the parent removed, the same command gives the numbers of fresh runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        for name, steps in (("short", 600), ("fresh", 2000)):
            code, output = study.give("run", *WORDS, f"budget.steps={steps}", f"experiment={name}")
            assert code == 0, output
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
