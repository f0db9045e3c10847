"""What the benchmarks measure of commands, and how they compare them."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_times import Spent, mean_with_interval, ratios, spend
from scipy.stats import ttest_1samp

BUSY = "import time; [i for i in range(10**5)]; print(time.process_time())"
WITH_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


def test_processor_time_has_that_of_children(tmp_path: Path) -> None:
    """The processor time of a command is at least that of the process that it starts."""
    spent = spend([sys.executable, "-c", WITH_CHILD], tmp_path)
    assert spent.processor >= float(spent.output)


def test_a_failed_command_is_no_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that fails raises an error, and its own message is shown."""
    with pytest.raises(subprocess.CalledProcessError):
        spend([sys.executable, "-c", "raise SystemExit('no such budget')"], tmp_path)
    assert "no such budget" in capsys.readouterr().err


def test_commands_are_compared_turn_by_turn() -> None:
    """The ratio is the median over turns, not the ratio of medians."""
    theirs = [Spent(wall=1, processor=2), Spent(wall=9, processor=60), Spent(wall=4, processor=9)]
    ours = [Spent(wall=1, processor=1), Spent(wall=3, processor=20), Spent(wall=2, processor=1)]
    compared = ratios(theirs, ours)
    assert ([2, 3, 9], 3) == (compared["processor_ratios"], compared["processor_ratio"])
    assert ([1, 3, 2], 2) == (compared["wall_ratios"], compared["wall_ratio"])


def test_the_mean_of_repeats_has_students_interval() -> None:
    """The interval is that of SciPy; a single repeat has none."""
    values = [3.0, 5.0, 4.0, 9.0]
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    mean = mean_with_interval(values)
    assert (mean["low"], mean["high"]) == pytest.approx((expected.low, expected.high))
    assert (5.25, 4) == (mean["mean"], mean["n"])
    assert mean_with_interval([2.0])["low"] is None
