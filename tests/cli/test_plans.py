"""The printed lines of plans."""

from dataclasses import replace
from typing import Any

import pytest

from rlexp.app.plans import RefusedCell, RefusedCheckpoint, RunPlan, StartingPoints
from rlexp.cli.plans import checkpoint_lines, run_plan_lines


def beginnings(**changes: Any) -> StartingPoints:
    """Starting points of runs; by default all runs start from step 0."""
    values: dict[str, Any] = {"continued": {}, "drifts": {}, "anew": {}, "allow_drift": None}
    return StartingPoints(**{**values, "replay_bytes": 0, **changes})


def plan(runs: int = 5, done: int = 0, **changes: Any) -> RunPlan:
    """The plan of a command with five runs and these starting points."""
    return RunPlan(
        experiment="first",
        phase="test",
        runs=runs,
        done=done,
        failed=0,
        steps=runs * 100_000,
        steps_per_run=(100_000,) if runs else (),
        beginnings=beginnings(**changes),
        workers=2,
        batch=1,
        threads=1,
        seconds=62.0,
        bytes=1_200_000,
        seconds_low=50.0,
        seconds_high=80.0,
        measured=True,
        basis="runs",
        code="git 1a2b3c4",
    )


def test_a_plan_without_checkpoints_does_not_mention_them() -> None:
    """The plan has the number of runs, the time, the disk space and the commit."""
    expected = (
        "  5 runs × 100,000 environment steps · 2 workers × 1 thread · estimated 1 min 2 s "
        "(50 s to 1 min 20 s), 1.2 MB · git 1a2b3c4"
    )
    assert ["first · test phase", expected] == list(run_plan_lines(plan()))


def test_an_offline_stage_is_a_line_of_the_plan() -> None:
    """The gradient steps on a dataset are no environment steps, and have a line for themselves."""
    begun = replace(plan(), offline_steps_per_run=(0, 10_000))
    expected = (
        "  offline stage: 0 or 10,000 gradient steps on the dataset before each run's first step"
    )
    assert expected == list(run_plan_lines(begun))[2]


def test_a_first_guess_is_marked_as_one() -> None:
    """Without a measurement, the plan says roughly, and gives no range."""
    guessed = replace(plan(), measured=False, basis="guess", seconds_low=None, seconds_high=None)
    assert " · roughly 1 min 2 s, 1.2 MB · " in list(run_plan_lines(guessed))[1]


@pytest.mark.parametrize("runs", [0, 5])
def test_configurations_that_cannot_be_trained_are_listed(runs: int) -> None:
    """A plan of a matrix names the cells that it leaves out, and why."""
    cell = RefusedCell(label="dqn", task="Pong", reason="it needs 57 GB")
    lines = list(run_plan_lines(replace(plan(runs=runs), refused=(cell,))))
    assert [
        "  cannot be trained, and not counted above: 1 configuration",
        "    dqn on Pong: it needs 57 GB",
    ] == lines[-2:]


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([40_000], "1 of 5 runs continues from a checkpoint at step 40,000"),
        ([40_000] * 2, "2 of 5 runs continue from checkpoints at step 40,000"),
        (
            [60_000, 40_000],
            "2 of 5 runs continue from checkpoints at steps 40,000 and 60,000",
        ),
        ([5, 4, 3, 2, 1], "5 of 5 runs continue from checkpoints at steps 1 to 5"),
    ],
)
def test_runs_that_continue_are_counted(steps: list[int], line: str) -> None:
    """One line has the number of continued runs and the steps of their checkpoints."""
    continued = {f"run {number}": step for number, step in enumerate(steps)}
    assert f"  {line}" == list(run_plan_lines(plan(continued=continued)))[-1]


@pytest.mark.parametrize(
    ("refused", "beginning", "reasons"),
    [
        (
            [(40_000, "a")],
            "1 of 5 runs starts from step 0, because its checkpoint at step 40,000 was",
            "a",
        ),
        (
            [(40_000, "b"), (60_000, "a"), (40_000, "a")],
            "3 of 5 runs start from step 0, because their checkpoints at steps 40,000 and 60,000 were",
            "a; b",
        ),
        (
            [(step, f"a{step}") for step in range(1, 6)],
            "5 of 5 runs start from step 0, because their checkpoints at steps 1 to 5 were",
            "a1; a2; a3; and 2 other reasons",
        ),
    ],
)
def test_runs_that_start_from_step_0_are_counted(
    refused: list[tuple[int, str]], beginning: str, reasons: str
) -> None:
    """One line has the lost steps and the reasons; the next has a command that keeps the steps."""
    anew = {f"run {n}": RefusedCheckpoint(step=s, reason=r) for n, (s, r) in enumerate(refused)}
    expected = f"  {beginning} refused: {reasons}"
    assert expected == list(run_plan_lines(plan(anew=anew)))[-1]
    lines = list(run_plan_lines(plan(anew=anew, allow_drift="rlexp resume first --allow-drift")))
    assert (
        "  to continue from these checkpoints anyway: rlexp resume first --allow-drift"
        == lines[-1]
    )


def test_runs_that_continue_with_other_versions_are_counted() -> None:
    """Changed versions have a line below that of the continued steps."""
    changes = {"run 0": "torch was 1, is 2", "run 1": "torch was 1, is 2"}
    lines = list(checkpoint_lines(beginnings(continued=dict.fromkeys(changes, 8), drifts=changes)))
    assert [
        "  2 runs continue from checkpoints at step 8",
        "  2 runs continue with other versions: torch was 1, is 2",
    ] == lines


def test_large_replay_buffers_are_printed() -> None:
    """The size of replay buffers is printed above 100 MB."""
    assert [] == list(checkpoint_lines(beginnings(replay_bytes=100_000_000)))
    (line,) = checkpoint_lines(beginnings(replay_bytes=1_200_000_000))
    assert "  replay buffers in checkpoints: up to 1.2 GB per run" == line


def test_an_empty_plan_has_no_estimate() -> None:
    """A plan without missing runs states that there is nothing to run."""
    empty = plan(runs=0, done=5)
    expected = ["first · test phase, 5 already done", "  nothing to run"]
    assert expected == list(run_plan_lines(empty))
