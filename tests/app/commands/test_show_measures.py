"""`rlexp show` prints examinations and measures of runs besides returns."""

from dataclasses import replace
from pathlib import Path

from command_line import rlexp
from stored_runs import ended, evaluated, stored, study

from rlexp.app.commands.look.show import RunDetails, ShowPart, show
from rlexp.records.events import Ending, Examined, Measures
from rlexp.store.layout import Layout


def write(folder: Path, measures: Measures | None, *, examined: bool) -> str:
    """Store a completed run with these measures of two final episodes; returns its name."""
    final = replace(evaluated(100, 10.0, 20.0, final=True), measures=measures)
    examination = Examined(
        time=final.time,
        step=100,
        distribution="in_distribution",
        returns=(30.0, 50.0),
        lengths=(1, 1),
        seconds=1.0,
    )
    run = stored(Layout(folder / "runs")).attempt(
        0, [final, *([examination] if examined else []), ended(Ending.COMPLETED)]
    )
    return run.folder.name


def measure_table(name: str, folder: Path) -> list[list[str]]:
    """The printed table of measures; empty if the output has none."""
    lines = rlexp(folder, "show", name).out.splitlines()
    heading = "measures of the final policy, per episode"
    if heading not in lines:
        return []
    rows = lines[lines.index(heading) + 2 :]
    return [line.split() for line in rows[: rows.index("")]]


def test_measures_are_shown_with_returns(tmp_path: Path) -> None:
    """The table has returns of both distributions, then measures of the episodes that have them."""
    name = write(tmp_path, {"success": (1.0, 0.0), "cost": (3.0, float("nan"))}, examined=True)
    rows = measure_table(name, tmp_path)
    assert ["return", "return", "cost", "success"] == [row[0] for row in rows]
    assert ["evaluation", "in_distribution", "evaluation", "evaluation"] == [r[1] for r in rows]
    document = rlexp(tmp_path, "show", name, "--json").document("run-details")
    (evaluation, in_distribution, cost, _) = document["measures"]
    assert (15.0, 40.0) == (evaluation["mean"], in_distribution["mean"])
    assert {
        "measure": "cost",
        "distribution": "evaluation",
        "mean": 3.0,
        "min": 3.0,
        "max": 3.0,
        "episodes": 1,
    } == cost


def test_a_run_without_measures_has_no_table(tmp_path: Path) -> None:
    """A run without measures has no table of measures."""
    assert [] == measure_table(write(tmp_path, None, examined=False), tmp_path)


def test_a_measure_without_finite_values_has_no_mean(tmp_path: Path) -> None:
    """Measures that are all NaN, or whose sum overflows, have no mean."""
    nan = float("nan")
    name = write(tmp_path, {"cost": (nan, nan), "huge": (1e308, 1e308)}, examined=False)
    details = show(name, ShowPart.RESULT, study(tmp_path))
    assert isinstance(details, RunDetails)
    cost, huge = details.measures
    assert (None, 0) == (cost.mean, cost.episodes)
    assert (None, 2) == (huge.mean, huge.episodes)
