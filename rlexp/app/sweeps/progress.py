"""The progress of a sweep: its live view, its mirror in an Optuna study, and remaining steps."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import cycle, islice
from math import ceil, inf, isfinite
from pathlib import Path
from typing import Any

from rlexp.app.observer import Observer
from rlexp.app.sweeps.mirrored import metric_names, mirrored_sweep
from rlexp.engine.failure_streak import systematic_failure, trial_reason
from rlexp.engine.front_choice import reference_point, searched_merits
from rlexp.engine.objectives import Objectives
from rlexp.engine.run_in_flight import RunInFlight, Watcher
from rlexp.engine.search import SearchProblem, promotions
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.engine.sweep_view import EndedTrial, FrontStatus, SweepView
from rlexp.engine.trial_state import TrialProgress, steps_of
from rlexp.exchange.background import BackgroundMirror
from rlexp.exchange.database import Database
from rlexp.exchange.optuna_study import OptunaStudyMirror
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import SweepPlan, directions
from rlexp.protocol.units import ENVIRONMENT_STEPS
from rlexp.protocol.value_schedule import whole_values
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState
from rlexp.stats.pareto import hypervolume
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths
from rlexp.text import format_score


@dataclass(slots=True)
class SweepMonitor:
    """Receives the progress of a sweep and passes it to the live view and the Optuna mirror.

    Attributes:
        sweeping: The sweep.
        mirror: The mirror in an Optuna study, if one is used.
        workers: Runs at a time.
        spent: Environment steps of ended attempts, by run.
        name: The name of the experiment.
    """

    sweeping: SweepSource
    mirror: BackgroundMirror | None
    workers: int
    spent: dict[str, int]
    name: str
    _under_way: dict[str, int] = field(default_factory=dict)
    _state: tuple[int, int, int] = (-1, -1, -1)

    @contextmanager
    def watch(self, observer: Observer) -> Iterator[Watcher]:
        """Yield a watcher that receives the progress of the loop."""
        with observer.watch_sweep(self.view) as watcher:
            yield _BothWatchers(self, watcher)

    def view(self) -> SweepView:
        """The current progress of the sweep."""
        # Later sources are more exact: ended attempts, then running ones, then runs that are over.
        over = {key: record.spent for key, record in self.sweeping.records.items()}
        spent = {**self.spent, **self._under_way, **over}
        return make_view(self.sweeping, spent, self.workers)

    def saw(self, running: Sequence[RunInFlight]) -> None:
        """Store the steps of the running runs, and pass new trials to the mirror."""
        self._under_way = {
            run.spec.id: self.spent.get(run.spec.id, 0) + run.step for run in running
        }
        entries = self.sweeping.search.entries
        ended = sum(1 for e in entries if e.trial is not None)
        # After the search, single runs decide what the mirror shows.
        runs = len(self.sweeping.records) if ended == len(entries) else -1
        state = (len(entries), ended, runs)
        # Building the list takes time and this is called several times a second, so it is built
        # only after a trial was added or has ended, or a run has ended after the search.
        if self.mirror is not None and state != self._state:
            self._state = state
            self._offer(self.mirror)

    def _offer(self, mirror: BackgroundMirror) -> None:
        sweep = mirrored_sweep(self.sweeping, self.name)
        mirror.offer(sweep.trials, sweep.attributes, sweep.notes)

    def close(self, observer: Observer) -> None:
        """Give the mirror some seconds for the last trials; the next command writes the rest."""
        if self.mirror is None:
            return
        self._offer(self.mirror)
        if problem := self.mirror.close():
            observer.note(f"Warning: {problem}")


def open_mirror(
    paths: ExperimentPaths, experiment: Experiment, storage: str | None, observer: Observer
) -> BackgroundMirror:
    """Open the mirror of a sweep, and warn before any training if it does not respond.

    Raises:
        ConfigError: The URL is invalid or of an unknown kind, or its driver is not installed.
    """
    sweep = experiment.sweep
    assert sweep is not None
    mirror = BackgroundMirror(
        OptunaStudyMirror(
            storage,
            journal=paths.mirror,
            # A renamed sweep keeps its study: another name would be another study.
            name=names_of(paths)[0],
            space=sweep.space,
            directions=directions(sweep.plan.objectives, experiment.minimised),
            owner=experiment.fingerprint,
            metric_names=metric_names(sweep),
        )
    )
    if problem := mirror.check():
        observer.note(f"Warning: {problem}")
    return mirror


def note_dashboard(
    paths: ExperimentPaths, storage: str | None, folder: Path, observer: Observer
) -> None:
    """Name the command of Optuna's dashboard that shows the mirror, where it is installed.

    Args:
        paths: The sweep.
        storage: URL of the database of the mirror; None: the journal file of the sweep.
        folder: The folder in which the command is pasted.
        observer: Receives the command.
    """
    if find_spec("optuna_dashboard") is None:
        return
    if storage is None:
        journal = paths.mirror
        shown_path = journal.relative_to(folder) if journal.is_relative_to(folder) else journal
        observer.note(f"optuna: {shlex.join(['optuna-dashboard', str(shown_path)])}")
    elif not Database(storage).secrets:
        # A command without its password would not work, and one with it must not be printed.
        observer.note(f"optuna: {shlex.join(['optuna-dashboard', storage])}")


@dataclass(slots=True)
class _BothWatchers:
    """Passes progress to the sweep's monitor and to the observer's watcher."""

    monitor: SweepMonitor
    watcher: Watcher

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Pass on the running runs."""
        self.monitor.saw(running)
        self.watcher.update(running, waiting)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Pass on the end of an attempt."""
        self.monitor.spent[record.spec.id] = record.spent
        self.watcher.ended(record, again=again)


def make_view(sweeping: SweepSource, spent: Mapping[str, int], workers: int) -> SweepView:
    """The progress of a sweep, for display.

    Args:
        sweeping: The sweep.
        spent: Environment steps of every run so far, by id, including the running ones.
        workers: Runs at a time.
    """
    search = sweeping.search
    ranked = sweeping.ranked()
    lines = tuple(trial_lines(sweeping))
    searching = sweeping.stage is SweepStage.SEARCH
    scored = [line for line in lines if line.best]
    best = (ranked[0].number, ranked[0].values[0]) if ranked else None
    if best is None and scored and scored[-1].value is not None:
        best = (scored[-1].number, scored[-1].value)
    winner = None if sweeping.selection is None else sweeping.selection.winner
    bound = None if search.regret_bound is None else search.regret_bound.gain
    shown = winner if winner is not None or best is None else best[0]
    return SweepView(
        stage=sweeping.stage,
        trials=max(len(search.entries), search.question.plan.trials * searching),
        ended=lines,
        running=len(search.entries) - len(lines),
        best=best,
        runs=sweeping.stage_runs(),
        steps=sum(spent.values()),
        unit=next(
            (c.unit for each in sweeping.configurations.values() for c in each), ENVIRONMENT_STEPS
        ),
        limits=describe_limits(search.question.plan, search.full_runs, bound)
        or (_generation(sweeping) if searching else ""),
        left=_left(sweeping, workers),
        winner=winner,
        parameters=None if shown is None else _whole_values(sweeping, shown),
        regret_bound=bound,
        front=front_status(sweeping),
    )


def front_status(sweeping: SweepSource) -> FrontStatus | None:
    """The front of a sweep; None with one objective, and before the first complete trial."""
    question, entries = sweeping.search.question, sweeping.search.entries
    chosen = None if sweeping.selection is None else sweeping.selection.front
    reference = reference_point(entries, question, chosen) if question.has_front else None
    if reference is None:
        return None
    objectives, (point, _) = question.objectives, reference
    candidates = [] if chosen is not None else sweeping.finalists()
    values = [merits for merits in searched_merits(entries, question) if merits is not None]
    volume = hypervolume(values, point)
    return FrontStatus(
        objectives=objectives.names,
        trials=tuple(sorted(c.number for c in candidates)) if chosen is None else chosen.numbers,
        reference=objectives.oriented(point),
        hypervolume=volume if isfinite(volume) else None,
        frozen=chosen is not None,
    )


def _whole_values(sweeping: SweepSource, number: int) -> Mapping[str, Any]:
    """The searched values of a trial, with the schedules of a population."""
    parameters = sweeping.search.entries[number].proposal.parameters
    # A population is on one task, so that its schedules are those of the first configuration.
    configuration = next(iter(sweeping.configurations.get(number, ())), None)
    return parameters if configuration is None else whole_values(configuration.parts(), parameters)


def _generation(sweeping: SweepSource) -> str:
    """The generation of a population that is trained now; empty in other sweeps."""
    search = sweeping.search
    unfinished = [e.proposal.number for e in search.entries if e.trial is None]
    stage = search.place(min(unfinished)) if unfinished else None
    return "" if stage is None else stage.rpartition(", ")[0] or "fixed configurations"


def trial_lines(sweeping: SweepSource) -> Iterator[EndedTrial]:
    """Yield the trials that have ended, in the order of their numbers."""
    objectives, best = sweeping.search.question.objectives, -inf
    promoted = {candidate.number: candidate for candidate in sweeping.ranked()}
    for entry in sweeping.search.entries:
        trial = entry.trial
        if trial is None:
            continue
        complete = trial.state is TrialState.COMPLETE
        full = entry.proposal.steps == sweeping.search.question.steps
        leads = complete and full and trial.values[0] > best
        best = trial.values[0] if leads else best
        # The values of a trial are those of its screening; a candidate has values on all seeds.
        candidate = promoted.get(trial.number)
        screening = objectives.oriented(trial.values) if complete else (None,)
        scores = candidate.scores if candidate else _screened_scores(entry, objectives)
        yield EndedTrial(
            number=trial.number,
            state=str(trial.state),
            value=candidate.values[0] if candidate else screening[0],
            seeds=len(scores),
            scores=scores,
            parameters=entry.proposal.parameters,
            reason=trial_reason(entry),
            best=leads,
            imported=sweeping.search.recorded,
            origin=entry.proposal.origin,
            tasks=_tasks(sweeping.search.question, whole=candidate is not None),
            place=sweeping.search.place(trial.number),
            others=_others(objectives, candidate.values if candidate else screening),
        )


def _others(objectives: Objectives, values: Sequence[float | None]) -> dict[str, float]:
    """The values of the objectives after the first, by name."""
    pairs = list(zip(objectives.names, values, strict=False))[1:]
    return {name: value for name, value in pairs if value is not None}


def _screened_scores(entry: TrialProgress, objectives: Objectives) -> tuple[float, ...]:
    """The scores of a trial that is not on all seeds; on several tasks, one for each seed."""
    if objectives.tasks:
        return objectives.seed_scores(entry.judged_runs())
    return () if entry.trial is None else entry.trial.scores


def _tasks(question: SearchProblem, *, whole: bool) -> int | None:
    """Number of tasks on which a trial was scored; None in a sweep on one task."""
    if not question.objectives.tasks:
        return None
    return question.tasks if whole else min(question.screening, question.tasks)


def describe_limits(plan: SweepPlan, full_runs: float, bound: float | None) -> str:
    """The limits of a search other than its number of trials, as text.

    Args:
        plan: The plan of the sweep.
        full_runs: Full-run equivalents so far.
        bound: What more trials could gain at most; None where it is not known.
    """
    limits = []
    if plan.full_runs is not None:
        limits.append(f"{full_runs:.3g} of {plan.full_runs:g} full runs")
    if plan.steps is not None:
        limits.append(f"at most {plan.steps:,} steps of search")
    if plan.hours is not None:
        limits.append(f"at most {plan.hours:g} h of search")
    if plan.stop_at_regret is not None:
        gain = "" if bound is None else f"more trials gain at most {format_score(bound)}, "
        limits.append(f"{gain}stops at {format_score(plan.stop_at_regret)}")
    return ", ".join(limits)


def _left(sweeping: SweepSource, workers: int) -> float | None:
    """Expected remaining seconds at the average speed so far, or None where it is unknown."""
    done = [r for r in sweeping.records.values() if r.seconds_spent and r.spent]
    if not done or not (steps := remaining_steps(sweeping)):
        return None
    # A ratio of sums weights every step equally; short trials would dominate a mean of speeds.
    speed = sum(r.seconds_spent for r in done) / sum(r.spent for r in done)
    return steps * speed / workers


def remaining_steps(sweeping: SweepSource) -> int:
    """The largest number of environment steps that the plan may still need."""
    over, planned = sweeping.stage_runs()
    steps, missing = sweeping.search.question.steps, planned - over
    tasks = sweeping.search.question.tasks
    tests = _tests_at_most(sweeping)
    # Each finalist runs on every selection seed and task.
    again = tasks * len(sweeping.seeds.seeds(Phase.SELECTION))
    match sweeping.stage:
        case SweepStage.SEARCH:
            promoted, finalists = count_promotions(sweeping)
            chosen = finalists * again
            return _search_steps(sweeping, promoted) + (chosen + tests) * steps
        case SweepStage.PROMOTION:
            chosen = count_promotions(sweeping)[1] * again
            return (missing + chosen + tests) * steps
        case SweepStage.SELECTION:
            return (missing + tests) * steps if sweeping.ranked() else 0
        case _:
            return missing * steps


def _tests_at_most(sweeping: SweepSource) -> int:
    """The largest number of test runs: of the winner or the front, the default, and a population's rival."""
    if sweeping.until is not SweepStage.TEST:
        return 0
    selection = sweeping.selection
    rivals = sweeping.search.in_generations
    best = count_promotions(sweeping)[1] if sweeping.search.question.has_front else 1
    trials = 1 + best + rivals if selection is None else len(selection.tested)
    return trials * sweeping.search.question.tasks * len(sweeping.seeds.seeds(Phase.TEST))


def population_runs(sweeping: SweepSource) -> int | None:
    """The largest number of runs that a population may still need, most of them parts of a training.

    None in other searches, and once the search is over: all further runs are whole ones then.
    """
    search, question = sweeping.search, sweeping.search.question
    if not search.in_generations or sweeping.stage is not SweepStage.SEARCH:
        return None
    promoted, finalists = count_promotions(sweeping)
    going_on = sum(entry.trial is None for entry in search.entries)
    trials = question.plan.trials - len(search.entries) + going_on
    further = promoted * (question.runs - question.screening)
    chosen = finalists * len(sweeping.seeds.seeds(Phase.SELECTION))
    return trials * question.screening + further + chosen + _tests_at_most(sweeping)


def remaining_runs(sweeping: SweepSource) -> int:
    """The number of runs at the full budget that take the remaining steps."""
    return ceil(remaining_steps(sweeping) / sweeping.search.question.steps)


def expected_runs(defaults: Sequence[Configuration], sweeping: SweepSource) -> list[RunSpec]:
    """Runs of the default configuration in place of the remaining ones, at least one on each task.

    Screening runs come first: they may have fewer final episodes.
    """
    question, seeds = sweeping.search.question, sweeping.seeds
    every, screened = max(remaining_runs(sweeping), len(defaults)), 0
    if sweeping.stage is SweepStage.SEARCH:
        screened = min(ceil(_search_steps(sweeping, 0) / question.steps), every)
    # Screening is on the first tasks; further runs are equally many on every task.
    on_first = defaults[: question.screening]
    first = [d.tuning_spec(question.plan, seeds, seeds.seeds(Phase.TUNING)[0]) for d in on_first]
    full = [default.spec(Phase.TUNING, seeds.root, 0) for default in defaults]
    return [*islice(cycle(first), screened), *islice(cycle(full), every - screened)]


def count_promotions(sweeping: SweepSource) -> tuple[int, int]:
    """The largest numbers of trials promoted to all tuning seeds, and to selection seeds."""
    question, trials = sweeping.search.question, _trials_at_most(sweeping)
    screened = sum(map(sweeping.search.planned_steps, range(trials))) * question.screening
    promoted = promotions(question, screened)
    staged = question.screening < question.runs
    best = min(question.plan.finalists, promoted if staged else trials)
    # In a population, the best schedule and the best fixed configuration are among them.
    rival = int(sweeping.search.in_generations)
    return promoted + rival * (promoted > 0), best + rival


def _trials_at_most(sweeping: SweepSource) -> int:
    """The largest number of trials at the full budget, including ended trials."""
    search, plan = sweeping.search, sweeping.search.question.plan
    if search.is_full(sweeping.hours()):
        return len(search.entries)
    return plan.trials if plan.full_runs is None else min(plan.trials, ceil(plan.full_runs))


def _search_steps(sweeping: SweepSource, promoted: int) -> int:
    """The largest number of steps that the search may still need, for trials and promotions."""
    search, question = sweeping.search, sweeping.search.question
    plan, steps, screening = question.plan, question.steps, question.screening
    under_way = sum(e.proposal.planned(screening) for e in search.entries if e.trial is None)
    new = 0
    if not search.is_full(sweeping.hours()):
        new = sum(map(search.planned_steps, range(len(search.entries), plan.trials)))
        if plan.full_runs is not None:
            new = min(new, ceil(plan.full_runs - search.full_runs) * steps)
    total = under_way + new * screening + promoted * (question.runs - screening) * steps
    if plan.steps is None:
        return total
    return min(total, max(plan.steps - sum(map(steps_of, search.entries)), 0))


def why_stopped(sweeping: SweepSource) -> str | None:
    """Why a sweep without a winner cannot choose one as things are, or None if it can."""
    if sweeping.selection is not None or sweeping.search.recorded:
        return None
    if (reason := systematic_failure(sweeping.search)) is not None:
        return reason
    if sweeping.stage is SweepStage.SELECTION and not sweeping.ranked():
        return "no trial has a score on every tuning seed at the full budget"
    return None
