"""Runs with given evaluations."""

from collections.abc import Sequence

from evidence_samples import CARTPOLE, configured, member, run_spec
from samples import ended, evaluated, started

from rlexp.records.events import Ending, Evaluated, Event, Failure
from rlexp.records.run import RunRecord
from rlexp.reports.evidence.runs import PlannedRun

EVERY = 1000


def evaluation(step: int, mean: float, *, seconds: float | None = None) -> Evaluated:
    """An evaluation of two episodes, some seconds after the start of the run at 100."""
    seconds_after_start = step / 100 if seconds is None else seconds
    two_episodes = evaluated(step, mean - 1, mean + 1)
    return Evaluated(
        time=100.0 + seconds_after_start,
        step=step,
        returns=two_episodes.returns,
        lengths=two_episodes.lengths,
        seconds=0.1,
    )


def run(
    means: Sequence[float],
    seed: int = 0,
    *,
    label: str = "ppo",
    task: str = CARTPOLE,
    failure: Failure | None = None,
    ending: Ending | None = Ending.COMPLETED,
    times: Sequence[float] | None = None,
    returns: Sequence[float] = (1.0, 2.0),
    steps: int = 11_000,
) -> PlannedRun:
    """A run with an evaluation every thousand steps; `ending=None` is a run in progress."""
    configuration = configured(label, task, steps=steps, evaluation_every=EVERY)
    events: list[Event] = [started()]
    for number, mean in enumerate(means):
        after = times[number] if times is not None else None
        events.append(evaluation(EVERY * (number + 1), mean, seconds=after))
    last = EVERY * len(means)
    if failure is None and ending is Ending.COMPLETED:
        events.append(evaluated(last, *returns, final=True))
    if failure is not None or ending is not None:
        events.append(ended(last, ending or Ending.COMPLETED, failure))
    record = RunRecord.fold(run_spec(configuration, seed), [events], alive=ending is None)
    return member(record, configuration)
