"""`rlexp ablate`: which of the changes between two configurations did it."""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import ClassVar

from rlexp.app.commands.judge.ablate_commits import (
    CommitSource,
    CommitTraining,
    pinned,
    read_commit_source,
)
from rlexp.app.commands.judge.ablate_source import (
    AblationSource,
    AblationWords,
    OrderedChanges,
    importance_order,
    read_source,
    read_words,
)
from rlexp.app.commands.judge.sequential_launch import SequentialLaunch, execution_overrides
from rlexp.app.comparison.sequential import (
    FAMILY,
    GROUP,
    DesignFile,
    FrozenDesign,
    InterimAnalysis,
    analyse,
    check_decidable,
    freeze_design,
    read_matching_design,
    restart_design,
    warnings_of_restart,
)
from rlexp.app.execution.ablation_plan import (
    MOST_EACH,
    AblationPlan,
    plan_each,
    plan_path,
    with_command,
)
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.request import require_minimum
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reproduction.commit_range import OPTION
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.streams.training import Checkouts, StreamTraining, executor_of, open_checkouts
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.report_settings import read_report
from rlexp.config.validate import validate
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Remote
from rlexp.protocol.experiment import Experiment, Failures
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.records.ablation import AblatedChange, root_of_ablation
from rlexp.reports.analysis.ablation_answer import ablation_answer, ablation_basis
from rlexp.reports.analysis.ablation_effects import AblationEffects, ablation_effects
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.files import probe_writable
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ablations import check_ablation, freeze_ablation, read_ablation
from rlexp.store.runs import read_experiment, write_experiment
from rlexp.text import format_count

MAX_SEEDS = 25
"""Default for the most test seeds of a configuration."""
REPETITIONS = 10_000
"""Relabellings of a test, where there are too many to enumerate."""
SEEDS = "seeds."
ROOT = "seeds.root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AblateRequest:
    """A request for an ablation.

    Attributes:
        arguments: A sweep; two configurations; one and words that change it; or words with two
            values. Words of the experiment, executor and trackers may follow.
        commits: A range `FIRST..LAST` of commits, whose code trains the configuration of the words;
            None compares settings.
        path: Whether changes are added along a path; None decides by their number.
        group: New seeds of each configuration at each interim analysis.
        max_seeds: Most test seeds of a configuration.
        alpha: Family-wise error over all comparisons; None takes that of `conf/report.yaml`.
        family: The method that controls it.
        dry_run: Whether to return the plan and start nothing.
        restart: Whether to replace a frozen design by this one.
        retry: Whether runs with a final failure are executed again.
        probe: Whether to measure what runs cost before the first one starts; None measures plans
            that seem to take a minute or longer.
        command: The command as the user typed it.
    """

    arguments: tuple[str, ...]
    commits: str | None = None
    path: bool | None = None
    group: int = GROUP
    max_seeds: int = MAX_SEEDS
    alpha: float | None = None
    family: str = FAMILY
    dry_run: bool = False
    restart: bool = False
    retry: bool = False
    probe: bool | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationOutcome(Displayed):
    """What each change between two configurations does, and what did it.

    Attributes:
        experiment: The name of the experiment with the runs.
        answer: What did it, as a sentence.
        basis: What the answer rests on, as a sentence.
        effects: The effect of each change.
        root: The key of all seeds: no configuration was trained with them before.
        random_seed: The seed of the relabellings that are drawn at random.
        runs: Number of runs that the interim analyses used.
        trained: Number of runs that were started.
        most_runs: Number of runs that are needed if nothing is decided early.
        failed: Runs that ended without a score (`EXPERIMENT/RUN`).
        folder: The folder of the records.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("ablation")

    experiment: str
    answer: str
    basis: str
    effects: AblationEffects
    root: int
    random_seed: int
    runs: int
    trained: int
    most_runs: int
    failed: tuple[str, ...]
    folder: Path
    interrupted: str | None
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationOutline:
    """The plan of an ablation.

    Attributes:
        experiment: The name of the experiment.
        kind: How changes are judged: `each`, `path` or `commits`.
        changes: The changes, with the labels that are compared.
        labels: The labels of all configurations.
        order: How the order of a path was found; null without a path.
        alpha: Family-wise error over all comparisons and interim analyses.
        comparisons: Number of comparisons.
        look: The number of the interim analysis, from 1; null if the present scores are sufficient.
        looks: Maximum number of interim analyses.
        plan: The runs of the next interim analysis; null if no run is missing.
        most_runs: Number of runs that are needed if nothing is decided early.
    """

    schema: ClassVar[Schema] = Schema("ablation-plan")

    experiment: str
    kind: str
    changes: tuple[AblatedChange, ...]
    labels: tuple[str, ...]
    order: str | None
    alpha: float
    comparisons: int
    look: int | None
    looks: int
    plan: RunPlan | None
    most_runs: int


@dataclass(frozen=True, slots=True)
class _Ablating:
    """An ablation that can start."""

    request: AblateRequest
    paths: ExperimentPaths
    plan: AblationPlan
    experiment: Experiment
    design: FrozenDesign
    launch: SequentialLaunch


def ablate(
    request: AblateRequest, workspace: Workspace, observer: Observer
) -> AblationOutcome | AblationOutline:
    """Train configurations between two others until it is decided which change did it.

    Raises:
        RlexpError: The targets, the words or the records do not allow an ablation; nothing was
            started.
    """
    with open_checkouts(workspace) as checkouts:
        return _ablated(request, checkouts, workspace, observer)


def _ablated(
    request: AblateRequest, checkouts: Checkouts, workspace: Workspace, observer: Observer
) -> AblationOutcome | AblationOutline:
    ablating = _read(request, checkouts, workspace, observer)
    evidence = _evidence(ablating, workspace)
    looked = analyse(ablating.design, evidence)
    if request.dry_run:
        return _outline(ablating, looked, evidence)
    # Runs that cannot start are refused before anything is frozen.
    if not looked.finished:
        ablating.launch.check_scores(looked, evidence)
        experiment = evidence.experiments[0]
        ablating.launch.prepare(*ablating.launch.plan(looked, evidence, experiment))
    paths = ablating.paths
    probe_writable(paths.folder if paths.folder.exists() else workspace.layout.root)
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        ledger = _freeze(ablating, evidence)
        # A command that was killed may have left ended attempts without a ledger line.
        LedgerWriter(paths).enter_late()
        for text in warnings_of_restart(ledger):
            observer.note(f"Warning: {text}")
        looked, evidence, interrupted = ablating.launch.until_decided()
    return _outcome(ablating, looked, evidence, interrupted)


def _read(
    request: AblateRequest, checkouts: Checkouts, workspace: Workspace, observer: Observer
) -> _Ablating:
    workspace.make_allowed_importable()
    settings = read_report(["section=[]"], workspace.folder, workspace.allowed).settings
    ablated = read_words(request.arguments, workspace)
    _check_words(ablated)
    command = (*request.command, *_lacking(workspace.permission, request.command))
    source = _source(request, ablated, command, checkouts, observer)
    if request.commits is not None and isinstance(source, CommitSource):
        command = pinned(command, request.commits, source.plan.ablation)
    named, failures, root = _experiment_settings(ablated, source, workspace)
    paths = workspace.layout.experiment(check_name(named))
    plan = with_command(_plan(source, request, paths, workspace), command)
    _refuse_prior_data(plan)
    experiment = Experiment(
        name=paths.name,
        configurations=plan.configurations,
        seeds=SeedPlan(root=root, tuning=0, selection=0, test=request.group),
        failures=failures,
    )
    if failures == "worst":
        require_minimum(plan.configurations)
    _check_existing(paths, plan, experiment)
    design = _design(plan, request, settings)
    if not request.restart:
        read_matching_design(paths, design)
    launch = SequentialLaunch(
        paths=paths,
        design=design,
        execution=execution_overrides(ablated.settings, ablated.keys),
        command=command,
        continuing=command,
        workspace=workspace,
        observer=observer,
        retry=request.retry,
        repeating="add --retry to this command; or choose failures=worst and another experiment=NAME",
        option="",
        probe=request.probe,
    )
    if isinstance(source, CommitSource):
        training = _training(source, launch, checkouts)
        launch = replace(launch, other_code=training)
    return _Ablating(request, paths, plan, experiment, design, launch)


def _refuse_prior_data(plan: AblationPlan) -> None:
    """Refuse trainings that begin with prior data.

    Raises:
        ConfigError: A training begins with prior data.
    """
    if any(prior_source(c.replay) is not None for c in plan.configurations):
        raise ConfigError(
            "an ablation cannot begin with prior data, which it does not keep: choose another replay, "
            "or compare with 'rlexp run' and 'rlexp compare'",
            key="replay",
        )


def _source(
    request: AblateRequest,
    ablated: AblationWords,
    command: Sequence[str],
    checkouts: Checkouts,
    observer: Observer,
) -> AblationSource | CommitSource:
    """The two configurations, or the commits.

    Raises:
        RlexpError: They do not allow an ablation.
    """
    if request.commits is None:
        return read_source(ablated, command, checkouts.workspace)
    if request.path is not None:
        raise ConfigError(
            f"{OPTION} compares each commit with the one before it: leave out "
            f"{'--path' if request.path else '--each'}",
            key=OPTION,
        )
    return read_commit_source(request.commits, ablated, checkouts, observer)


def _training(
    source: CommitSource, launch: SequentialLaunch, checkouts: Checkouts
) -> CommitTraining:
    """Trains each run in a checkout of its commit, on this machine.

    Raises:
        ConfigError: The executor starts runs elsewhere.
    """
    executor = executor_of(launch.execution, launch.workspace)
    if isinstance(executor, Remote):
        raise ConfigError(
            f"{OPTION} trains in checkouts on this machine, which workers elsewhere do not have: "
            "give executor=local",
            key="executor",
        )
    training = StreamTraining(
        paths=launch.paths,
        checkouts=checkouts,
        workspace=launch.workspace,
        observer=launch.observer,
        executor=executor,
        operational=source.operational,
        command=launch.command,
    )
    return CommitTraining(training, source.commits, source.plan.ablation.source["last"])


def _lacking(permission: Sequence[str], command: Sequence[str]) -> Sequence[str]:
    return [] if "--allow-import" in command else permission


def _check_words(ablated: AblationWords) -> None:
    for word, key in zip(ablated.settings, ablated.keys, strict=True):
        if key.startswith(SEEDS) and key != ROOT:
            raise ConfigError(
                f"{word}: an ablation adds test seeds as it needs them; give the most with "
                "--max-seeds",
                key=key,
            )
        if key == "phase":
            raise ConfigError(f"{word}: an ablation is judged on test seeds only", key=key)


def _experiment_settings(
    ablated: AblationWords, source: AblationSource | CommitSource, workspace: Workspace
) -> tuple[str, Failures, int]:
    """The name of the experiment, the treatment of failed runs, and the root of its seeds."""
    composed = compose(list(ablated.settings), workspace.folder)
    if len(composed) > 1:
        raise ConfigError("an ablation is one experiment: leave out comma choices of its settings")
    root, _ = validate(composed[0].plain, workspace.allowed)
    failures = root.failures if "failures" in ablated.keys else source.failures
    given = (
        root.seeds.root
        if ROOT in ablated.keys
        else root_of_ablation(*source.fingerprints, source.root)
    )
    if ROOT in ablated.keys and given == source.root:
        raise ConfigError(
            f"seeds.root={given} gives the test seeds on which the configurations were seen before, "
            f"which may be why they are compared: leave out seeds.root={given}",
            key=ROOT,
        )
    return root.experiment or source.name, failures, given


def _plan(
    source: AblationSource | CommitSource,
    request: AblateRequest,
    paths: ExperimentPaths,
    workspace: Workspace,
) -> AblationPlan:
    """Each change alone and left out; a path by importance, where there are many; or the commits."""
    if isinstance(source, CommitSource):
        return source.plan
    changes = source.endpoints.changes
    frozen = read_ablation(paths)
    by_path = request.path
    if by_path is None:
        # What is frozen stays, even if another number of changes is many by now.
        by_path = frozen.kind == "path" if frozen is not None else len(changes) > MOST_EACH
    ordered = importance_order(source, workspace) if by_path or source.sweep else None
    if by_path and isinstance(ordered, OrderedChanges):
        return plan_path(
            source.endpoints, ordered.changes, ordered.importance, ordered.text, source.origin
        )
    if request.path:
        raise ConfigError(f"--path needs an order: {ordered}; leave out --path", key="--path")
    importance = ordered.importance if isinstance(ordered, OrderedChanges) else {}
    return plan_each(source.endpoints, importance, source.origin)


def _check_existing(paths: ExperimentPaths, plan: AblationPlan, experiment: Experiment) -> None:
    """Refuse a name that another experiment has, or an ablation of other configurations."""
    if check_ablation(paths, plan.ablation) is None and paths.definition.exists():
        raise RecordError(
            f"{paths.name} is another experiment: choose another name, such as "
            f"experiment={paths.name}-2",
            code="other_definition",
            key="experiment",
        )
    if not paths.definition.exists():
        return
    existing = read_experiment(paths)
    if existing.fingerprint != experiment.fingerprint:
        raise RecordError(
            f"{paths.name} was begun with other configurations, seeds or treatment of failures: "
            f"choose another name, such as experiment={paths.name}-2",
            code="other_definition",
            key="experiment",
        )


def _design(plan: AblationPlan, request: AblateRequest, settings: ReportSettings) -> FrozenDesign:
    if request.max_seeds % request.group:
        raise ConfigError(
            f"--max-seeds {request.max_seeds} is no multiple of --group {request.group}: seeds are "
            f"added in groups; try --max-seeds {_multiple(request.max_seeds, request.group)}",
            key="--max-seeds",
        )
    first = plan.configurations[0]
    design = FrozenDesign(
        labels=tuple(c.label for c in plan.configurations),
        tasks=(first.task,),
        score=first.budget.score,
        group=request.group,
        interims=request.max_seeds // request.group,
        alpha=settings.alpha if request.alpha is None else request.alpha,
        family=request.family,
        repetitions=REPETITIONS,
        seed=settings.seed,
        # Anchors that only reverse the sign: the test expects that greater scores are better.
        anchors={first.task: (0.0, -1.0)} if first.lower_is_better else {},
        pairs=plan.ablation.contrasts,
    )
    check_decidable(design, "--max-seeds", seeds=True)
    return design


def _multiple(seeds: int, group: int) -> int:
    return max(group, -(-seeds // group) * group)


def _evidence(ablating: _Ablating, workspace: Workspace) -> Evidence:
    """The runs so far; none before the experiment exists."""
    if ablating.paths.definition.exists():
        return collect_evidence([ablating.paths.name], Phase.TEST, workspace)
    return Evidence(phase=Phase.TEST, experiments=(ablating.experiment,), members=())


def _freeze(ablating: _Ablating, evidence: Evidence) -> DesignFile:
    """Write what is compared, then how, then the definition: each before the first run."""
    freeze_ablation(ablating.paths, ablating.plan.ablation)
    scores = sum(member.score is not None for member in evidence.members)
    freeze = restart_design if ablating.request.restart else freeze_design
    ledger = freeze(ablating.paths, ablating.design, scores)
    if not ablating.paths.definition.exists():
        write_experiment(ablating.paths, ablating.experiment)
    return ledger


def _outline(ablating: _Ablating, looked: InterimAnalysis, evidence: Evidence) -> AblationOutline:
    design = ablating.design
    planned = None if looked.finished else ablating.launch.next_plan(looked, evidence)
    ablation = ablating.plan.ablation
    return AblationOutline(
        experiment=ablating.paths.name,
        kind=ablation.kind,
        changes=ablation.changes,
        labels=design.labels,
        order=ablation.order,
        alpha=design.alpha,
        comparisons=len(ablation.contrasts),
        look=None if planned is None else looked.looks + 1,
        looks=design.interims,
        plan=planned,
        most_runs=design.most_runs,
    )


def _outcome(
    ablating: _Ablating,
    looked: InterimAnalysis,
    evidence: Evidence,
    interrupted: Signals | None,
) -> AblationOutcome:
    (of,) = evidence.ablations
    effects = ablation_effects(of, evidence)
    assert effects is not None
    _, answer = ablation_answer(effects)
    members = evidence.members
    return AblationOutcome(
        experiment=ablating.paths.name,
        answer=answer,
        basis=ablation_basis(effects),
        effects=effects,
        root=ablating.experiment.seeds.root,
        random_seed=ablating.design.seed,
        runs=looked.runs,
        trained=sum(m.record.attempts > 0 for m in members),
        most_runs=ablating.design.most_runs,
        failed=tuple(m.name for m in members if m.record.scoreless),
        folder=ablating.paths.folder,
        interrupted=interrupted.name if interrupted else None,
        next=tuple(_next(ablating, effects)),
    )


def _next(ablating: _Ablating, effects: AblationEffects) -> Iterator[NextCommand]:
    name = ablating.paths.name
    if not effects.finished:
        command_words = [w for w in ablating.launch.command if w != "--restart"]
        yield NextCommand(why="continue", command=shlex.join(command_words))
        return
    yield NextCommand(why="write the report", command=shlex.join(["rlexp", "report", name]))
    # Of a single change, all effects are the same comparison.
    undecided = {(e.first, e.second) for e in effects.effects if e.decision == "equal"}
    if undecided:
        count = format_count(len(undecided), "comparison")
        yield NextCommand(
            why=f"see the runs of {count} without a decision",
            command=shlex.join(["rlexp", "show", name]),
        )
