"""The live table of runs names what the last evaluation measured."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from time import monotonic

import pytest
from rich.console import Console
from stored_runs import completed, configuration, evaluated, stored

from rlexp.console.tables import live_table
from rlexp.engine.run_in_flight import RunInFlight
from rlexp.store.layout import Layout
from rlexp.store.runs import read_run


@pytest.mark.parametrize(
    ("score", "shown"), [("final", "return 15.0"), ("success", "success 0.500")]
)
def test_the_live_table_names_what_is_scored(tmp_path: Path, score: str, shown: str) -> None:
    """The table has the mean of the return or of the measure that is scored, with its name."""
    usual = configuration()
    scored = replace(usual, budget=replace(usual.budget, score=score))
    alpha = stored(Layout(tmp_path / "runs"), "alpha", scored)
    last = replace(evaluated(50, 10.0, 20.0), measures={"success": (1.0, 0.0)})
    attempt = alpha.attempt(0).attempts()[-1]
    run = RunInFlight(alpha.spec(0), attempt, monotonic(), step=50, evaluations=[last])
    out = Console(file=StringIO(), force_terminal=True, width=80)
    with live_table(out, 3) as table:
        table.update([run], 2)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert shown in printed
    assert "evaluation" in printed


def test_lines_above_the_live_table_are_folded_between_words(tmp_path: Path) -> None:
    """On a narrow terminal, no word of the line of an ended run is cut."""
    ended = read_run(stored(Layout(tmp_path / "runs")).attempt(0, completed(1.0))).record
    out = Console(file=StringIO(), force_terminal=True, width=24)
    with live_table(out, 3) as table:
        table.ended(ended, again=False)
    printed = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", out.file.getvalue())  # type: ignore[attr-defined]
    lines = [line.rstrip() for line in printed.replace("\r", "").splitlines() if line.strip()]
    assert all(len(line) <= 24 for line in lines)
    assert "score 1.00" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("unit", "heading"),
    [(None, "steps"), ("tokens", "tokens"), ("gradient_steps", "gradient steps")],
)
def test_the_live_table_names_the_unit_of_the_steps(
    tmp_path: Path, unit: str | None, heading: str
) -> None:
    """Its columns are headed by the unit that the environment declares, here and per second."""
    usual = configuration()
    declared = replace(usual, environment={**usual.environment, "unit": unit})
    alpha = stored(Layout(tmp_path / "runs"), "alpha", declared)
    attempt = alpha.attempt(0).attempts()[-1]
    run = RunInFlight(alpha.spec(0), attempt, monotonic(), step=50)
    out = Console(file=StringIO(), force_terminal=True, width=120)
    with live_table(out, 3) as table:
        table.update([run], 2)
    printed = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", out.file.getvalue())  # type: ignore[attr-defined]
    headings = re.split(" {2,}", printed.partition("\n")[0])
    assert ["run", "seed", heading, "evaluation", f"{heading}/s", "left"] == headings
