"""The notebooks of the documentation can be executed, and show what the page about them says."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
JUPYTER = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")


def html_of(notebook: Any) -> list[str]:
    """The HTML of every output, in order."""
    outputs = (o for cell in notebook.cells for o in cell.get("outputs", []))
    return [o["data"]["text/html"] for o in outputs if "text/html" in o.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_can_be_executed(path: Path, tmp_path: Path) -> None:
    """Each cell succeeds without a viewer, and as many outputs are HTML as in the stored notebook."""
    stored = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    jupyter = {name: str(tmp_path / name) for name in JUPYTER}
    client = NotebookClient(notebook, timeout=280, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env={**os.environ, **jupyter, "RLEXP_HOME": str(tmp_path / "cache")})
    assert len(html_of(stored)) == len(html_of(notebook))
    assert any("<svg" in html for html in html_of(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_small_and_names_no_folder(path: Path) -> None:
    """Stored outputs are small, without errors, and name no folder of the machine that made them."""
    text = path.read_text()
    assert len(text) < 200_000
    assert '"output_type": "error"' not in text
    assert set(re.findall(r"(?:/[\w.-]+)+/runs", text)) <= {"/home/you/study/runs"}
