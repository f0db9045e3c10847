"""A command says so when jobs ask for GPUs that no learner uses."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from stored_runs import stored

from rlexp.app.execution.launch import note_idle_gpus
from rlexp.app.observer import SilentObserver
from rlexp.executors.pull import Pull
from rlexp.store.layout import Layout


@dataclass
class RecordingObserver(SilentObserver):
    """An observer that keeps remarks."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep a remark."""
        self.notes.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullWithGpus(Pull):
    """An executor that asks for GPUs."""

    gpus: int | str


@pytest.mark.parametrize(
    ("settings", "count"),
    [({"gpus": 1}, 1), ({"gpus": "a100:1"}, 1), ({"gpus": 0}, 0), ({"gpus": "0"}, 0)],
)
def test_gpus_without_a_learner_on_them_are_remarked_on(
    tmp_path: Path, settings: dict[str, Any], count: int
) -> None:
    """GPUs for runs with compute.device=cpu give one line that names both settings."""
    experiment, observer = stored(Layout(tmp_path / "runs")).paths, RecordingObserver()
    note_idle_gpus(experiment, PullWithGpus(workers=1, grace=1.0, **settings), observer)
    assert count == len(observer.notes)
    assert all("executor.gpus" in n and "compute.device=cuda" in n for n in observer.notes)
    assert all("\n" not in note for note in observer.notes)


def test_an_executor_without_the_setting_needs_no_remark(tmp_path: Path) -> None:
    """An executor that knows no GPUs gives no remark."""
    experiment, observer = stored(Layout(tmp_path / "runs")).paths, RecordingObserver()
    note_idle_gpus(experiment, Pull(workers=1, grace=1.0), observer)
    assert [] == observer.notes
