"""`rlexp compare --adaptive`: adds test seeds in groups until every pair is decided."""

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from signal import Signals
from typing import ClassVar

from rlexp.app.commands.judge.sequential_launch import SequentialLaunch, execution_overrides
from rlexp.app.comparison.sequential import (
    FAMILY,
    GROUP,
    INTERIMS,
    DesignFile,
    FrozenDesign,
    InterimAnalysis,
    PairDecision,
    analyse,
    freeze_design,
    make_design,
    read_matching_design,
    restart_design,
    warnings_of_restart,
)
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reporting.evidence import collect_evidence, read_target
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import parse_overrides
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ablations import refuse_ablation
from rlexp.store.registers.streams import refuse_stream
from rlexp.store.runs import read_experiment
from rlexp.text import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRequest:
    """A request for a sequential comparison.

    Attributes:
        targets: Labels of one experiment, or the experiment.
        group: Number of new seeds per label at each interim analysis.
        interims: Maximum number of interim analyses.
        family: The procedure that controls the family-wise error rate: `holm`, `bonferroni` or
            `maxt`.
        dry_run: Whether to return the runs of the next interim analysis and start nothing.
        restart: Whether to replace a frozen design by this one.
        overrides: Changed settings of `conf/report.yaml`, and of executor and trackers.
        command: The command as the user typed it.
        probe: Whether to measure what runs cost before the first one starts; None measures plans
            that seem to take a minute or longer.
    """

    targets: tuple[str, ...]
    group: int = GROUP
    interims: int = INTERIMS
    family: str = FAMILY
    dry_run: bool = False
    restart: bool = False
    overrides: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    probe: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveComparison:
    """The state of a sequential comparison.

    Attributes:
        experiment: The name of the experiment.
        design: The design, which was frozen before the first interim analysis.
        looks: Number of interim analyses so far.
        finished: Whether every pair is decided, or the last interim analysis was made.
        pairs: The decision on every pair.
        runs: Number of runs that the interim analyses used.
        trained: Number of runs that were started.
        fixed_design: Number of runs that the design needs if nothing is decided early.
        saved: Number of runs of the fixed design that need not be trained.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("adaptive-comparison")

    experiment: str
    design: FrozenDesign
    looks: int
    finished: bool
    pairs: tuple[PairDecision, ...]
    runs: int
    trained: int
    fixed_design: int
    saved: int
    interrupted: str | None
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextLook:
    """The runs that the next interim analysis of a sequential comparison needs.

    Attributes:
        experiment: The name of the experiment.
        look: The number of the interim analysis, from 1; null if the present scores are sufficient.
        looks: Maximum number of interim analyses.
        wanted: Labels that need a further group of seeds.
        plan: The plan of the missing runs; null if no run is missing.
        most_runs: Maximum number of runs that the design needs.
    """

    schema: ClassVar[Schema] = Schema("next-look")

    experiment: str
    look: int | None
    looks: int
    wanted: tuple[str, ...]
    plan: RunPlan | None
    most_runs: int


def compare_adaptively(
    request: AdaptiveRequest, workspace: Workspace, observer: Observer
) -> AdaptiveComparison | NextLook:
    """Launch further test seeds in groups until every pair is decided.

    Raises:
        RlexpError: The targets, the design or the records do not allow a sequential comparison;
            nothing was started.
    """
    workspace.make_allowed_importable()
    # Only the settings are needed: without sections, none of their classes is imported.
    of_execution = _overrides_of_execution(request)
    of_report = [word for word in request.overrides if word not in of_execution]
    settings = read_report(
        ["section=[]", *of_report], workspace.folder, workspace.allowed
    ).settings
    paths = workspace.experiment(_experiment(request))
    experiment = read_experiment(paths)
    refuse_imported(experiment)
    refuse_stream(paths)
    refuse_older(experiment)
    refuse_ablation(paths)
    _check_seeds(experiment)
    check_imports(experiment.configurations, workspace.allowed, request.command)
    evidence = collect_evidence(request.targets, Phase.TEST, workspace)
    _refuse_registered(evidence)
    design = make_design(evidence, settings, request.group, request.interims, request.family)
    if request.dry_run:
        return _dry_run(design, paths, request, workspace, observer)
    if not request.restart:
        read_matching_design(paths, design)
    launch = _launch(paths, design, request, workspace, observer)
    # Runs that cannot start are refused before the design is frozen.
    looked = analyse(design, evidence)
    if not looked.finished:
        launch.check_scores(looked, evidence)
        launch.prepare(*launch.plan(looked, evidence, experiment))
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        scores = sum(member.score is not None for member in evidence.members)
        ledger = (restart_design if request.restart else freeze_design)(paths, design, scores)
        # A command that was killed may have left ended attempts without a ledger line.
        LedgerWriter(paths).enter_late()
        for text in _warnings(ledger, design):
            observer.note(f"Warning: {text}")
        looked, evidence, interrupted = launch.until_decided()
        return _comparison(looked, design, evidence, interrupted, request)


def _launch(
    paths: ExperimentPaths,
    design: FrozenDesign,
    request: AdaptiveRequest,
    workspace: Workspace,
    observer: Observer,
) -> SequentialLaunch:
    return SequentialLaunch(
        paths=paths,
        design=design,
        execution=_overrides_of_execution(request),
        command=request.command,
        continuing=("rlexp", "resume", paths.name),
        probe=request.probe,
        workspace=workspace,
        observer=observer,
    )


def _warnings(ledger: DesignFile, design: FrozenDesign) -> Iterator[str]:
    yield from warnings_of_restart(ledger)
    if ledger.scores:
        yield (
            f"{format_count(ledger.scores, 'score')} existed when the design was frozen: if the design "
            "was chosen by these scores, or because they left a pair undecided, the family-wise "
            f"error rate is above {design.alpha:g}"
        )


def _dry_run(
    design: FrozenDesign,
    paths: ExperimentPaths,
    request: AdaptiveRequest,
    workspace: Workspace,
    observer: Observer,
) -> AdaptiveComparison | NextLook:
    """The runs of the next interim analysis, or the decisions of a finished, frozen design."""
    evidence = collect_evidence([paths.name], Phase.TEST, workspace)
    looked = analyse(design, evidence)
    frozen = None if request.restart else read_matching_design(paths, design)
    if looked.finished and frozen is not None:
        return _comparison(looked, design, evidence, None, request)
    if looked.finished:
        # The decisions stay hidden: otherwise a user could try designs until one of them decides.
        return _next_look(paths, design, None, None, ())
    launching = _launch(paths, design, request, workspace, observer)
    planned = launching.next_plan(looked, evidence)
    return _next_look(paths, design, looked.looks + 1, planned, looked.wanted)


def _next_look(
    paths: ExperimentPaths,
    design: FrozenDesign,
    look: int | None,
    plan: RunPlan | None,
    labels: tuple[str, ...],
) -> NextLook:
    return NextLook(
        experiment=paths.name,
        look=look,
        looks=design.interims,
        wanted=labels,
        plan=plan,
        most_runs=design.most_runs,
    )


def _comparison(
    looked: InterimAnalysis,
    design: FrozenDesign,
    evidence: Evidence,
    interrupted: Signals | None,
    request: AdaptiveRequest,
) -> AdaptiveComparison:
    members = [m for m in evidence.members if m.label in design.labels]
    trained = sum(m.record.attempts > 0 for m in members)
    name = evidence.experiments[0].name
    following = (
        NextCommand(why="see all numbers", command=shlex.join(["rlexp", "compare", name]))
        if looked.finished
        else NextCommand(why="continue", command=shlex.join(request.command))
    )
    return AdaptiveComparison(
        experiment=name,
        design=design,
        looks=looked.looks,
        finished=looked.finished,
        pairs=looked.pairs,
        runs=looked.runs,
        trained=trained,
        fixed_design=design.most_runs,
        saved=max(design.most_runs - trained, 0),
        interrupted=interrupted.name if interrupted else None,
        next=(following,),
    )


def _overrides_of_execution(request: AdaptiveRequest) -> tuple[str, ...]:
    """The overrides that say how runs are executed: those of executor and trackers."""
    keys = [parsed.key_or_group for parsed in parse_overrides(request.overrides)]
    return execution_overrides(request.overrides, keys)


def _experiment(request: AdaptiveRequest) -> str:
    names = {read_target(text).experiment for text in request.targets}
    if len(names) > 1:
        raise ConfigError(
            "--adaptive adds runs to one experiment, so all labels must belong to it; the targets "
            f"name {', '.join(sorted(names))}",
        )
    return names.pop()


def _refuse_registered(evidence: Evidence) -> None:
    # A changed register may hide the registration of this experiment.
    for problem in evidence.protocols.problems:
        raise RecordError(f"--adaptive adds seeds, which a protocol may forbid: {problem}")
    for registered in evidence.protocols.experiments:
        seeds = len(registered.registration.study.test_seeds)
        raise ConfigError(
            f"--adaptive adds seeds, and {registered.experiment} is a registered protocol with "
            f"{seeds} seeds: compare without --adaptive: rlexp compare {registered.experiment}"
        )


def _check_seeds(experiment: Experiment) -> None:
    if experiment.extends is not None:
        raise ConfigError(
            f"--adaptive adds seeds, and {experiment.name} has only runs that extend others: compare "
            "without --adaptive, or add seeds to its parent and extend it again"
        )
    if not isinstance(experiment.seeds.test, int):
        raise ConfigError(
            f"--adaptive needs a number of test seeds, and {experiment.name} has a list of them: "
            "start another experiment with seeds.test=N",
        )
