"""Counts of runs that ended early, and of what never acted in them."""

from dataclasses import replace

from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.reports.evidence.acting import ActingCounts

SPEC = RunSpec(
    agent={},
    algorithm={},
    environment={},
    budget={"steps": 100, "score": "final"},
    compute={},
    phase=Phase.TEST,
    root=0,
    seed=0,
)
RUN = RunRecord(spec=SPEC, state=State.COMPLETED, step=100)


def test_early_ends_and_idle_parts_are_counted_with_n() -> None:
    """Each sentence says how many of how many runs, the steps and the cause; failed runs count in none."""
    runs = [
        replace(RUN, acted={"callback resets": 2, "teacher": 0}),
        replace(RUN, acted={"callback resets": 0, "teacher": 0}),
        replace(RUN, step=40, reason="callback mine ended the training at step 40 of 100"),
        replace(RUN, step=60, reason="callback mine ended the training at step 60 of 100"),
        replace(RUN, state=State.FAILED, reason="an error at step 3", acted={"teacher": 0}),
    ]
    assert list(ActingCounts.of(runs).sentences()) == [
        "2 of 4 runs ended before the budget was used, at steps 40 to 60: callback mine ended the training",
        "callback resets never acted in 1 of 2 runs",
        "teacher never acted in 2 of 2 runs",
    ]


def test_ordinary_runs_need_no_sentence() -> None:
    """Runs that used their budget and in which everything acted are not mentioned."""
    assert list(ActingCounts.of([RUN, replace(RUN, acted={"teacher": 3})]).sentences()) == []
