"""All formats of one study: reproducible bytes, and no heavy imports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hashed_formats import hashes_of_figures, hashes_of_words


def _run(code: str) -> str:
    """The output of code in a process with another hash seed."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    environment = {"PYTHONHASHSEED": seed, "PATH": ""}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return process.stdout


@pytest.fixture(scope="module")
def other_process() -> dict[str, Any]:
    """Hashes from another process, and whether drawing imported pyplot there."""
    pytest.importorskip("matplotlib")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import hashed_formats as h; print(h.hashes_as_json())"
    result: dict[str, Any] = json.loads(_run(code))
    return result


def test_the_same_study_gives_the_same_bytes(other_process: dict[str, Any]) -> None:
    """Two processes with different hash seeds write the same text files."""
    hashes = hashes_of_words()
    assert 40 < len(hashes)
    assert hashes == other_process["words"]


def test_the_same_study_gives_the_same_figures(other_process: dict[str, Any]) -> None:
    """Two processes with different hash seeds draw the same figures."""
    hashes = hashes_of_figures()
    names = ("curve", "pairs", "aggregates-figure", "history", "threads")
    assert {f"{name}.{kind}" for name in names for kind in ("pdf", "svg")} == set(hashes)
    assert hashes == other_process["figures"]


def test_formats_import_nothing_heavy() -> None:
    """The text formats import no library that draws or trains."""
    code = (
        "import sys, rlexp.reports.figures\n"
        "from rlexp.reports.formats import as_csv, as_json, latex, markdown\n"
        "print(sorted({'matplotlib', 'torch', 'scipy', 'hydra', 'jinja2'} & set(sys.modules)))"
    )
    assert "[]\n" == _run(code)


def test_figures_leave_pyplot_alone(other_process: dict[str, Any]) -> None:
    """Drawing does not import pyplot, whose state belongs to the user's notebook."""
    assert other_process["pyplot"] is False
