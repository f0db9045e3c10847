"""`rlexp sync`: pushes records to trackers that earlier commands could not push."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from signal import SIGINT
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.app.results import Schema
from rlexp.app.tracking.earlier_trackers import trackers_by_name, trackers_of
from rlexp.app.tracking.mirror_client import (
    ChosenTrackers,
    MirrorClient,
    MirrorRequest,
    destination_of,
    page_of,
)
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.config_files import group_options
from rlexp.config.overrides import parse_overrides
from rlexp.errors import ConfigError, RlexpError, did_you_mean
from rlexp.store.layout import ExperimentPaths
from rlexp.store.tracker_positions import tracker_locations

if TYPE_CHECKING:
    from rlexp.app.observer import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRow:
    """The state of one experiment in one tracker.

    Attributes:
        experiment: The name of the experiment.
        tracker: The name of the tracker; empty if its configuration cannot be read.
        place: The server or folder that the tracker writes to.
        pending: Number of points that are still to be pushed; null if it is unknown.
        problem: Why they could not be pushed; null if there was no problem.
        page: Where to look at what was pushed: a command, or an address; null if it is unknown.
    """

    experiment: str
    tracker: str
    place: str
    pending: int | None
    problem: str | None
    page: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOutcome:
    """The state of trackers after a synchronisation.

    Attributes:
        rows: One row for each experiment and tracker.
        trackers: The trackers to choose from, if no experiment was pushed to a tracker before;
            else null.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
    """

    schema: ClassVar[Schema] = Schema("pushed")

    rows: tuple[SyncRow, ...]
    trackers: tuple[str, ...] | None
    interrupted: str | None


def sync(
    arguments: Sequence[str],
    workspace: Workspace,
    *,
    wait: float = 300.0,
    observer: "Observer | None" = None,
) -> SyncOutcome:
    """Push everything to trackers that they do not have yet.

    Args:
        arguments: Experiments, or none for all; then overrides of trackers.
        workspace: The workspace of the experiments.
        wait: Time limit per experiment, in seconds.
        observer: Receives each problem when it occurs.

    Raises:
        RlexpError: There is no such experiment or tracker; nothing was pushed.
    """
    workspace.make_allowed_importable()
    names = [word for word in arguments if "=" not in word]
    settings = [word for word in arguments if "=" in word]
    _check_overrides(settings)
    experiments = [workspace.experiment(name) for name in names] or workspace.layout.experiments()
    rows: list[SyncRow] = []
    interrupted = False
    for paths in experiments:
        pushed, interrupted = _sync(paths, settings, wait, workspace, observer, named=bool(names))
        rows += pushed
        if interrupted:
            break
    existing = None if rows or settings else tuple(group_options("tracker", workspace.folder))
    return SyncOutcome(
        rows=tuple(rows), trackers=existing, interrupted=SIGINT.name if interrupted else None
    )


def _sync(
    paths: ExperimentPaths,
    settings: Sequence[str],
    wait: float,
    workspace: Workspace,
    observer: "Observer | None",
    *,
    named: bool,
) -> tuple[list[SyncRow], bool]:
    """Push one experiment; returns its rows and whether Ctrl-C interrupted the push."""
    try:
        trackers = _trackers(paths, settings, workspace=workspace, named=named)
        if not trackers.built:
            return [], False
    except RlexpError as error:
        # Without named experiments, a problem of one must not prevent the others.
        if named:
            raise
        return [_row(paths, "", "", {"problem": str(error), "rows": None})], False
    order = MirrorRequest(trackers=trackers, once=True, wait=wait)
    mirror = MirrorClient(paths, order, workspace, observer)
    answers = mirror.finish()
    rows = [
        replace(
            _row(paths, name, destination_of(tracker, paths), answers.get(name)),
            page=page_of(name, tracker, paths, answers.get(name)),
        )
        for name, tracker in trackers.built.items()
    ]
    return rows, mirror.interrupted


def _row(
    paths: ExperimentPaths, tracker: str, location: str, answer: Mapping[str, Any] | None
) -> SyncRow:
    last = answer or {"problem": "the push did not end in time; repeat the command"}
    return SyncRow(
        experiment=paths.name,
        tracker=tracker,
        place=location,
        pending=last.get("rows"),
        problem=last.get("problem"),
    )


def _trackers(
    paths: ExperimentPaths, settings: Sequence[str], *, workspace: Workspace, named: bool
) -> ChosenTrackers:
    """The trackers that overrides name; else those of the configuration and of earlier commands.

    Raises:
        ConfigError: A tracker is unknown, or is now configured for another location than before.
    """
    if any(word.lstrip("+").startswith("tracker=") for word in settings):
        return trackers_of(settings, paths, workspace)
    used = tracker_locations(paths)
    usual = list(compose([], workspace.folder)[0].plain["tracker"] or {}) if used or named else []
    existing = group_options("tracker", workspace.folder)
    chosen = list(dict.fromkeys([*usual, *(name for name, _ in used if name in existing)]))
    if not chosen:
        return ChosenTrackers()
    return trackers_by_name(chosen, settings, used, paths, workspace)


def _check_overrides(settings: Sequence[str]) -> None:
    """Check that all overrides concern trackers.

    Raises:
        ConfigError: An override concerns something else.
    """
    for word, parsed in zip(settings, parse_overrides(settings), strict=True):
        key = parsed.key_or_group
        if key.split(".")[0] != "tracker":
            hint = did_you_mean(key.split(".")[0], ["tracker"])
            raise ConfigError(
                f"{word}: 'rlexp sync' takes experiments and overrides of trackers, "
                f"as in tracker=[mlflow]{hint}"
            )
