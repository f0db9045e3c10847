"""`rlexp compare --adaptive`: test seeds in groups, until every pair is decided."""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlexp.app.continuing import with_drift
from rlexp.app.design import (
    FAMILY,
    GROUP,
    INTERIMS,
    FrozenDesign,
    Ledger,
    freeze,
    freeze_again,
    frozen_alike,
    record_look,
)
from rlexp.app.drive import drive, remember_speeds, show_plan
from rlexp.app.execution import Driving
from rlexp.app.gather import gather, read_target
from rlexp.app.imported import refuse_imported
from rlexp.app.looks import Looked, draw_up, failed_for_good, look_at
from rlexp.app.mirrored import Trackers
from rlexp.app.older_schema import refuse_older
from rlexp.app.permission import check_imports
from rlexp.app.summary import read_entries
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.report import read_report
from rlexp.config.validate import validate
from rlexp.console import Console
from rlexp.engine.plan import Plan, make_plan
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence import Evidence, Member
from rlexp.reports.sentences import counted
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold
from rlexp.store.provenance import read_code
from rlexp.store.runs import read_experiment, write_experiment
from rlexp.store.sealing import Seals


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a sequential comparison is asked for.

    `words` change settings of `conf/report.yaml`; `command` is what the user typed.
    """

    targets: tuple[str, ...]
    group: int = GROUP
    interims: int = INTERIMS
    family: str = FAMILY
    dry_run: bool = False
    restart: bool = False
    words: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def compare_adaptively(asked: Asked, place: Workspace, console: Console) -> int:
    """Launch further test seeds in groups until every pair is decided; returns the exit code.

    Raises:
        RlexpError: The targets, the design or the records do not allow it; nothing was started.
    """
    place.make_allowed_importable()
    settings = read_report(["section=[]", *asked.words], place.folder, place.allowed).settings
    paths = place.experiment(_experiment(asked))
    experiment = read_experiment(paths)
    refuse_imported(experiment)
    refuse_older(experiment)
    _check_seeds(experiment)
    check_imports(experiment.configurations, place.allowed, asked.command)
    evidence = gather(asked.targets, Phase.TEST, place)
    design = draw_up(evidence, settings, asked.group, asked.interims, asked.family)
    if asked.dry_run:
        return _rehearse(design, paths, asked, place, console)
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        there = sum(member.score is not None for member in evidence.members)
        ledger = (freeze_again if asked.restart else freeze)(paths, design, there)
        Seals(paths).enter_late()
        for text in _warnings(ledger, design):
            console.line(f"Warning: {text}")
        return _until_decided(design, paths, asked, place, console)


def _warnings(ledger: Ledger, design: FrozenDesign) -> Iterator[str]:
    if ledger.earlier:
        yield (
            f"{len(ledger.earlier)} earlier design(s) looked at these scores: the family-wise "
            f"error over all of them is above {design.alpha:g}"
        )
    if ledger.scores:
        yield (
            f"the design was frozen when {counted(ledger.scores, 'score')} could be seen: if it "
            f"was chosen by them, or because they left a pair undecided, the family-wise error "
            f"is above {design.alpha:g}"
        )


def _until_decided(
    design: FrozenDesign, paths: ExperimentPaths, asked: Asked, place: Workspace, console: Console
) -> int:
    """Look, launch what the look asks for, and look again."""
    driving = _driving(read_experiment(paths), asked, place)
    while True:
        evidence = gather([paths.name], Phase.TEST, place)
        looked = look_at(design, evidence)
        for number, decided in looked.decisions.items():
            record_look(paths, number, decided)
        if looked.finished:
            _tell(looked, design, evidence, console)
            return 0
        _check_scores(looked, design, evidence, paths)
        experiment, plan = _plan(looked, evidence, design)
        if not plan.missing:
            raise RecordError(_without_score([], paths))
        write_experiment(paths, experiment)
        stopped = drive(paths, Phase.TEST, plan, driving, place, console)
        remember_speeds(read_entries(paths, experiment, Phase.TEST), plan)
        if stopped is not None:
            console.line(f"To continue: {shlex.join(asked.command)}")
            return stopped


def _rehearse(
    design: FrozenDesign, paths: ExperimentPaths, asked: Asked, place: Workspace, console: Console
) -> int:
    evidence = gather([paths.name], Phase.TEST, place)
    looked = look_at(design, evidence)
    frozen = None if asked.restart else frozen_alike(paths, design)
    if looked.finished and frozen is not None:
        _tell(looked, design, evidence, console)
        return 0
    if looked.finished:
        # Telling would let a user try designs until one decides.
        said = "Nothing to run: the scores that are there are all that the design needs"
        console.show({"wanted": [], "most_runs": design.most_runs}, [said])
        return 0
    _check_scores(looked, design, evidence, paths)
    experiment, plan = _plan(looked, evidence, design)
    driving, code = _driving(experiment, asked, place), read_code(place.folder, place.layout.root)
    show_plan(paths, Phase.TEST, plan, driving, code, console)
    said = (
        f"Look {looked.looks + 1} of {design.interims} at {', '.join(looked.wanted)}; at most "
        f"{design.most_runs} runs in all"
    )
    value = {"look": looked.looks + 1, "wanted": looked.wanted, "runs": len(plan.missing)}
    console.show({**value, "most_runs": design.most_runs}, [said])
    return 0


def _plan(looked: Looked, evidence: Evidence, design: FrozenDesign) -> tuple[Experiment, Plan]:
    """The experiment grown by one group of each wanted label, and what that leaves to run."""
    experiment = _grown(evidence.experiments[0], looked, design)
    records = {m.record.spec.id: m.record for m in evidence.members}
    seeds = set(range((looked.looks + 1) * design.group))
    specs = [
        spec
        for configuration, spec in experiment.specs(Phase.TEST)
        if configuration.label in looked.wanted and spec.seed in seeds
    ]
    return experiment, make_plan(specs, records)


def _grown(there: Experiment, looked: Looked, design: FrozenDesign) -> Experiment:
    """The experiment with as many seeds of the wanted labels as the next look needs."""
    wanted, planned = (looked.looks + 1) * design.group, len(there.seeds.seeds(Phase.TEST))
    most = max(wanted, planned)
    counts = {
        c.fingerprint: max(
            there.allotted.get(c.fingerprint, planned), wanted if c.label in looked.wanted else 0
        )
        for c in there.configurations
    }
    fewer = {fingerprint: count for fingerprint, count in counts.items() if count < most}
    return replace(there, seeds=replace(there.seeds, test=most), allotted=fewer)


def _driving(experiment: Experiment, asked: Asked, place: Workspace) -> Driving:
    """The executor, trackers, checkpoints and time limit of the workspace's own configuration."""
    plain = compose([], place.folder)[0].plain
    root, parts = validate(plain, place.allowed)
    return Driving(
        executor=parts.executor,
        threads=max(c.compute.threads for c in experiment.configurations),
        operational=root.budget.operational(),
        command=asked.command,
        with_drift=with_drift(["rlexp", "resume", experiment.name], place),
        trackers=Trackers.of(plain, parts),
    )


def _experiment(asked: Asked) -> str:
    names = {read_target(text).experiment for text in asked.targets}
    if len(names) > 1:
        raise ConfigError(
            "--adaptive launches runs, and so is about the labels of one experiment; "
            f"you named {', '.join(sorted(names))}",
        )
    return names.pop()


def _check_seeds(experiment: Experiment) -> None:
    if not isinstance(experiment.seeds.test, int):
        raise ConfigError(
            f"{experiment.name} lists its test seeds one by one; --adaptive adds seeds to a "
            "count: start an experiment with seeds.test=N",
        )


def _check_scores(
    looked: Looked, design: FrozenDesign, evidence: Evidence, paths: ExperimentPaths
) -> None:
    """Refuse a look that can never be made, before anything is trained for it."""
    seeds = range((looked.looks + 1) * design.group)
    scoreless = failed_for_good(evidence)
    members = [m for m in scoreless if m.label in looked.wanted and m.record.spec.seed in seeds]
    if members:
        raise RecordError(_without_score(members, paths))


def _without_score(members: Sequence[Member], paths: ExperimentPaths) -> str:
    names = [member.name for member in members]
    again = shlex.join(["rlexp", "logs", names[0]] if names else ["rlexp", "show", paths.name])
    return (
        f"{counted(len(names), 'run')} that the next look needs ended without a score "
        f"({', '.join(names[:3])}), and that is none; see why with '{again}'; try failed ones "
        "again with 'rlexp run' of the experiment and --retry, or begin with failures=worst"
    )


def _tell(looked: Looked, design: FrozenDesign, evidence: Evidence, console: Console) -> None:
    own = [m for m in evidence.members if m.label in design.labels]
    trained = sum(m.record.attempts > 0 for m in own)
    saved = max(design.most_runs - trained, 0)
    name = evidence.experiments[0].name
    value = {
        "experiment": name,
        "design": design.plain(),
        "looks": looked.looks,
        "pairs": looked.pairs,
        "runs": looked.runs,
        "trained": trained,
        "fixed_design": design.most_runs,
        "saved": saved,
    }
    lines = [*looked.sentences]
    lines.append(
        f"{looked.runs} runs in {looked.looks} looks; the fixed design of {design.interims} × "
        f"{design.group} seeds of every label takes {design.most_runs}: {saved} runs saved, {trained} trained",
    )
    lines.append(f"To see all numbers: {shlex.join(['rlexp', 'compare', name])}")
    console.show(value, lines)
