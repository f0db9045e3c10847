"""`rlexp show` of a run that was examined, or measures more of its episodes than returns."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import console, ended, evaluated, output, stored, study

from rlexp.app.commands.show import Part, show
from rlexp.records.events import Ending, Examined, Measures
from rlexp.store.layout import Layout


def write(folder: Path, measures: Measures | None, *, examined: bool) -> str:
    """A completed run with these measures of its two final episodes; returns its name."""
    final = replace(evaluated(100, 10.0, 20.0, final=True), measures=measures)
    seen = Examined(
        time=final.time,
        step=100,
        distribution="in_distribution",
        returns=(30.0, 50.0),
        lengths=(1, 1),
        seconds=1.0,
    )
    run = stored(Layout(folder / "runs")).attempt(
        0, [final, *([seen] if examined else []), ended(Ending.COMPLETED)]
    )
    return run.folder.name


def shown(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The table of measures, as people read it; nothing where there is none."""
    show(name, Part.RESULT, study(folder), console())
    lines = output(capsys).splitlines()
    heading = "measures of the final policy, by episode"
    if heading not in lines:
        return []
    rows = lines[lines.index(heading) + 2 :]
    return [line.split() for line in rows[: rows.index("")]]


def test_measures_stand_beside_the_returns_of_both_distributions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Returns first; an episode without a measure is not counted."""
    name = write(tmp_path, {"success": (1.0, 0.0), "cost": (3.0, float("nan"))}, examined=True)
    rows = shown(name, tmp_path, capsys)
    assert ["return", "return", "cost", "success"] == [row[0] for row in rows]
    assert ["evaluation", "in_distribution", "evaluation", "evaluation"] == [r[1] for r in rows]
    show(name, Part.RESULT, study(tmp_path), console(as_json=True))
    (evaluation, known, cost, _) = json.loads(output(capsys))["measures"]
    assert (15.0, 40.0) == (evaluation["mean"], known["mean"])
    assert {
        "measure": "cost",
        "distribution": "evaluation",
        "mean": 3.0,
        "min": 3.0,
        "max": 3.0,
        "episodes": 1,
    } == cost


def test_a_run_that_measures_nothing_is_shown_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its returns stand among the evaluations."""
    assert [] == shown(write(tmp_path, None, examined=False), tmp_path, capsys)


def test_a_measure_that_no_episode_has_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor are numbers whose sum is none."""
    nan = float("nan")
    name = write(tmp_path, {"cost": (nan, nan), "huge": (1e308, 1e308)}, examined=False)
    show(name, Part.RESULT, study(tmp_path), console(as_json=True))
    cost, huge = json.loads(output(capsys))["measures"]
    assert (None, 0) == (cost["mean"], cost["episodes"])
    assert (None, 2) == (huge["mean"], huge["episodes"])
