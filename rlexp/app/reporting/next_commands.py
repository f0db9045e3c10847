"""Commands that rlexp suggests after a comparison and on the card of a report."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlexp.app.reading.experiment_scan import ExperimentScan
from rlexp.app.reporting.build import MOST_COMPARED, card_context_of, card_of
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.experiment_commands import (
    changing_commands,
    permission_of,
    state_of_evidence,
)
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import format_override
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.answer import is_decided
from rlexp.reports.analysis.estimates import pairs
from rlexp.reports.analysis.report_context import ReportContext, ReportSettings
from rlexp.reports.analysis.sweep_tables import by_number
from rlexp.reports.drawing.blocks import ReportDocument, SectionContent, SummaryCard, Table
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.pairs.pairwise_family import Verdict

if TYPE_CHECKING:
    from rlexp.app.comparison.sequential import FrozenDesign


def card_commands(
    targets: Sequence[str],
    overrides: Sequence[str],
    evidence: Evidence,
    study: ReportDocument,
    settings: ReportSettings,
    workspace: Workspace,
) -> Iterator[NextCommand]:
    """The commands on the card of a report: what finishes it, decides it, or uses it.

    For one experiment, they are those of the terminal without the commands that show what is on the
    page.

    Args:
        targets: The targets of the report.
        overrides: Its changed settings.
        evidence: Its runs.
        study: The computed report.
        settings: The composed settings.
        workspace: The workspace of the experiments.
    """
    if len(evidence.experiments) > 1:
        for experiment in _unfinished(evidence):
            permission = permission_of(experiment, workspace)
            words = ["rlexp", "resume", experiment.name, *permission]
            yield NextCommand(why="finish the runs", command=shlex.join(words))
        return
    name, sequential = evidence.experiments[0].name, None
    tested = _has_test_runs(evidence)
    if tested:
        yield _command("see the test runs", ["rlexp", "report", name], workspace)
    if len(evidence.labels) > 1 and has_undecided_pair(study):
        sequential = sequential_comparison(targets, overrides, evidence, settings, workspace)
    state = state_of_evidence(evidence, workspace, sequential)
    if state is not None:
        yield from changing_commands(replace(state, testing=()) if tested else state)
    if state is None or not (state.complete and state.searched):
        yield _command("see every run", ["rlexp", "ls", name], workspace)


def _has_test_runs(evidence: Evidence) -> bool:
    """Whether evidence of another phase leaves test runs out."""
    if evidence.phase is Phase.TEST:
        return False
    selected = any(sweep.selection is not None for sweep in evidence.sweeps)
    return selected or bool(evidence.left_out.get(Phase.TEST))


def _unfinished(evidence: Evidence) -> Iterator[Experiment]:
    """The experiments with runs that their commands would train."""
    members = (m for m in evidence.members if m.imported is None and m.record.may_run())
    names = {member.experiment for member in members}
    yield from (experiment for experiment in evidence.experiments if experiment.name in names)


def card_and_sequential(
    name: str,
    phase: Phase | None,
    workspace: Workspace,
    scanned: ExperimentScan | None = None,
) -> tuple[SummaryCard | None, NextCommand | None]:
    """The summary card of one experiment, and the command that decides its undecided pairs.

    Args:
        name: The experiment.
        phase: The phase of the runs; None prefers test runs.
        workspace: The workspace.
        scanned: The experiment as the caller has read it, in brief; None where it has not.

    Returns:
        None for both where its records or the settings of reports cannot be read. None for the
        command where every pair is decided, where labels are not compared, and where a sequential
        comparison would be refused.
    """
    try:
        parts = read_report(("section=[]",), workspace.folder, workspace.allowed)
        evidence = collect_evidence(
            (name,), phase, workspace, enter=True, brief=True, scanned=scanned
        )
    except RlexpError:
        return None, None
    context = card_context_of(evidence, parts)
    return card_of(context), undecided_sequential(context, workspace)


def undecided_sequential(context: ReportContext, workspace: Workspace) -> NextCommand | None:
    """The command that decides the undecided pairs of one experiment, or None."""
    evidence = context.evidence
    compared = 1 < len(evidence.labels) <= MOST_COMPARED
    if not compared or all(is_decided(pair) for pair in pairs(context)):
        return None
    targets = [experiment.name for experiment in evidence.experiments]
    return sequential_comparison(targets, (), evidence, context.settings, workspace)


def winner_overrides(evidence: Evidence) -> str:
    """The searched hyperparameters of the winner of a single sweep as overrides for a shell."""
    if len(evidence.sweeps) != 1 or (selection := evidence.sweeps[0].selection) is None:
        return ""
    winner = by_number(evidence.sweeps[0], selection.winner)
    values = {} if winner is None else winner.parameters
    return shlex.join(format_override(key, value) for key, value in values.items())


def _command(why: str, words: Sequence[str], workspace: Workspace) -> NextCommand:
    return NextCommand(why=why, command=shlex.join([*words, *workspace.permission]))


def set_options(overrides: Sequence[str]) -> list[str]:
    """Overrides as `--set` options of a report, without the sections of the comparison."""
    kept = (o for o in overrides if not o.startswith("section="))
    return [word for override in kept for word in ("--set", override)]


def pair_tables(parts: Sequence[SectionContent]) -> list[Table]:
    """The table with every test of every pair; none if the sections were changed."""
    tables = (b for part in parts for b in part.blocks if isinstance(b, Table))
    return [table for table in tables if table.name == "pairs"]


def has_undecided_pair(study: ReportDocument) -> bool:
    """Whether the verdict on any pair is undecided."""
    pairs = pair_tables(study.parts)
    places = [[column.title for column in table.columns].index("verdict") for table in pairs]
    verdicts = {row[at] for table, at in zip(pairs, places, strict=True) for row in table.rows}
    return not verdicts or str(Verdict.UNDECIDED) in verdicts


def sequential_comparison(
    targets: Sequence[str],
    overrides: Sequence[str],
    evidence: Evidence,
    settings: ReportSettings,
    workspace: Workspace,
) -> NextCommand | None:
    """The command of a sequential comparison of these labels; None if it would be refused."""
    from rlexp.app.comparison.sequential import (
        analyse,
        design_options,
        failed_for_good,
        frozen_design,
    )

    seeds_are_listed = any(not isinstance(e.seeds.test, int) for e in evidence.experiments)
    # Further seeds would deviate from a registered protocol, and a changed register may hide one.
    # The number of test seeds of a stream was frozen at its beginning.
    registered = evidence.protocols.experiments or evidence.protocols.problems
    if registered or any(sweep.definition.is_stream for sweep in evidence.sweeps):
        return None
    if evidence.phase is not Phase.TEST or len(evidence.experiments) > 1 or seeds_are_listed:
        return None
    if evidence.ablations:
        return continued_ablation(evidence, workspace)
    try:
        frozen = frozen_design(workspace.experiment(evidence.experiments[0].name))
    except RecordError:
        # A comparison does not need the frozen design; --adaptive itself reports what is wrong.
        return None
    design = _design(evidence, settings, frozen or {})
    if design is None or failed_for_good(evidence) or frozen not in (None, design.plain()):
        return None
    over = frozen is not None and analyse(design, evidence).finished
    overrides = design_options(design) if frozen else set_options(overrides)
    command = [
        "rlexp",
        "compare",
        *targets,
        "--adaptive",
        *overrides,
        *permission_of(evidence.experiments[0], workspace),
    ]
    return NextCommand(
        why="see the decisions of the interim analyses"
        if over
        else "add seeds until every pair is decided",
        command=shlex.join(command),
    )


def continued_ablation(evidence: Evidence, workspace: Workspace) -> NextCommand | None:
    """The command that continues an ablation; None where it is finished.

    Args:
        evidence: The test runs of one experiment.
        workspace: The workspace of the experiment.
    """
    from rlexp.reports.analysis.ablation_effects import ablation_effects
    from rlexp.store.registers.ablations import ablation_command

    command = ablation_command(workspace.experiment(evidence.experiments[0].name))
    # Without a declared test, nothing is finished.
    every = [ablation_effects(of, evidence) for of in evidence.ablations]
    if command is None or any(effects is None or effects.finished for effects in every):
        return None
    return NextCommand(why="continue the ablation", command=shlex.join(command))


def _design(
    evidence: Evidence, settings: ReportSettings, frozen: Mapping[str, Any]
) -> "FrozenDesign | None":
    """The sequential design with the options of the frozen one, or with default options.

    Returns:
        None if these labels allow no sequential design.
    """
    from rlexp.app.comparison.sequential import FAMILY, GROUP, INTERIMS, make_design

    shared = {key: frozen[key] for key in ("alpha", "seed", "repetitions") if frozen}
    try:
        return make_design(
            evidence,
            replace(settings, **shared),
            frozen.get("group", GROUP),
            frozen.get("interims", INTERIMS),
            frozen.get("family", FAMILY),
        )
    except ConfigError:
        return None
