"""`rlexp compare`: labels of one or several experiments side by side, with a verdict a pair."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.design import FAMILY, GROUP, INTERIMS, FrozenDesign, frozen_design, options
from rlexp.app.gather import gather
from rlexp.app.looks import draw_up, failed_for_good, look_at
from rlexp.app.reporting.build import make_study, read_phase
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.reports.blocks import Study, Table
from rlexp.reports.evidence import Evidence
from rlexp.reports.formats.as_json import plain
from rlexp.reports.settings import Settings
from rlexp.stats.family import Verdict

REFUSED = 3
SECTIONS = "section=[verdicts,tasks,aggregates,pairs,missing]"
"""The sections of a report that a comparison shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What is compared, and how; `words` change settings of `conf/report.yaml`."""

    targets: tuple[str, ...]
    phase: str | None = None
    strict: bool = False
    words: tuple[str, ...] = ()


def compare(sides: Sides, place: Workspace, console: Console) -> int:
    """Show the labels side by side; returns the exit code.

    Raises:
        RlexpError: A target or a setting is unknown, or there is one label only.
    """
    place.make_allowed_importable()
    parts = read_report([SECTIONS, *sides.words], place.folder, place.allowed)
    evidence = gather(sides.targets, read_phase(sides.phase), place)
    if len(evidence.labels) < 2:
        raise ConfigError(_too_few(evidence))
    study = make_study(evidence, parts)
    following = _next(sides, evidence, study, parts.settings, place)
    if console.as_json:
        console.json({**plain(study), "next": following})
    else:
        for part in study.parts:
            console.line()
            console.blocks(part.blocks)
        console.line()
        for text in study.failed_checks if sides.strict else ():
            console.line(f"Check failed: {text}")
        for step in following:
            console.line(f"To {step['why']}: {step['command']}")
    return REFUSED if sides.strict and study.failed_checks else 0


def _too_few(evidence: Evidence) -> str:
    if not evidence.labels and evidence.sweeps:
        name = evidence.sweeps[0].experiment
        return (
            f"{name} has no {evidence.phase} run to compare yet; 'rlexp status {name}' says how "
            "far it is"
        )
    if not evidence.labels:
        return f"there is no {evidence.phase} run to compare; start some with rlexp run"
    return (
        f"{evidence.labels[0]} is alone: name a second experiment, or EXPERIMENT/LABEL of one, "
        "to compare it with"
    )


def _next(
    sides: Sides, evidence: Evidence, study: Study, settings: Settings, place: Workspace
) -> list[dict[str, Any]]:
    """The commands that make sense now, and that are not refused."""
    phase = ["--phase", sides.phase] if sides.phase else []
    report = ["rlexp", "report", *sides.targets, *phase, *_said(sides.words), *place.permission]
    steps = [{"why": "write the report", "command": shlex.join(report)}]
    adaptive = _adaptive(sides, evidence, settings, place) if _undecided(study) else None
    return [*steps, adaptive] if adaptive else steps


def _said(words: Sequence[str]) -> list[str]:
    """Settings as options, but for the sections, which a report has its own of."""
    return [part for w in words if not w.startswith("section=") for part in ("--set", w)]


def _undecided(study: Study) -> bool:
    """Whether a pair is undecided."""
    tables = [b for part in study.parts for b in part.blocks if isinstance(b, Table)]
    verdicts = {row[-1] for table in tables if table.name == "pairs" for row in table.rows}
    return not verdicts or str(Verdict.UNDECIDED) in verdicts


def _adaptive(
    sides: Sides, evidence: Evidence, settings: Settings, place: Workspace
) -> dict[str, Any] | None:
    """A sequential comparison of these labels; nothing where there can be none."""
    one_by_one = any(not isinstance(e.seeds.test, int) for e in evidence.experiments)
    if evidence.phase is not Phase.TEST or len(evidence.experiments) > 1 or one_by_one:
        return None
    try:
        frozen = frozen_design(place.experiment(evidence.experiments[0].name))
    except RecordError:
        # What it lacks is said by --adaptive itself; the comparison does not need it.
        return None
    design = _drawn(evidence, settings, frozen or {})
    if design is None or failed_for_good(evidence) or frozen not in (None, design.plain()):
        return None
    over = frozen is not None and look_at(design, evidence).finished
    words = options(design) if frozen else _said(sides.words)
    command = ["rlexp", "compare", *sides.targets, "--adaptive", *words, *place.permission]
    return {
        "why": "see what the looks decided" if over else "add seeds until every pair is decided",
        "command": shlex.join(command),
    }


def _drawn(
    evidence: Evidence, settings: Settings, frozen: Mapping[str, Any]
) -> FrozenDesign | None:
    """The design by the options of the frozen one, or by the defaults, if there can be one."""
    known = {key: frozen[key] for key in ("alpha", "seed", "repetitions") if frozen}
    try:
        return draw_up(
            evidence,
            replace(settings, **known),
            frozen.get("group", GROUP),
            frozen.get("interims", INTERIMS),
            frozen.get("family", FAMILY),
        )
    except ConfigError:
        return None
