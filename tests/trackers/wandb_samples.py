"""An experiment, runs and their ends for the tests of the W&B tracker."""

from pathlib import Path
from typing import Any

from tracked_samples import estimate

from rlexp.trackers import RunEnd, TrackedAggregate, TrackedExperiment, TrackedRun

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><text>PPO</text></svg>'


def experiment_in(folder: Path) -> TrackedExperiment:
    """An experiment whose folder lies in `folder`."""
    experiment_folder = folder / "own"
    return TrackedExperiment(
        id="experiment",
        name="cartpole",
        project=folder,
        folder=experiment_folder,
        definition={},
        is_sweep=False,
    )


def tracked_run(seed: int = 3) -> TrackedRun:
    """A test run of PPO."""
    return TrackedRun(
        id=f"{seed:032x}",
        name=f"ppo-{seed}",
        group="PPO",
        label="PPO",
        task="CartPole-v1",
        phase="test",
        seed=seed,
        trial=None,
        fingerprint="f" * 16,
        configuration={"algorithm": {"learning_rate": 0.1, "layers": [64, 64]}},
        provenance={"code": {"commit": "c0ffee"}, "command": ["rlexp", "run", "of-nobody"]},
        started=1_800_000_000.0,
    )


def run_end(**changes: Any) -> RunEnd:
    """The end of a run that completed with score 5."""
    fields: dict[str, Any] = {
        "state": "completed",
        "time": 1_800_001_000.0,
        "step": 100,
        "seconds": 9.0,
        "attempts": 1,
        "score": 5.0,
        "score_rule": "final",
        "failure": None,
        "reason": None,
        "weights": "a1b2",
        "files": {},
    }
    return RunEnd(**{**fields, **changes})


def aggregate(iqm: float | None, label: str = "PPO") -> TrackedAggregate:
    """The aggregate of a label, or one without scores yet."""
    return TrackedAggregate(
        label=label,
        task="CartPole-v1",
        phase="test",
        planned=3,
        n=0 if iqm is None else 3,
        failed=0,
        missing=3 if iqm is None else 0,
        score_rule="final",
        scores={},
        metric="iqm",
        title="IQM",
        estimate=None if iqm is None else estimate(iqm),
    )
