"""The page about Python has blocks that run one after the other in an empty folder."""

import re
from pathlib import Path
from typing import Any

import pytest
from in_full import IN_FULL
from quick_parts import quick_parts
from warm_processes import warm_up

from rlexp.executors import local

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the blocks define, after they ran in a folder; the sweep runs in full only."""
    quick_parts(monkeypatch)
    if not IN_FULL:
        warm_up(monkeypatch, local)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RLEXP_HOME", str(folder / "home"))
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, 1):
        if "rlexp.sweep" in block and not IN_FULL:
            continue
        exec(compile(block, f"block {number} of docs/reference/python.md", "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block runs as pasted, and the results are what the page says about them.

    The block with the sweep takes long: `make test-all` runs it.
    """
    names = run_blocks(tmp_path, monkeypatch)
    assert {"ppo": {0, 1}, "a2c": {0, 1}} == {k: {*v} for k, v in names["outcome"].scores.items()}
    assert {"ppo", "a2c"} == {*names["runs"]["label"]}
    if IN_FULL:
        assert 2 == len(names["search"].to_pandas())
        assert 1 == len(names["again"].to_pandas())
    assert 3 == names["evaluation"].n
    printed = capsys.readouterr().out
    assert "unknown key 'algoritm'; did you mean 'algorithm=ppo'?" in printed


def test_the_tables_name_the_columns_that_there_are() -> None:
    """The first columns of a row of a run and of a trial are those of the code."""
    from rlexp.app.reading.run_rows import RUN_COLUMNS
    from rlexp.app.sweeps.trial_rows import TRIAL_COLUMNS

    for columns in (RUN_COLUMNS, TRIAL_COLUMNS):
        assert f"| {', '.join(columns)} |" in PAGE


def test_the_page_has_blocks_for_the_other_tests() -> None:
    """The page has eight blocks of Python."""
    assert 8 == len(BLOCKS)
