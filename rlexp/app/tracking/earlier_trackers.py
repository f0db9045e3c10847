"""The trackers that an experiment was pushed to before, built from the present configuration.

Records give only the names of trackers, never their servers: records may come from another person,
and credentials would be sent to any server that they name.
"""

import shlex
from collections.abc import Mapping, Sequence

from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.app.tracking.mirror_client import ChosenTrackers, destination_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build_named
from rlexp.errors import ConfigError, RlexpError
from rlexp.store.layout import ExperimentPaths
from rlexp.store.tracker_positions import TrackerPositions
from rlexp.trackers import Tracker
from rlexp.trackers.viewing import earlier_settings


def trackers_by_name(
    names: Sequence[str],
    settings: Sequence[str],
    used: Sequence[tuple[str, str]],
    paths: ExperimentPaths,
    workspace: Workspace,
) -> ChosenTrackers:
    """The trackers of these names, with the settings of the configuration and of overrides.

    Args:
        names: Names of trackers.
        settings: Overrides of trackers.
        used: The trackers that the experiment was pushed to, each with its location.
        paths: The experiment.
        workspace: The workspace of the experiment.

    Raises:
        ConfigError: A tracker is unknown, or is now configured for another location than before.
    """
    chosen = trackers_of([f"tracker=[{','.join(names)}]", *settings], paths, workspace)
    _check_locations(chosen.built, used, paths)
    return chosen


def trackers_of(
    overrides: Sequence[str], paths: ExperimentPaths, workspace: Workspace
) -> ChosenTrackers:
    """The trackers of overrides, with the settings of earlier pushes that must be kept.

    Args:
        overrides: Overrides that name trackers, and their settings.
        paths: The experiment.
        workspace: The workspace of the experiment.

    Raises:
        ConfigError: A tracker is unknown.
    """
    chosen = _compose_trackers(overrides, workspace)
    kept = [
        f"tracker.{name}.{key}={value}"
        for name, tracker in chosen.built.items()
        for key, value in _earlier_settings(name, tracker, paths).items()
    ]
    return _compose_trackers([*overrides, *kept], workspace) if kept else chosen


def _compose_trackers(overrides: Sequence[str], workspace: Workspace) -> ChosenTrackers:
    settings_by_tracker = compose(overrides, workspace.folder)[0].plain["tracker"] or {}
    built = build_named(settings_by_tracker, "tracker", workspace.allowed)
    return ChosenTrackers(built, settings_by_tracker)


def _earlier_settings(name: str, tracker: Tracker, paths: ExperimentPaths) -> Mapping[str, str]:
    """The settings of earlier pushes that must be kept; none where nothing was pushed."""
    location = destination_of(tracker, paths)
    try:
        positions = TrackerPositions(paths, name, location).pushed() if location else []
    except (RlexpError, *READ_ERRORS):
        # The push reads the same file: it names the problem, and sends nothing to this tracker.
        return {}
    kept = [position.kept for position in positions]
    return earlier_settings(tracker, paths.folder.parent.parent, kept) if kept else {}


def _check_locations(
    built: Mapping[str, Tracker], used: Sequence[tuple[str, str]], paths: ExperimentPaths
) -> None:
    for name, tracker in built.items():
        before = [location for used_name, location in used if used_name == name]
        now = destination_of(tracker, paths)
        if before and now not in before:
            again = shlex.join(["rlexp", "sync", paths.name, f"tracker=[{name}]"])
            raise ConfigError(
                f"{paths.name} was pushed by {name} to {before[-1]}, but {name} is now configured "
                f"for {now}: name the tracker and its settings: {again} tracker.{name}.…"
            )
