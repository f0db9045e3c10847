"""Kill -9 of a sequential comparison, then the same command: the same decisions and weights."""

from pathlib import Path

from in_full import long
from studies import new_study, wait_until

from rlexp.store.files import read_json

WORDS = (
    "budget.steps=1024",
    "budget.evaluation_every=null",
    "budget.final_episodes=5",
    "seeds.test=1",
    "algorithm=ppo,a2c",
)
ADAPTIVE = ("--adaptive", "--group", "3", "--interims", "2", "--alpha", "0.2")


@long
def test_a_killed_comparison_ends_with_the_same_decisions(tmp_path: Path) -> None:
    """A killed and repeated comparison has the weights and decisions of an undisturbed one."""
    with new_study(tmp_path / "study", warm=True) as study:
        for name in ("control", "killed"):
            arguments = (*WORDS, "algorithm.n_steps=256", f"experiment={name}")
            assert study.give("run", *arguments)[0] == 0
        code, output = study.give("compare", "control", *ADAPTIVE)
        assert code == 0, output
        command = study.start("compare", "killed", *ADAPTIVE)
        wait_until(lambda: len(study.events("killed", "ended")) >= 4)
        command.kill()
        code, output = study.give("compare", "killed", *ADAPTIVE)
        assert code == 0, output
        weights = [
            sorted(e["weights"] for e in study.events(name, "ended") if e["weights"])
            for name in ("control", "killed")
        ]
        assert 12 >= len(weights[0]) >= 6
        assert weights[0] == weights[1]
        designs = [
            read_json(study.folder / "runs" / name / "adaptive.json")
            for name in ("control", "killed")
        ]
        assert designs[0] == designs[1]
