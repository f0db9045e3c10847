"""What is about to run, in words."""

from typing import Any

import pytest

from rlexp.console.plans import checkpoint_lines, run_plan_lines


def plan(**changes: Any) -> dict[str, Any]:
    """The plan of a command with five runs."""
    return {
        "experiment": "first",
        "phase": "test",
        "runs": 5,
        "done": 0,
        "failed": 0,
        "steps_per_run": [100_000],
        "continued": {},
        "replay_bytes": 0,
        "workers": 2,
        "threads": 1,
        "seconds": 62.0,
        "bytes": 1_200_000,
        "measured": True,
        "code": "git 1a2b3c4",
        **changes,
    }


def test_a_plan_that_begins_anew_says_nothing_of_checkpoints() -> None:
    """How many runs, how long, how much disk, of which code."""
    told = (
        "  5 runs × 100,000 environment steps · 2 workers × 1 thread · estimated 1 min 2 s, "
        "1.2 MB · git 1a2b3c4"
    )
    assert ["first · test phase", told] == list(run_plan_lines(plan()))


@pytest.mark.parametrize(
    ("steps", "told"),
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
def test_runs_that_continue_are_counted(steps: list[int], told: str) -> None:
    """With the steps of their checkpoints."""
    continued = {f"run {number}": step for number, step in enumerate(steps)}
    assert f"  {told}" == list(run_plan_lines(plan(continued=continued)))[-1]


def test_large_replay_buffers_are_said() -> None:
    """From 100 MB on."""
    assert [] == list(checkpoint_lines(plan(replay_bytes=100_000_000)))
    (line,) = checkpoint_lines(plan(replay_bytes=1_200_000_000))
    assert "  replay buffers in checkpoints: up to 1.2 GB a run" == line


def test_nothing_to_run_is_said() -> None:
    """Without an estimate."""
    empty = plan(runs=0, done=5, steps_per_run=[])
    told = ["first · test phase, 5 done already", "  nothing to run"]
    assert told == list(run_plan_lines(empty))
