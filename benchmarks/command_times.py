"""Wall-clock and processor time of commands, and comparisons of two commands in turns.

Processor time hardly depends on what else the machine does, so it compares commands on a machine that
is shared. It does not show what is gained by using several cores at once: wall-clock shows that, on a
machine that does nothing else.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import t as student


@dataclass(slots=True)
class Spent:
    """What a command took.

    Attributes:
        wall: Seconds of wall-clock.
        processor: Seconds of processor time of the command and of all processes that it waited for.
        output: What the command wrote to its standard output.
    """

    wall: float = 0.0
    processor: float = 0.0
    output: str = ""


@contextmanager
def measured() -> Iterator[Spent]:
    """Measure the commands that a block starts and waits for."""
    spent, begun, before = Spent(), time.perf_counter(), _of_children()
    yield spent
    spent.wall, spent.processor = time.perf_counter() - begun, _of_children() - before


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spend(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Spent:
    """Execute a command; no other command may run in this process meanwhile.

    Raises:
        CalledProcessError: The command failed; what it wrote to standard error is passed on.
    """
    with measured() as spent:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            check=False,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.stderr.write(done.stderr)
    done.check_returncode()
    spent.output = done.stdout
    return spent


def ratios(theirs: Sequence[Spent], ours: Sequence[Spent]) -> dict[str, object]:
    """How many times as long the other command took, turn by turn, with the medians.

    Args:
        theirs: What the other command took in each turn.
        ours: What our command took in each turn.
    """
    turns = list(zip(theirs, ours, strict=True))
    processor = [other.processor / own.processor for other, own in turns]
    wall = [other.wall / own.wall for other, own in turns]
    return {
        "turns": len(turns),
        "processor_ratio": statistics.median(processor),
        "processor_ratios": processor,
        "wall_ratio": statistics.median(wall),
        "wall_ratios": wall,
        "theirs_processor_s": statistics.median(each.processor for each in theirs),
        "ours_processor_s": statistics.median(each.processor for each in ours),
        "theirs_wall_s": statistics.median(each.wall for each in theirs),
        "ours_wall_s": statistics.median(each.wall for each in ours),
    }


def mean_with_interval(values: Sequence[float], level: float = 0.95) -> dict[str, object]:
    """The mean of independent repeats with Student's interval; no interval for a single repeat."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return {"mean": mean, "n": count, "low": None, "high": None, "method": None}
    error = statistics.stdev(values) / count**0.5
    half = float(student.ppf((1 + level) / 2, count - 1)) * error
    method = f"{100 * level:.0f} % interval by Student's t"
    return {"mean": mean, "n": count, "low": mean - half, "high": mean + half, "method": method}
