"""A command with hundreds of runs grows neither in memory nor in open files."""

import statistics
import time
from pathlib import Path

import psutil
import pytest
from in_full import IN_FULL
from studies import new_study

RUNS = 500 if IN_FULL else 150
WARM = RUNS // 3
"""Runs after which memory is measured."""


def test_memory_and_files_of_a_command_stay_flat(tmp_path: Path) -> None:
    """Memory changes by at most 5 % from the second third of the runs to the last third."""
    with new_study(tmp_path / "study", quick=True) as study:
        arguments = ("experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
        command = study.start("run", *arguments, f"seeds.test={RUNS}")
        samples: list[tuple[int, int, int]] = []
        process, runs = psutil.Process(command.pid), study.folder / "runs" / "x"
        while command.poll() is None:
            try:
                completed = sum(1 for _ in runs.glob("*/model.zip"))
                samples.append((completed, process.memory_info().rss, process.num_fds()))
            except psutil.Error:
                break
            time.sleep(0.03)
        output = command.communicate()[0]
        assert command.returncode == 0, output
        assert RUNS == len(study.runs("x"))
    first = [s for s in samples if WARM <= s[0] < 2 * WARM]
    last = [s for s in samples if 2 * WARM <= s[0] < RUNS]
    assert min(len(first), len(last)) >= 5
    memory = [statistics.median(s[1] for s in part) for part in (first, last)]
    assert memory[1] / memory[0] == pytest.approx(1.0, abs=0.05)
    files = [statistics.median(s[2] for s in part) for part in (first, last)]
    assert files[0] == pytest.approx(files[1], abs=1)
