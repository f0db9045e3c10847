"""`show`, `ls` and `status` describe runs that took several attempts."""

from pathlib import Path

import pytest
from command_line import rlexp
from stored_runs import Stored, completed, ended, evaluated, stored, study

from rlexp.app.commands.look.list_runs import ListRequest, list_runs
from rlexp.app.commands.look.listing_rows import ExperimentRow
from rlexp.app.commands.look.status import status
from rlexp.records.events import Checkpointed, Continued, Ending, Refused

SAVED = Checkpointed(time=5.0, step=40, name="checkpoints/40", seconds=1.5, bytes=600_000)
DAMAGED = Refused(time=6.0, step=60, reason="model.zip is damaged")
REFUSED = Refused(time=9.0, step=40, reason="numpy was 1, is 2")


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two runs: one continued from the older of its checkpoints, and one started again."""
    experiment = stored(study(tmp_path).layout, test=2)
    experiment.attempt(0, [evaluated(50, 1.0), SAVED, ended(Ending.INTERRUPTED, 60)])
    experiment.attempt(
        0, [DAMAGED, Continued(time=7.0, step=40, attempt=1, drift="torch changed"), SAVED]
    )
    experiment.attempt(0, [Continued(time=8.0, step=40, attempt=1), *completed(10.0)])
    experiment.attempt(1, [evaluated(50, 1.0), SAVED, ended(Ending.INTERRUPTED, 60)])
    experiment.attempt(1, [REFUSED, *completed(20.0)])
    return experiment


def test_show_lists_the_attempts_of_a_run(alpha: Stored, tmp_path: Path) -> None:
    """Each attempt shows its start, refused checkpoints with reasons, and allowed changes."""
    shown = rlexp(tmp_path, "show", alpha.run(0).folder.name).out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "100 of 100 environment steps in 6 min 40 s in 3 attempts" in lines
    assert "2 checkpoints, 3.0 s and 1.2 MB in total, 0.75 % of the time" in lines
    rows = [line for line in lines if " here" in line]
    assert ["step 0", "checkpoint at step 40", "checkpoint at step 40"] == [
        row.split(" ", 3)[3].partition(state)[0].strip()
        for row, state in zip(rows, ("interrupted", "lost", "completed"), strict=True)
    ]
    refusal = "attempt 2: the checkpoint at step 60 was refused: model.zip is damaged"
    assert refusal in lines
    assert "attempt 2 continued with other versions: torch changed" in lines


def test_json_holds_the_attempts_too(alpha: Stored, tmp_path: Path) -> None:
    """The JSON output holds steps, reasons and costs as values."""
    value = rlexp(tmp_path, "show", alpha.run(1).folder.name, "--json").document("run-details")
    refused = [{"step": 40, "reason": "numpy was 1, is 2"}]
    assert ([], 1, refused, []) == tuple(
        value[key] for key in ("continued", "restarts", "refused", "drift")
    )
    assert ["step 0", "step 0, checkpoint refused"] == [a["began"] for a in value["history"]]
    assert [[], refused] == [attempt["refused"] for attempt in value["history"]]
    assert {"count": 1, "seconds": 1.5, "bytes": 600_000, "share": 1.5 / 400} == value[
        "checkpoints"
    ]


def test_summaries_count_continued_and_restarted_runs(alpha: Stored, tmp_path: Path) -> None:
    """`show` and `status` count continued and restarted runs and refused checkpoints."""
    lines = (
        "1 run continued from a checkpoint",
        "1 run restarted from the first step",
        "checkpoints of 2 runs were refused: model.zip is damaged; numpy was 1, is 2",
        "1 run continued with other versions: torch changed",
    )
    shown = rlexp(tmp_path, "show", alpha.paths.name, "--full").out
    printed = rlexp(tmp_path, "status").out
    assert all(f"  {line}\n" in shown and f"  {line}\n" in printed for line in lines)
    (experiment,) = status(None, study(tmp_path)).experiments
    counts = experiment.past
    assert (1, 1, 2) == (counts.continued, counts.restarted, counts.refused)


def test_listings_have_columns_for_them(alpha: Stored, tmp_path: Path) -> None:
    """`ls` has columns for continued and restarted runs, and for the beginning of each run."""
    (row,) = list_runs(ListRequest(), study(tmp_path)).rows
    assert isinstance(row, ExperimentRow)
    assert (1, 1) == (row.continued, row.restarted)
    runs = list_runs(ListRequest("alpha"), study(tmp_path)).rows
    assert ["checkpoint 40 and 40", "anew"] == [getattr(run, "began", None) for run in runs]
