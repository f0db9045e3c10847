"""Counts of continued and restarted runs, as numbers and as sentences."""

from samples import spec

from rlexp.records.events import Continued, Refused
from rlexp.records.run import RunRecord
from rlexp.reports.evidence.restarts import RestartCounts


def refused(*reasons: str) -> tuple[Refused, ...]:
    """Events of refused checkpoints with these reasons."""
    return tuple(Refused(time=1.0, step=5, reason=reason) for reason in reasons)


def test_runs_are_counted_and_not_attempts() -> None:
    """A run counts once, and reasons are sorted by the number of runs."""
    continuations = (
        Continued(time=1.0, step=5, attempt=1),
        Continued(time=2.0, step=9, attempt=1, drift="torch changed"),
    )
    counts = RestartCounts.of(
        [
            RunRecord(spec=spec()),
            RunRecord(
                spec=spec(), continuations=continuations, refused=refused("rare", "rare", "often")
            ),
            RunRecord(spec=spec(), restarts=2, refused=refused("often")),
        ]
    )
    expected = RestartCounts(
        continued=1,
        restarted=1,
        refused=2,
        reasons=("often", "rare"),
        drifted=1,
        changes=("torch changed",),
    )
    assert expected == counts == RestartCounts.from_plain(counts.plain())
    assert [
        "1 run continued from a checkpoint",
        "1 run restarted from the first step",
        "checkpoints of 2 runs were refused: often; rare",
        "1 run continued with other versions: torch changed",
    ] == list(counts.sentences())


def test_runs_of_one_attempt_give_no_sentence() -> None:
    """Runs that took one attempt give no sentence."""
    assert [] == list(RestartCounts.of([RunRecord(spec=spec())]).sentences())


def test_many_reasons_are_shortened() -> None:
    """A line lists the first reasons and the number of the others."""
    record = RunRecord(spec=spec(), refused=refused(*map(str, range(5))))
    (line,) = RestartCounts.of([record]).sentences()
    assert line.endswith("; and 2 other reasons")
    assert 3 == line.count("; ")
