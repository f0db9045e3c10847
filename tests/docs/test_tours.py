"""The commands of tutorials and guides by task work as pasted, page by page.

Outside of `make test-all`, a sweep has fewer trials than the page says.
"""

from pathlib import Path

import pytest
from last_words import with_few_trials
from pasted_commands import pasted
from shown_commands import blocks, lines_not_printed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.stem != "tour" and blocks(page.read_text(), "bash tour")
]
"""Pages with commands that work as pasted; test_readme.py is about the tour."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_work_as_pasted(page: Path, tmp_path: Path) -> None:
    """Each command succeeds in an empty folder, after those before it, and prints what is shown."""
    text = page.read_text()
    process = pasted("".join(blocks(text, "bash tour")), tmp_path, received=with_few_trials)
    assert 0 == process.returncode, (process.stdout + process.stderr)[-4000:]
    assert "Traceback" not in process.stdout + process.stderr
    assert [] == lines_not_printed(text, process.stdout)


def test_there_are_pages() -> None:
    """Tutorials and guides by task are among the pages."""
    assert {"first-sweep", "slurm", "tune-overnight"} <= {page.stem for page in PAGES}
