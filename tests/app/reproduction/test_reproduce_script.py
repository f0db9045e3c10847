"""Reproducing a training script compares its results, because it leaves no weights."""

from typing import Any, cast

import pytest
from stored_runs import configuration

from rlexp.app.reproduction.comparison import (
    ReproductionAnswer,
    ReproductionVerdict,
    judge_reproduction,
)
from rlexp.cli.exchange.reproduce import run_lines
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Evaluated, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord


class _Original:
    """An original run with only a name and a record."""

    name = "x/run"

    def __init__(self, record: RunRecord) -> None:
        self.record = record


def record(*returns: float, lengths: tuple[int, ...] = ()) -> RunRecord:
    """A run of a script whose episodes had these returns."""
    configured = configuration()
    spec = configured.spec(Phase.TEST, 0, 0)
    spec = type(spec).from_plain({**spec.plain(), "algorithm": {"command": "x", "name": "mine"}})
    events: list[Event] = [
        RunStarted(time=0.0, attempt=1, pid=1, host="here"),
        Evaluated(time=1.0, step=100, returns=returns, lengths=lengths, seconds=0.0, final=True),
        RunEnded(time=2.0, step=100, ending=Ending.COMPLETED, seconds=2.0),
    ]
    return RunRecord.fold(spec, [events])


def comparison(
    first: RunRecord, second: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> ReproductionAnswer:
    """The comparison of two executions."""
    monkeypatch.setattr("rlexp.app.reproduction.comparison.likely_cause", lambda *_: "a cause")
    return judge_reproduction(
        cast("Any", _Original(first)), second, cast("Any", None), cast("Any", None)
    )


def test_equal_numbers_have_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal results have no cause, and the message says that no weights are compared."""
    result = comparison(record(1.0, 2.0), record(1.0, 2.0), monkeypatch)
    assert (ReproductionVerdict.EQUAL_SCORES, None) == (result.verdict, result.cause)
    assert [*run_lines(result.result())][-1].endswith("is equal; there are no weights to compare")


def test_different_episodes_with_an_equal_score_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Different episodes are found even if their score is equal and lengths are not recorded."""
    result = comparison(record(1.0, 2.0), record(2.0, 1.0), monkeypatch)
    assert (ReproductionVerdict.EQUAL_SCORES, "a cause") == (result.verdict, result.cause)
    assert result.divergence is not None
    assert "returns[0]" == result.divergence.field
