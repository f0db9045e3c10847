"""Processes that begin to mirror the same sweep, forked from one with all imports done."""

import subprocess
import sys
from pathlib import Path

from mirroring import expected, plain_trials, study
from race import TRIALS
from warm_processes import Forked, warm_process

PRELOAD = ("optuna.storages.journal", "optuna.study", "rlexp.exchange.optuna_study", "psycopg")
"""The modules that each of these processes imports."""
CODE = """\
import sys, warnings
warnings.simplefilter("error")
sys.path.append(sys.argv.pop(1))
import race
race.main(*sys.argv[1:])
"""
"""The program that each of these processes runs."""


def racer(folder: Path, starter: Path, *url: str) -> Forked:
    """Start one process that waits for the starter file."""
    arguments = ["-c", CODE, str(Path(__file__).parent), str(folder), str(starter), *url]
    return warm_process(PRELOAD).Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def race(folder: Path, *url: str) -> None:
    """Two processes that start at once store every trial once and print nothing."""
    starter = folder / "go"
    with racer(folder, starter, *url) as first, racer(folder, starter, *url) as second:
        for process in (first, second):
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
        starter.touch()
        assert ["", ""] == [process.communicate(timeout=60)[0] for process in (first, second)]
    assert [0, 0] == [first.returncode, second.returncode]
    assert expected(TRIALS) == plain_trials(study(folder, *url).trials)
