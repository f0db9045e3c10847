"""Commands that train nothing import no more than they need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stored_runs import Stored, study

from rlexp.app.execution.request import read_request
from rlexp.store.runs import write_experiment

WORDS = ("experiment=alpha", "environment=cartpole", "budget.steps=4096", "seeds.test=5")
LIBRARIES = (
    *("asyncio", "gymnasium", "hydra", "jinja2", "matplotlib", "omegaconf", "optuna", "packaging"),
    *("pandas", "scipy", "stable_baselines3", "torch", "yaml"),
)
UNUSED = (
    *("rlexp.app.execution.launch", "rlexp.app.execution.preparation", "rlexp.app.sweeps"),
    *("rlexp.cli.train.sweep", "rlexp.app.comparison", "rlexp.engine.loop", "rlexp.exchange"),
    *("rlexp.stats.curves", "rlexp.training", "rlexp.trackers", "rlexp.tuners"),
)
PROBE = f"""
import json, sys
from rlexp.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps([*sys.modules.keys() & {{*{LIBRARIES!r}, *{UNUSED!r}}}]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a finished experiment of five seeds."""
    folder = tmp_path_factory.mktemp("study")
    experiment = read_request(WORDS, study(folder)).experiment
    paths = study(folder).layout.experiment("alpha")
    write_experiment(paths, experiment)
    for seed in range(5):
        Stored(paths, experiment).complete(seed, 100.0 + seed)
    return folder


def imported(folder: Path, *words: str) -> set[str]:
    """The modules of both lists that a command imports."""
    probe = [sys.executable, "-c", PROBE, *words]
    process = subprocess.run(
        probe,
        cwd=folder,
        env={**os.environ, "RLEXP_HOME": str(folder / "home"), "RLEXP_RUNS": str(folder / "runs")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "alpha" in process.stdout
    return set(json.loads(process.stderr.splitlines()[-1]))


def test_a_repeat_of_run_imports_little(folder: Path) -> None:
    """When a run is asked for again, its scores are shown without heavy or unused modules."""
    imported(folder, "run", *WORDS)
    assert set() == imported(folder, "run", *WORDS)


@pytest.mark.parametrize("words", [("ls",), ("status", "alpha")], ids=" ".join)
def test_commands_that_show_records_import_no_library(
    folder: Path, words: tuple[str, ...]
) -> None:
    """What runs exist, and how far they are, is shown without the heavy libraries."""
    assert set() == imported(folder, *words) & {*LIBRARIES}
