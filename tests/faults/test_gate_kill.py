"""Kill -9 of a gate, then the same command: the decision, scores and weights of an undisturbed gate."""

import json
import shutil
from pathlib import Path

from in_full import long
from studies import new_study, wait_until

WORDS = (
    *("algorithm=ppo", "environment=cartpole", "algorithm.n_steps=128", "budget.steps=512"),
    *("budget.evaluation_every=null", "budget.final_episodes=5", "seeds.tuning=5"),
)
GATE = ("gate", "base.json", "--margin", "30", "algorithm.learning_rate=1e-3", "--json")


@long
def test_a_killed_gate_ends_with_the_same_decision(tmp_path: Path) -> None:
    """A killed and repeated gate has the runs and the decision of one that was not disturbed."""
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give("gate", "--write", "base.json", *WORDS)
        assert code == 0, output
        command = study.start(*GATE)

        def experiment() -> str | None:
            return next((p.name for p in (study.folder / "runs").glob("gate-*")), None)

        name = wait_until(experiment)
        wait_until(lambda: len(study.events(name, "ended")) >= 2)
        command.kill()
        command.wait()
        killed_code, _ = study.give(*GATE)
        killed = sorted(e["weights"] for e in study.events(name, "ended") if e["weights"])
        shutil.rmtree(study.folder / "runs" / name)
        code, output = study.give(*GATE)
        assert killed_code == code, output
        assert killed == sorted(e["weights"] for e in study.events(name, "ended") if e["weights"])
        assert 5 == len(killed)
        assert json.loads((study.folder / "base.json").read_text())["n"] == 5
