"""Commands that rlexp suggests after a comparison and on the card of a report."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlexp.app.comparison.sequential import (
    FAMILY,
    GROUP,
    INTERIMS,
    FrozenDesign,
    analyse,
    design_options,
    failed_for_good,
    frozen_design,
    make_design,
)
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import format_override
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.analysis.sweep_tables import by_number
from rlexp.reports.drawing.blocks import ReportDocument, SectionContent, Table
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.pairwise_family import Verdict
from rlexp.store.secrets import MASK


def card_commands(
    targets: Sequence[str],
    overrides: Sequence[str],
    evidence: Evidence,
    study: ReportDocument,
    settings: ReportSettings,
    workspace: Workspace,
) -> Iterator[NextCommand]:
    """The commands on the card of a report: what finishes it, decides it, or uses it.

    Args:
        targets: The targets of the report.
        overrides: Its changed settings.
        evidence: Its runs.
        study: The computed report.
        settings: The composed settings.
        workspace: The workspace of the experiments.
    """
    unfinished = dict.fromkeys(
        m.experiment for m in evidence.members if m.imported is None and m.record.may_run()
    )
    for name in unfinished:
        yield _command("finish the runs", ["rlexp", "resume", name], workspace)
    if evidence.phase is not Phase.TEST:
        yield from _to_test_runs(evidence, unfinished, workspace)
    if len(evidence.labels) > 1 and has_undecided_pair(study):
        sequential = sequential_comparison(targets, overrides, evidence, settings, workspace)
        if sequential:
            yield sequential
    for sweep in evidence.sweeps if len(evidence.sweeps) == 1 else ():
        if sweep.selection is not None:
            best = ["rlexp", "best", sweep.experiment, "--format", "args"]
            yield _command("copy the hyperparameters", best, workspace)
            train = ["rlexp", "run", "--from-sweep", sweep.experiment]
            yield _command("train the chosen configuration again", train, workspace)
    if not unfinished and len(evidence.experiments) == 1:
        show = ["rlexp", "show", evidence.experiments[0].name]
        yield _command("see every run", show, workspace)


def _to_test_runs(
    evidence: Evidence, unfinished: Collection[str], workspace: Workspace
) -> Iterator[NextCommand]:
    """The commands that show the test runs of each experiment, or train them."""
    sweeps = {sweep.experiment: sweep for sweep in evidence.sweeps}
    for experiment in evidence.experiments:
        name, sweep = experiment.name, sweeps.get(experiment.name)
        if evidence.left_out.get(Phase.TEST) or (sweep and sweep.selection):
            yield _command("see the test runs", ["rlexp", "report", name], workspace)
        elif sweep is None:
            if words := _words_of_run(name, evidence):
                test = ["rlexp", "run", *words, "phase=test"]
                yield _command("train test runs", test, workspace)
        elif name not in unfinished and not sweep.imported:
            yield _command("go on to test runs", ["rlexp", "resume", name], workspace)


def _words_of_run(experiment: str, evidence: Evidence) -> list[str]:
    """The recorded overrides of `rlexp run` without the phase and its seeds; empty without any."""
    members = [m for m in evidence.members if m.experiment == experiment and m.imported is None]
    for member in members:
        command = member.provenance.get("command")
        typed = list(map(str, command)) if isinstance(command, list) else []
        # A masked secret would not be the value that was typed.
        if typed[:2] == ["rlexp", "run"] and not any(MASK in word for word in typed):
            phase = f"seeds.{evidence.phase}="
            return [w for w in typed[2:] if not w.startswith(("phase=", phase))]
    return []


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
    seeds_are_listed = any(not isinstance(e.seeds.test, int) for e in evidence.experiments)
    if evidence.phase is not Phase.TEST or len(evidence.experiments) > 1 or seeds_are_listed:
        return None
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
        *workspace.permission,
    ]
    return NextCommand(
        why="see the decisions of the looks" if over else "add seeds until every pair is decided",
        command=shlex.join(command),
    )


def _design(
    evidence: Evidence, settings: ReportSettings, frozen: Mapping[str, Any]
) -> FrozenDesign | None:
    """The sequential design with the options of the frozen one, or with default options.

    Returns:
        None if these labels allow no sequential design.
    """
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
