"""Where a sweep stands, for people who watch it."""

from collections.abc import Iterator, Mapping
from math import ceil, inf

from rlexp.console.sweep import SweepView, TrialLine
from rlexp.engine.progress import Progress, steps_of
from rlexp.engine.sweeping import Stage, Sweeping
from rlexp.engine.systematic import why_failed
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import SweepPlan
from rlexp.records.trial import TrialState


def view_of(sweeping: Sweeping, spent: Mapping[str, int], workers: int) -> SweepView:
    """Where a sweep stands.

    Args:
        sweeping: The sweep.
        spent: Environment steps of every run so far, by id; those of runs under way included.
        workers: Runs at a time.
    """
    search = sweeping.search
    ranked = sweeping.ranked()
    lines = tuple(trial_lines(sweeping))
    scored = [line for line in lines if line.best]
    best = (ranked[0].number, ranked[0].values[0]) if ranked else None
    if best is None and scored and scored[-1].value is not None:
        best = (scored[-1].number, scored[-1].value)
    return SweepView(
        stage=sweeping.stage,
        trials=search.question.plan.trials,
        ended=lines,
        running=len(search.entries) - len(lines),
        best=best,
        runs=sweeping.stage_runs(),
        steps=sum(spent.values()),
        limits=limits_in_words(search.question.plan, search.full_runs),
        left=_left(sweeping, workers),
    )


def trial_lines(sweeping: Sweeping) -> Iterator[TrialLine]:
    """The trials that have ended, in the order of their numbers."""
    objectives, best = sweeping.search.question.objectives, -inf
    for entry in sweeping.search.entries:
        trial = entry.trial
        if trial is None:
            continue
        complete = trial.state is TrialState.COMPLETE
        full = entry.proposal.steps == sweeping.search.question.steps
        leads = complete and full and trial.values[0] > best
        best = trial.values[0] if leads else best
        yield TrialLine(
            number=trial.number,
            state=str(trial.state),
            value=objectives.oriented(trial.values)[0] if complete else None,
            seeds=len(trial.scores),
            reason=reason_of(entry),
            best=leads,
        )


def reason_of(entry: Progress) -> str | None:
    """Why a trial was given up or failed."""
    if entry.stop is not None:
        return f"at step {entry.stop.step:,}, {entry.stop.reason}"
    failed = entry.trial is not None and entry.trial.state is TrialState.FAILED
    return why_failed(entry) if failed else None


def limits_in_words(plan: SweepPlan, full_runs: float) -> str:
    """What limits a search besides the number of its trials."""
    told = []
    if plan.full_runs is not None:
        told.append(f"{full_runs:.3g} of {plan.full_runs:g} full runs")
    if plan.steps is not None:
        told.append(f"at most {plan.steps:,} steps of search")
    if plan.hours is not None:
        told.append(f"at most {plan.hours:g} h of search")
    return ", ".join(told)


def _left(sweeping: Sweeping, workers: int) -> float | None:
    """Seconds that everything is expected to take, by the speed so far."""
    done = [r for r in sweeping.records.values() if r.seconds_spent and r.spent]
    if not done or sweeping.stage is Stage.DONE:
        return None
    speed = sum(r.seconds_spent for r in done) / sum(r.spent for r in done)
    return remaining_steps(sweeping) * speed / workers


def remaining_steps(sweeping: Sweeping) -> int:
    """Environment steps that are still to come at most, by the plan."""
    question = sweeping.search.question
    screening, steps, plan = question.screening, question.steps, question.plan
    selection = plan.finalists * len(sweeping.seeds.seeds(Phase.SELECTION))
    tests = 2 * len(sweeping.seeds.seeds(Phase.TEST)) if sweeping.until is Stage.TEST else 0
    if sweeping.selection is None:
        going_on = ceil(_trials(sweeping) * plan.promoted) * (question.seeds - screening)
        runs = max(going_on + selection + tests - _over(sweeping, Phase.SELECTION), 0)
        return _to_search(sweeping) + runs * steps
    return max(tests - _over(sweeping, Phase.TEST), 0) * steps


def _trials(sweeping: Sweeping) -> int:
    """Trials of the search at most, taking those to come at the full budget."""
    plan = sweeping.search.question.plan
    left = inf if plan.full_runs is None else plan.full_runs - sweeping.search.full_runs
    return min(plan.trials, ceil(len(sweeping.search.entries) + min(left, plan.trials)))


def _to_search(sweeping: Sweeping) -> int:
    """Environment steps of the trials to come, and of those under way, at most."""
    search, question = sweeping.search, sweeping.search.question
    ended = [e for e in search.entries if e.trial is not None]
    planned = (_trials(sweeping) - len(ended)) * question.steps * question.screening
    if question.plan.steps is None:
        return max(planned, 0)
    return max(min(planned, question.plan.steps - sum(map(steps_of, ended))), 0)


def _over(sweeping: Sweeping, phase: Phase) -> int:
    return sum(1 for record in sweeping.records.values() if record.spec.phase is phase)
