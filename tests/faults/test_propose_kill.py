"""A proposal that is killed comes to the same decision and the same register."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from in_full import long
from studies import new_study, wait_until

from rlexp.records.stream import CandidateDecision, OpenedCandidate, ScoredRun
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import read_stream

BEGIN = (
    *("propose", "s", "--begin", "algorithm=ppo", "environment=cartpole", "budget.steps=512"),
    *("budget.evaluation_every=null", "budget.final_episodes=5", "algorithm.n_steps=128"),
    *("seeds.tuning=4", "--alpha", "0.9", "--candidates", "2"),
)
CANDIDATE = ("propose", "s", "algorithm.learning_rate=3e-2", "algorithm.n_epochs=20", "--json")


def has_lines(register: Path, lines: int) -> bool:
    """Whether a register has so many complete lines."""
    return register.read_bytes().count(b"\n") >= lines


def content(folder: Path) -> list[tuple[Any, ...]]:
    """What the register says, without times and sums of archives, which hold times."""
    lines = read_stream(ExperimentPaths(folder / "runs" / "s")).lines
    scores = sorted((s.run, s.score) for s in lines if isinstance(s, ScoredRun))
    opened = [(o.number, o.fingerprint, o.level) for o in lines if isinstance(o, OpenedCandidate)]
    decided = [
        (d.candidate, d.state, d.scores, d.champion_scores, d.e_value)
        for d in lines
        if isinstance(d, CandidateDecision)
    ]
    return [*scores, *opened, *decided]


@long
def test_a_killed_proposal_ends_with_the_same_decision(tmp_path: Path) -> None:
    """Killed after each of three points, the same command makes the register of an undisturbed one."""
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give(*BEGIN)
        assert code == 0, output
        folder = study.folder
        fresh = folder.with_name("fresh")
        shutil.copytree(folder, fresh)
        register = folder / "runs" / "s" / "candidates.jsonl"
        for lines in (2, 3, 4):
            command = study.start(*CANDIDATE)
            wait_until(partial(has_lines, register, lines))
            command.kill()
            command.wait()
        code, output = study.give(*CANDIDATE)
        killed = content(folder)
        shutil.rmtree(folder / "runs")
        shutil.copytree(fresh / "runs", folder / "runs")
        undisturbed, output = study.give(*CANDIDATE)
        assert undisturbed == code, output
        assert content(folder) == killed
        assert 1 == len([line for line in killed if line[0] == 1 and len(line) == 3])
