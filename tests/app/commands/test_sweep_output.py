"""A sweep prints its progress, its result and interrupted runs."""

import json
import shlex
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import completed, console, ended, failed, output
from stored_sweeps import stored_sweep

from rlexp.app.commands.train.sweep import SweepOptions
from rlexp.app.sweeps.progress import SweepMonitor
from rlexp.cli.train.sweep import execute as sweep
from rlexp.console.sweep import SweepLines
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Event, RunStarted
from rlexp.records.run import RunRecord
from rlexp.records.selection import configuration_name

quick = pytest.fixture(autouse=True)(quick_parts)


def test_winner_is_named_beside_the_best_on_tuning_seeds(tmp_path: Path) -> None:
    """If selection seeds prefer another finalist, both finalists are named."""
    stored = stored_sweep(tmp_path, score=reversed_by_selection)
    selection = stored.go_on().selection
    assert selection is not None
    best, winner = (f.number for f in selection.finalists)
    assert winner == selection.winner
    text = rlexp(tmp_path, "status", "made_up").out
    assert f"(trial {best}) · chosen {configuration_name(winner, winner)}" in text


def reversed_by_selection(spec: RunSpec) -> float:
    """More epochs give higher scores on tuning seeds and lower scores on all others."""
    epochs: int = spec.algorithm["n_epochs"]
    return 10.0 * (epochs if spec.phase == "tuning" else -epochs)


def test_json_has_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON document has the runs and the steps of each phase."""
    stored = stored_sweep(tmp_path)
    stored.go_on()
    assert 0 == sweep(None, stored.words, SweepOptions(), stored.study, console(as_json=True))
    cost = json.loads(output(capsys))["cost"]
    runs = {phase: (values["runs"], values["steps"]) for phase, values in cost.items()}
    assert {"tuning": (12, 1200), "selection": (4, 400), "test": (6, 600)} == runs


def test_each_next_command_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished sweep ends with its next commands, and prints none of them twice."""
    stored = stored_sweep(tmp_path)
    stored.go_on()
    assert 0 == sweep(None, stored.words, SweepOptions(), stored.study, console(), full=False)
    commands = [line for line in output(capsys).splitlines() if line.startswith("To ")]
    assert "To see every detail: rlexp show made_up --full" in commands
    assert sorted(set(commands)) == sorted(commands)


def test_a_selection_without_test_seeds_suggests_a_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without test seeds, the next command adds some, because only test scores are results."""
    stored = stored_sweep(tmp_path, "seeds.test=0")
    stored.go_on()
    assert 0 == sweep(None, stored.words, SweepOptions(), stored.study, console())
    text = output(capsys)
    assert "It has no test score yet, and only test scores are results." in text
    (command,) = [line for line in text.splitlines() if line.startswith("To add test seeds: ")]
    assert command.endswith(" seeds.test=10")


def test_a_list_of_test_seeds_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next command doubles a list with seeds that no phase lists, and adds only their runs."""
    stored = stored_sweep(tmp_path, "seeds.test=[4,1]", "seeds.selection=[0,7]")
    stored.go_on()
    assert 0 == sweep(None, stored.words, SweepOptions(), stored.study, console())
    text = output(capsys)
    (line,) = [line for line in text.splitlines() if line.startswith("To add test seeds: ")]
    program, command, *words = shlex.split(line.partition(": ")[2])
    assert ("rlexp", "sweep", "seeds.test=[4,1,2,3]") == (program, command, words[-1])
    assert 0 == sweep(None, words, SweepOptions(dry_run=True), stored.study, console())
    assert " 4 runs × 100 environment steps" in output(capsys)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (completed(1.0), []),
        ([ended(Ending.PRUNED)], []),
        ([ended(Ending.INTERRUPTED, reason="asked to end")], ["interrupted: asked to end"]),
        (failed(), ["failed (nan): a loss is NaN"]),
    ],
)
def test_interrupted_runs_are_printed(
    tmp_path: Path, events: list[Event], expected: list[str]
) -> None:
    """Interrupted and failed runs are printed, and completed and pruned runs are not."""
    stored = stored_sweep(tmp_path)
    source = stored.go_on(runs=0)
    spec = source.take()
    assert spec is not None
    printed: list[str] = []
    lines = SweepLines(
        printed.append, SweepMonitor(source, None, 1, {}, "made_up").view, quiet=False
    )
    started = RunStarted(time=0.0, attempt=1, pid=1, host="here")
    lines.ended(RunRecord.fold(spec, [[started, *events]]), again=False)
    assert [f"  {spec.name} {line}" for line in expected] == printed
