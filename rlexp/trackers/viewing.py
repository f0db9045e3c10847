"""Where users look at what a tracker has received, and which package a tracker needs.

A tracker may say both. One that says nothing, such as a tracker of a user, works all the same.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rlexp.errors import TrackerRefused
from rlexp.installation_way import install_command
from rlexp.trackers import Tracker


@runtime_checkable
class HasPage(Protocol):
    """A tracker that knows where its service shows what it has received."""

    def where_to_look(self, project: Path, folder: Path) -> str:
        """One line with the command or address, to be pasted in the project's folder.

        Args:
            project: The folder that holds `runs/`.
            folder: The folder of the tracker's files of one experiment.
        """
        ...


@runtime_checkable
class NeedsPackage(Protocol):
    """A tracker that needs an optional package; the extra of rlexp has the same name."""

    @property
    def package(self) -> str:
        """The name of the package, as it is imported."""
        ...


@runtime_checkable
class HasEarlierSettings(Protocol):
    """A tracker that knows from its positions which settings an earlier command gave it."""

    def earlier_settings(
        self, project: Path, kept: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, str]:
        """The settings that differ from the present ones, by name.

        Args:
            project: The folder that holds `runs/`.
            kept: What the tracker has kept of each pushed run; see `SyncPosition`.
        """
        ...


def earlier_settings(
    tracker: Tracker, project: Path, kept: Sequence[Mapping[str, Any]]
) -> Mapping[str, str]:
    """The settings of an earlier command that a command without settings must keep."""
    if isinstance(tracker, HasEarlierSettings):
        return tracker.earlier_settings(project, kept)
    return {}


@runtime_checkable
class KeepsReports(Protocol):
    """A tracker that says whether it keeps the files of a report."""

    @property
    def keeps_reports(self) -> bool:
        """Whether it keeps them."""
        ...


def keeps_reports(tracker: Tracker) -> bool:
    """Whether a tracker keeps the files of a report; one that does not say receives them."""
    return not isinstance(tracker, KeepsReports) or tracker.keeps_reports


def where_to_look(tracker: Tracker, project: Path, folder: Path) -> str | None:
    """Where a tracker shows what it has received; None if the tracker does not say."""
    if not isinstance(tracker, HasPage) or not tracker.destination(project):
        return None
    return tracker.where_to_look(project, folder) or None


def missing_package(tracker: Tracker) -> TrackerRefused | None:
    """The error that a tracker's package is not installed; None if it is."""
    if not isinstance(tracker, NeedsPackage) or find_spec(tracker.package) is not None:
        return None
    return not_installed(tracker.package)


def not_installed(package: str) -> TrackerRefused:
    """The error that a tracker's package is not installed, with the command that installs it."""
    return TrackerRefused.missing_package(f"{package} is not installed", install_command(package))


def shown_path(path: Path, project: Path) -> str:
    """A path relative to the project's folder, where it is inside."""
    return str(path.relative_to(project) if path.is_relative_to(project) else path)
