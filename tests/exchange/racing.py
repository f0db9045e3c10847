"""Two processes that begin to mirror the same sweep at the same moment."""

import subprocess
import sys
from pathlib import Path

from mirroring import expected, shown, study
from race import TRIALS


def racer(folder: Path, starter: Path, *url: str) -> list[str]:
    """The command of one of them."""
    script = str(Path(__file__).with_name("race.py"))
    return [sys.executable, "-W", "error", script, str(folder), str(starter), *url]


def race(folder: Path, *url: str) -> None:
    """Start both, and find every trial once, and no word on the terminal."""
    starter = folder / "go"
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen(
            racer(folder, starter, *url), stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    for each in racers:
        assert each.stdout is not None
        assert "ready\n" == each.stdout.readline()
    starter.touch()
    assert ["", ""] == [each.communicate(timeout=60)[0] for each in racers]
    assert [0, 0] == [each.returncode for each in racers]
    assert expected(TRIALS) == shown(study(folder, *url).trials)
