"""The page docs/reference/json.md is up to date."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page_is_up_to_date() -> None:
    """The page is the output of .ci/json_page.py."""
    command = [sys.executable, str(ROOT / ".ci" / "json_page.py")]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "reference" / "json.md").read_text() == process.stdout
