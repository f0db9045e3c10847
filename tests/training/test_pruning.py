"""A pruned run ends at once, and steps after its rung do not count."""

from pathlib import Path

from trainings import TINY, RecordingListener, run_training, spec_of

from rlexp.records.events import Ending, RunStarted, StopRequest
from rlexp.records.run import RunRecord, State


def test_a_pruned_run_ends_at_its_rung(tmp_path: Path) -> None:
    """The record of a pruned run holds the evaluations up to its rung, and no later evaluation."""
    listener = RecordingListener(tmp_path)
    listener.request, listener.request_at = StopRequest(Ending.PRUNED, "behind", 64), 160
    words = (
        *TINY["ppo"],
        "budget.steps=256",
        "budget.evaluation_every=32",
        "budget.final_episodes=3",
    )
    _, end = run_training(tmp_path, *words, listener=listener)
    run_start = RunStarted(time=0.0, attempt=1, pid=1, host="here")
    record = RunRecord.fold(spec_of(*words), [[run_start, *listener.events]])
    assert (Ending.PRUNED, 64, "behind") == (end.ending, end.rung, end.reason)
    assert (State.PRUNED, None) == (record.state, record.score)
    assert [32, 64] == [e.step for e in record.evaluations]
    assert 160 == record.spent
