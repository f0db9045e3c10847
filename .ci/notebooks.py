"""Executes the notebooks of the documentation, and stores their outputs: `make notebooks`.

The outputs hold no path of this machine: the folder in which a notebook is executed has the name of a
folder of any user.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

SHOWN_FOLDER = "/home/you/study"


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Execute a notebook in a folder; returns it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, resources=resources, record_timing=False).execute()
    return notebook


def tidy(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Keep the HTML of each output where there is some, and name no folder of this machine."""
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:
                data.pop("text/plain", None)
            for kind, text in data.items():
                data[kind] = text.replace(str(folder), SHOWN_FOLDER)
    notebook.metadata.language_info = {"name": "python"}


def main(paths: list[str]) -> None:
    """Execute each notebook and write it again."""
    for path in map(Path, paths):
        with TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
            tidy(notebook, Path(folder))
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
