"""Attaches a written report to the trackers that its experiment was pushed to.

A tracker that fails is named, and changes nothing about the report.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.observer import Observer, SilentObserver
from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.app.tracking.earlier_trackers import trackers_by_name
from rlexp.app.tracking.mirror_client import (
    ChosenTrackers,
    MirrorClient,
    MirrorRequest,
    destination_of,
    page_of,
)
from rlexp.app.tracking.mirror_process import REPORT, SUMMARY
from rlexp.app.tracking.tracked_records import report_sums
from rlexp.app.workspace import Workspace
from rlexp.errors import RlexpError
from rlexp.store.layout import ExperimentPaths
from rlexp.store.tracker_positions import TrackerPositions, tracker_locations
from rlexp.trackers import Tracker
from rlexp.trackers.viewing import keeps_reports

IN_USE = "another process pushes to it now, and attaches the report when it ends"
EMPTY = "it has no run so far"
WAIT = 30.0
"""Seconds that trackers may take; a push on a busy machine takes some of them."""
LATE = "it did not answer in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAttachment:
    """Whether a tracker has the files of a report.

    Attributes:
        tracker: The name of the tracker; empty if the records of trackers cannot be read.
        attached: Whether the tracker has the files.
        problem: Why it does not have them; null if it has.
        page: Where to look at them: a command, or an address; null if it is unknown.
        command: The command that attaches the report later; null if there is nothing to do, or if
            the problem names other words.
    """

    tracker: str
    attached: bool
    problem: str | None = None
    page: str | None = None
    command: str | None = None


def attach_report(
    paths: ExperimentPaths, workspace: Workspace, observer: Observer | None = None
) -> tuple[ReportAttachment, ...]:
    """Attach the files in `reports/EXPERIMENT` to every tracker of the experiment that lacks them.

    Args:
        paths: The experiment.
        workspace: The workspace of the experiment.
        observer: Receives a remark before trackers are waited for.

    Returns:
        One entry for each tracker that keeps reports; none if the experiment was never pushed.
    """
    try:
        used = tracker_locations(paths)
    except (RlexpError, *READ_ERRORS) as error:
        return (ReportAttachment(tracker="", attached=False, problem=str(error)),)
    command = _sync_command(paths, workspace)
    states: dict[str, ReportAttachment] = {}
    lacking: list[_EarlierTracker] = []
    for name in dict.fromkeys(name for name, _ in used):
        try:
            # Each alone: a tracker that cannot be built must not prevent the others.
            chosen = trackers_by_name([name], (), used, paths, workspace)
            earlier = _EarlierTracker(name, chosen)
            if not keeps_reports(earlier.tracker) or not destination_of(earlier.tracker, paths):
                continue
            if (state := _state(earlier, paths, command)) is not None:
                states[name] = state
            else:
                lacking.append(earlier)
        except (RlexpError, *READ_ERRORS) as error:
            states[name] = ReportAttachment(tracker=name, attached=False, problem=str(error))
    if lacking:
        states |= _push(lacking, paths, workspace, observer or SilentObserver())
    return tuple(states[name] for name in sorted(states))


@dataclass(frozen=True, slots=True)
class _EarlierTracker:
    """A tracker that was used before: its name, and how it is configured."""

    name: str
    chosen: ChosenTrackers

    @property
    def tracker(self) -> Tracker:
        return self.chosen.built[self.name]


def _sync_command(paths: ExperimentPaths, workspace: Workspace) -> str:
    return shlex.join(["rlexp", "sync", paths.name, *workspace.permission])


def _state(
    earlier: _EarlierTracker, paths: ExperimentPaths, command: str
) -> ReportAttachment | None:
    """Whether a tracker has the report; None if it has to be pushed."""
    name, tracker = earlier.name, earlier.tracker
    positions = TrackerPositions(paths, name, destination_of(tracker, paths))
    if positions.of(SUMMARY).kept.get(REPORT) == report_sums(paths):
        page = page_of(name, tracker, paths, {"done": True})
        return ReportAttachment(tracker=name, attached=True, page=page)
    if positions.held:
        return ReportAttachment(tracker=name, attached=False, problem=IN_USE)
    if not positions.pushed():
        # The first push has failed, and its settings are not known here: the user decides.
        return ReportAttachment(tracker=name, attached=False, problem=EMPTY, command=command)
    return None


def _push(
    lacking: Sequence[_EarlierTracker],
    paths: ExperimentPaths,
    workspace: Workspace,
    observer: Observer,
) -> dict[str, ReportAttachment]:
    chosen = ChosenTrackers(
        {e.name: e.tracker for e in lacking}, {e.name: e.chosen.plain[e.name] for e in lacking}
    )
    observer.note(f"attaching the report in {', '.join(chosen.built)} …")
    request = MirrorRequest(trackers=chosen, once=True, wait=WAIT, retries=False)
    answers = MirrorClient(paths, request, workspace, None).finish()
    command = _sync_command(paths, workspace)
    return {e.name: _pushed(e, paths, answers.get(e.name, {}), command) for e in lacking}


def _pushed(
    earlier: _EarlierTracker, paths: ExperimentPaths, answer: Mapping[str, Any], command: str
) -> ReportAttachment:
    """Whether a tracker has taken the report; `command` attaches it later."""
    # The stored position decides: the report may be there although something else was refused.
    state = _state(earlier, paths, command)
    if state is not None and state.attached:
        return state
    problem = str(answer.get("problem") or LATE)
    return ReportAttachment(tracker=earlier.name, attached=False, problem=problem, command=command)
