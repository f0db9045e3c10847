"""A sweep as its folder tells it, ready to go on."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

from rlexp.app.reading.survey import DAMAGE, read_intact
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.engine.objectives import Objectives
from rlexp.engine.progress import Proposal
from rlexp.engine.search import Question, Search
from rlexp.engine.sweeping import Ledger, Stage, Sweeping
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.exchange.database import Database
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord
from rlexp.records.selection import Selection
from rlexp.store.file_systems import is_shared
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import StoredRun
from rlexp.store.sweeps import StoredTrial, read_selection, read_trials
from rlexp.tuners import Problem, Suggester, Suggestion, Tuner

FINITE = "grid"
"""The tuner whose suggestions come to an end, and that needs no trial to say so."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A ledger that takes nothing: of a sweep that is only looked at."""

    def configure(self, number: int, suggestion: Suggestion) -> tuple[Configuration | None, str]:
        """Refuse."""
        raise ProtocolError(f"trial {number} is not proposed by looking at a sweep: {suggestion}")

    def propose(self, proposal: Proposal, _: Configuration | None) -> None:
        """Refuse."""
        raise ProtocolError(f"looking at a sweep proposes no trial {proposal.number}")

    def choose(self, selection: Selection) -> None:
        """Refuse."""
        raise ProtocolError(f"looking at a sweep chooses no trial {selection.winner}")


def check_parts(experiment: Experiment, storage: str | None, workspace: Workspace) -> None:
    """Refuse parts that cannot do what they are asked to, before anything is written.

    Args:
        experiment: The question.
        storage: URL of the Optuna study that the sweep is mirrored to, if one is given.
        workspace: Whose packages may be imported.

    Raises:
        ConfigError: A setting of the tuner or pruner is wrong, the tuner cannot solve the
            problem, the URL is none, or that of a SQLite file that several machines see.
    """
    sweep = experiment.sweep
    assert sweep is not None
    _tuner(experiment, workspace).open(_problem(experiment))
    build(sweep.pruner, "pruner", workspace.allowed)
    if storage is not None:
        _check_shared(Database(storage))


def _check_shared(database: Database) -> None:
    """Refuse a SQLite file where several machines see it: its locks may not reach the others."""
    file = database.file
    if file is not None and is_shared(file):
        raise ConfigError(
            f"sweep.storage: {file} is in a folder that several machines see, where SQLite files "
            "get damaged: leave it out for a journal file in the sweep's folder, or give a "
            "database server or a file on a local disk"
        )


def read_runs(paths: ExperimentPaths) -> list[StoredRun]:
    """The runs in a sweep's folder; one that is damaged, or another's copy, counts as not made."""
    found = []
    for run in paths.runs():
        with suppress(RlexpError, *DAMAGE):
            found.append(read_intact(run))
    return found


def resume(
    paths: ExperimentPaths,
    experiment: Experiment,
    runs: Iterable[StoredRun],
    workspace: Workspace,
    ledger: Ledger,
    *,
    until: Stage = Stage.TEST,
    retry: bool = False,
    default: Mapping[str, Any] | None = None,
    hours: Callable[[], float] | None = None,
    around: Callable[[Suggester], Suggester] = lambda suggester: suggester,
) -> Sweeping:
    """A sweep with everything that its folder holds.

    Args:
        paths: Its folder.
        experiment: The question.
        runs: What `read_runs` found.
        workspace: Whose packages may be imported.
        ledger: Where decisions are written down.
        until: The last stage to work on.
        retry: Whether final failures are tried again.
        default: The values of the parameters in the default configuration, before it is a trial.
        hours: Wall-clock that the search has taken; by default, what its runs took.
        around: Wraps the tuner, to watch it.

    Raises:
        RecordError: A file is damaged.
        ConfigError: The tuner cannot solve the problem.
    """
    suggester = _tuner(experiment, workspace).open(_problem(experiment))
    sweep = experiment.sweep
    assert sweep is not None
    pruner = build(sweep.pruner, "pruner", workspace.allowed)
    trials = read_trials(paths)
    question = question_of(experiment, trials[0].parameters if trials else default or {})
    one_by_one = sweep.plan.allocation == "racing" or short_name(sweep.pruner) != "none"
    search = Search(question, around(suggester), pruner, one_by_one)
    stored = list(runs)
    records = {s.record.spec.id: s.record for s in stored if not s.record.may_run(retry=retry)}
    taken = search_hours(s.record for s in stored) if hours is None else 0.0
    clock = hours or (lambda: taken)
    sweeping = Sweeping(search, experiment.seeds, ledger, clock, records=records, until=until)
    sweeping.resume([(proposal_of(t), t.configuration) for t in trials])
    if trials and short_name(sweep.tuner) == FINITE:
        # It is over when it has nothing left to suggest, which no record says.
        search.exhausted = suggester.suggest([], len(trials)) is None
    sweeping.selection = read_selection(paths)
    return sweeping


def question_of(experiment: Experiment, parameters: Mapping[str, Any]) -> Question:
    """What the search of an experiment is about, in numbers."""
    sweep, default = experiment.sweep, experiment.default
    if sweep is None:
        raise RecordError(f"{experiment.name} is no sweep; 'rlexp run' makes its runs")
    return Question(
        plan=sweep.plan,
        seeds=len(experiment.seeds.seeds(Phase.TUNING)),
        steps=default.budget.steps,
        every=default.budget.evaluation_every,
        objectives=Objectives(
            names=sweep.plan.objectives,
            aggregate=sweep.plan.aggregate,
            threshold=default.reference.get("threshold"),
        ),
        default=parameters,
    )


def proposal_of(trial: StoredTrial) -> Proposal:
    """A trial as the search takes it up again."""
    return Proposal(
        number=trial.number,
        parameters=trial.parameters,
        steps=trial.steps,
        refused=trial.refused if trial.configuration is None else None,
        parent=trial.parent,
    )


def search_hours(records: Iterable[RunRecord]) -> float:
    """Hours in which at least one tuning run was under way."""
    spans = sorted(
        (r.started, r.ended)
        for r in records
        if r.spec.phase is Phase.TUNING and r.started is not None and r.ended is not None
    )
    total, until = 0.0, -inf
    for start, end in spans:
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total / 3600


def _tuner(experiment: Experiment, workspace: Workspace) -> Tuner:
    assert experiment.sweep is not None
    tuner: Tuner = build(experiment.sweep.tuner, "tuner", workspace.allowed)
    return tuner


def _problem(experiment: Experiment) -> Problem:
    sweep = experiment.sweep
    if sweep is None:
        raise RecordError(f"{experiment.name} is no sweep; 'rlexp run' makes its runs")
    return Problem(
        space=sweep.space,
        objectives=len(sweep.plan.objectives),
        steps=experiment.default.budget.steps,
        seed=experiment.seeds.root,
    )
