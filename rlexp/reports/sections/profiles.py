"""The section of performance profiles: share of runs above each score."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import AnchorsByTask, common_scale, task_scores, without_anchors
from rlexp.reports.analysis.score_words import worst_end
from rlexp.reports.drawing.blocks import (
    Axis,
    Callout,
    FigureLine,
    LineFigure,
    SectionContent,
    Text,
    Tone,
)
from rlexp.reports.evidence.runs import Evidence, run_states_text
from rlexp.stats.interval import too_few
from rlexp.stats.profile import Profile, performance_profile
from rlexp.stats.task_scores import TaskScores
from rlexp.text import format_count, format_percentage

ABOUT = (
    "The share of runs that score more than τ, with the same weight for every task. A label whose "
    "curve lies above another curve everywhere is better at every τ; where curves cross, neither "
    "is. The area between two curves is the difference of their means."
)

LOWER = "Here lower scores are better, so a label is better whose curve lies below."
"""Added to the text where raw scores are shown, and lower ones are better."""


@dataclass(frozen=True, slots=True)
class PerformanceProfilesSection:
    """Figure over all tasks, of normalised scores, or of raw scores on a single task."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        evidence = report.evidence
        if not evidence.labels:
            return None
        scale = common_scale(report.evidence, report.settings)
        lacking = without_anchors(scale, report) if scale else None
        block = _no_profile(lacking) if lacking else _figure(report, scale)
        lower = f" {LOWER}" if scale is None and evidence.is_minimised else ""
        about = (Text(text=f"{ABOUT}{lower}"),) if isinstance(block, LineFigure) else ()
        return SectionContent(
            name="profiles", title="Performance profiles", blocks=(*about, block)
        )


def _no_profile(reason: str) -> Callout:
    return Callout(tone=Tone.WARNING, text=f"No profile over all tasks: {reason}")


def _figure(report: ReportContext, scale: AnchorsByTask | None) -> LineFigure | Callout:
    evidence = report.evidence
    reasons = {label: _unscored(evidence, label) for label in evidence.labels}
    scores = {
        label: task_scores(evidence.of_label(label), scale)
        for label, reason in reasons.items()
        if not reason
    }
    notes = [f"{label}: — ({reason})." for label, reason in reasons.items() if reason]
    if not scores:
        return _no_profile(f"no label has a score on every task. {' '.join(notes)}")
    thresholds = _thresholds(list(scores.values()), report.settings.curve_points)
    level = report.settings.level
    profiles = {k: _profile(label_scores, thresholds, level) for k, label_scores in scores.items()}
    notes = [f"{k}: {_runs(evidence, k, profile)}." for k, profile in profiles.items()] + notes
    notes += [_about_bands(list(profiles.values()), level), _about_scale(scale)]
    kind = "score" if scale is None else "normalised score"
    return LineFigure(
        name="profiles",
        title=f"Share of runs with a {kind} above τ",
        x=Axis(title=f"{kind} τ"),
        y=Axis(title="share of runs", low=0.0, high=1.0),
        lines=tuple(_line(label, profile) for label, profile in profiles.items()),
        note=" ".join(note for note in notes if note),
    )


def _unscored(evidence: Evidence, label: str) -> str:
    """Why a label has no profile over all tasks; empty where it has one."""
    reasons = []
    for task in evidence.tasks:
        cell = evidence.cell(label, task)
        if cell is None:
            reasons.append(f"no run planned on {task}")
        elif not cell.n:
            reasons.append(f"no score on {task}: {run_states_text(cell.members)}")
    return "; ".join(reasons)


def _thresholds(scores: Sequence[TaskScores], points: int) -> NDArray[np.float64]:
    """Thresholds τ: every score, where the profile steps, or evenly spaced points if too many."""
    unique = np.unique(np.concatenate([label_scores.values for label_scores in scores]))
    # Equal scores have no span, and equal scores of 0 have no size either.
    span = float(unique[-1] - unique[0]) or abs(float(unique[0])) or 1.0
    # One point below the lowest score shows the profile at its start, where the share is 1.
    low = unique[0] - span / 20
    if len(unique) < points:
        return np.concatenate([[low], unique, [unique[-1] + span / 20]])
    return np.linspace(low, unique[-1] + span / 20, points)


def _profile(scores: TaskScores, thresholds: NDArray[np.float64], level: float) -> Profile:
    """The profile of a label, with a band where it has enough runs for an interval."""
    profile = performance_profile(scores, thresholds, level)
    reason = too_few(profile.n)
    return replace(profile, low=None, high=None, reason=reason) if reason else profile


def _line(label: str, profile: Profile) -> FigureLine:
    return FigureLine(
        label=label,
        x=tuple(profile.thresholds.tolist()),
        y=tuple(profile.fractions.tolist()),
        low=None if profile.low is None else tuple(profile.low.tolist()),
        high=None if profile.high is None else tuple(profile.high.tolist()),
        steps=True,
    )


def _runs(evidence: Evidence, label: str, profile: Profile) -> str:
    """Number of runs and tasks behind a profile, as a sentence."""
    cells = evidence.of_label(label)
    parts = [f"{profile.n} of {format_count(sum(cell.planned for cell in cells), 'run')}"]
    parts += [f"over {profile.tasks} tasks"] if profile.tasks > 1 else []
    worst = sum(cell.counted_as_worst for cell in cells)
    parts += (
        [f"({worst} of them without a score, counted as the task's {worst_end(evidence)})"]
        if worst
        else []
    )
    return " ".join(parts) + (f"; no band: {profile.reason}" if profile.reason else "")


def _about_bands(profiles: Sequence[Profile], level: float) -> str:
    methods = sorted({profile.method for profile in profiles if not profile.reason})
    if not methods:
        return ""
    return (
        f"Bands are pointwise {format_percentage(level)} intervals ({'; '.join(methods)}); with fewer than "
        "about ten runs on a single task they are too narrow."
    )


def _about_scale(scale: AnchorsByTask | None) -> str:
    sources = sorted({anchors.source for anchors in (scale or {}).values() if anchors})
    return f"Anchors (0 and 1): {'; '.join(sources)}." if sources else ""
