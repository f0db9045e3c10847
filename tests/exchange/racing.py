"""Processes that begin to mirror the same sweep, forked from one that has imported all they need."""

import subprocess
import sys
from pathlib import Path

from mirroring import expected, shown, study
from race import TRIALS
from warm_processes import Forked, warm_process

PRELOAD = ("optuna.storages.journal", "optuna.study", "rlexp.exchange.optuna_study", "psycopg")
"""What each of them imports."""
CODE = """\
import sys, warnings
warnings.simplefilter("error")
sys.path.append(sys.argv.pop(1))
import race
race.main(*sys.argv[1:])
"""
"""What each of them does."""


def racer(folder: Path, starter: Path, *url: str) -> Forked:
    """Start one of them."""
    words = ["-c", CODE, str(Path(__file__).parent), str(folder), str(starter), *url]
    return warm_process(PRELOAD).Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def race(folder: Path, *url: str) -> None:
    """Start two at the same moment, and find every trial once, and no word on the terminal."""
    starter = folder / "go"
    with racer(folder, starter, *url) as first, racer(folder, starter, *url) as second:
        for each in (first, second):
            assert each.stdout is not None
            assert "ready\n" == each.stdout.readline()
        starter.touch()
        assert ["", ""] == [each.communicate(timeout=60)[0] for each in (first, second)]
    assert [0, 0] == [first.returncode, second.returncode]
    assert expected(TRIALS) == shown(study(folder, *url).trials)
