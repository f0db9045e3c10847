"""All formats of one study: the same bytes in every process, and nothing heavy imported early."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HASHES = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
from study_samples import {samples}
from rlexp.reports.formats import as_csv, as_json, latex, markdown
files = {{}}
for make in ({samples},):
    for module in (as_csv, as_json, latex, markdown):
        files |= {{f"{{make.__name__}}/{{k}}": v for k, v in module.render(make()).items()}}
    if {figures}:
        files |= import_module("rlexp.reports.figures").draw(make(), ("pdf", "svg"))
print(json.dumps({{name: hashlib.sha256(content).hexdigest() for name, content in files.items()}}))
"""


def _run(code: str, seed: str = "0") -> str:
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    environment = {"PYTHONHASHSEED": seed, "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_same_study_gives_the_same_bytes() -> None:
    """Two processes whose sets and dictionaries have other orders write the same files."""
    code = HASHES.format(samples="typical, hostile, empty", figures=False)
    first, second = (json.loads(_run(code, seed)) for seed in ("1", "2"))
    assert 40 < len(first)
    assert first == second


def test_the_same_study_gives_the_same_figures() -> None:
    """The same for figures, at another time."""
    pytest.importorskip("matplotlib")
    code = HASHES.format(samples="one_run", figures=True)
    first, second = (json.loads(_run(code, seed)) for seed in ("1", "2"))
    assert {"curve.pdf", "curve.svg", "pairs.svg", "aggregates-figure.pdf"} <= set(first)
    assert first == second


def test_formats_import_nothing_heavy() -> None:
    """A report in words starts without a library that draws or learns."""
    code = (
        "import sys, rlexp.reports.figures\n"
        "from rlexp.reports.formats import as_csv, as_json, latex, markdown\n"
        "print(sorted({'matplotlib', 'torch', 'scipy', 'hydra', 'jinja2'} & set(sys.modules)))"
    )
    assert "[]\n" == _run(code)


def test_figures_leave_pyplot_alone() -> None:
    """Pyplot would open windows and keep figures; a notebook's own must stay its own."""
    pytest.importorskip("matplotlib")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from rlexp.reports.figures import draw\n"
        "from study_samples import one_run\n"
        "draw(one_run(), ('svg',))\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    assert "False\n" == _run(code)
