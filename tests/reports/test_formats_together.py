"""All formats of one study: the same bytes in every process, and nothing heavy imported early."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hashed_formats import hashes_of_figures, hashes_of_words


def _run(code: str) -> str:
    """What code prints in a process whose sets and dictionaries have another order."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    environment = {"PYTHONHASHSEED": seed, "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, Any]:
    """What another process writes, and whether it imported pyplot for it."""
    pytest.importorskip("matplotlib")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hashed_formats as h; print(h.told())"
    )
    found: dict[str, Any] = json.loads(_run(code))
    return found


def test_the_same_study_gives_the_same_bytes(elsewhere: dict[str, Any]) -> None:
    """Two processes whose sets and dictionaries have other orders write the same files."""
    here = hashes_of_words()
    assert 40 < len(here)
    assert here == elsewhere["words"]


def test_the_same_study_gives_the_same_figures(elsewhere: dict[str, Any]) -> None:
    """The same for figures, at another time, and for those of a sweep with hostile names."""
    here = hashes_of_figures()
    names = ("curve", "pairs", "aggregates-figure", "history", "threads")
    assert {f"{name}.{kind}" for name in names for kind in ("pdf", "svg")} == set(here)
    assert here == elsewhere["figures"]


def test_formats_import_nothing_heavy() -> None:
    """A report in words starts without a library that draws or learns."""
    code = (
        "import sys, rlexp.reports.figures\n"
        "from rlexp.reports.formats import as_csv, as_json, latex, markdown\n"
        "print(sorted({'matplotlib', 'torch', 'scipy', 'hydra', 'jinja2'} & set(sys.modules)))"
    )
    assert "[]\n" == _run(code)


def test_figures_leave_pyplot_alone(elsewhere: dict[str, Any]) -> None:
    """Pyplot would open windows and keep figures; a notebook's own must stay its own."""
    assert elsewhere["pyplot"] is False
