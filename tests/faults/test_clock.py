"""A wall clock that jumps by days while runs train changes no duration, limit or order."""

import shutil
import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

CC = shutil.which("cc")
DAY = 86_400
WORDS = (
    "experiment=x",
    "budget.steps=2048",
    "budget.evaluation_every=512",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=5",
    "budget.timeout=600",
    "executor.hang_timeout=100",
    "executor.workers=1",
    "algorithm.n_steps=128",
    "algorithm.n_epochs=2",
    "seeds.test=2",
)


def has_evaluated(study: StudyFolder, count: int) -> bool:
    """Whether there were at least `count` evaluations."""
    return len(study.events("x", "evaluated")) >= count


@pytest.mark.skipif(CC is None, reason="needs a C compiler")
@long
def test_a_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    """Runs complete with true durations and ordered steps while the clock jumps by days."""
    library, clock = tmp_path / "clock.so", tmp_path / "ahead"
    source = Path(__file__).with_name("clock.c")
    command = [str(CC), "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    clock.write_text("0")
    variables = {"LD_PRELOAD": str(library), "RLEXP_CLOCK": str(clock)}
    with new_study(tmp_path / "study") as study:
        process = study.start("run", *WORDS, variables=variables)
        for count, ahead in ((1, DAY), (3, -DAY), (7, DAY)):
            wait_until(partial(has_evaluated, study, count))
            clock.write_text(str(ahead))
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output
        assert "days" not in output
        ended = study.events("x", "ended")
        assert [("completed", True)] * 2 == [(e["ending"], 0 < e["seconds"] < 200) for e in ended]
        evaluated = study.events("x", "evaluated")
        assert all(0 <= e["seconds"] < 100 for e in evaluated)
        by_run = [evaluated[: len(evaluated) // 2], evaluated[len(evaluated) // 2 :]]
        expected = [*range(512, 2049, 512), 2048]
        assert [expected] * 2 == [[e["step"] for e in run] for run in by_run]
        time_differences = [b["time"] - a["time"] for run in by_run for a, b in pairwise(run)]
        assert (True, True) == (max(time_differences) > DAY / 2, min(time_differences) < -DAY / 2)
        assert study.give("run", *WORDS, variables=variables)[0] == 0
        assert ended == study.events("x", "ended")
