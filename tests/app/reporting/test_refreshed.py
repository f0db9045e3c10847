"""Background computations take a limited share of one core."""

import os
import sys
from types import SimpleNamespace

import pytest

from rlexp.app.reporting import refreshed
from rlexp.app.reporting.refreshed import NICENESS, BackgroundWorker, Refreshed


def test_the_worker_rests_in_proportion_to_its_processor_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A computation that other programs keep waiting does not rest for the time it waited."""
    clock = {"passed": 1000.0, "used": 5.0}
    fake = SimpleNamespace(monotonic=lambda: clock["passed"], process_time=lambda: clock["used"])
    monkeypatch.setattr(refreshed, "time", fake)

    def compute() -> str:
        clock["passed"] += 100.0
        clock["used"] += 2.0
        return "value"

    worker = BackgroundWorker(share=0.1)
    assert "value" == Refreshed(worker, compute, least=0.0).latest(patience=None)
    assert worker.rests_until == pytest.approx(1020.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_computations_let_trainings_go_first() -> None:
    """The thread of a worker has a lower priority than the thread that asks."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    worker = BackgroundWorker(1.0)
    asked = Refreshed(worker, lambda: os.getpriority(os.PRIO_PROCESS, 0), 0.0)
    assert max(before, NICENESS) == asked.latest(None)
    assert before == os.getpriority(os.PRIO_PROCESS, 0)
