"""A gate that is killed or out of time continues to the decision of an undisturbed gate."""

import json
import shutil
from pathlib import Path

from in_full import long
from studies import new_study, wait_until

from rlexp.protocol.identity import digest

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


@long
def test_the_time_limit_stops_running_trainings(tmp_path: Path) -> None:
    """When the minutes of `--budget` are over, trainings stop, are recorded, and nothing is left running."""
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give("gate", "--write", "base.json", *WORDS)
        assert code == 0, output
        path = study.folder / "base.json"
        content = json.loads(path.read_text())
        content["words"] = [w.replace("steps=512", "steps=5000000") for w in content["words"]]
        content["configuration"]["budget"]["steps"] = 5_000_000
        kept = {k: v for k, v in content.items() if k not in {"schema", "rlexp", "sum"}}
        path.write_text(json.dumps({**content, "sum": digest(kept)}))
        code, output = study.give("gate", "base.json", "--margin", "30", "--budget", "0.3")
        assert code == 5, output
        assert "of --budget are over, before 5 seeds had a score" in output
        (experiment,) = (p.name for p in (study.folder / "runs").glob("gate-*"))
        # On a busy machine the time may be over before the first run starts.
        assert {e["ending"] for e in study.events(experiment, "ended")} <= {"interrupted"}
        assert [] == study.processes()
