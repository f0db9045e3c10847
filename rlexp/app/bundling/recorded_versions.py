"""The software that the runs of a study were executed with, as their attempts recorded it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.execution.software_versions import collect_versions
from rlexp.app.reading.provenance import provenance_of
from rlexp.datasets.minari import PACKAGES
from rlexp.exchange.exporters.script import render_requirements
from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths
from rlexp.text import format_count

RLEXP = "rlexp"


@dataclass(frozen=True, slots=True)
class RecordedVersions:
    """Python and the packages of some attempts.

    Attributes:
        python: The version of Python.
        packages: The versions by name.
        attempts: The attempts, as `EXPERIMENT/RUN/ATTEMPT`.
    """

    python: str
    packages: Mapping[str, str]
    attempts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedPlaces:
    """What provenance says about the machines of a study; records cannot be changed any more.

    Attributes:
        folders: The folders of the workspaces, and the Python programs.
        hosts: The names of the machines.
        remotes: The addresses of the repositories.
        commits: The commits of the code; attempts without one are not counted.
        patches: Number of attempts with uncommitted changes.
    """

    folders: tuple[str, ...]
    hosts: tuple[str, ...]
    remotes: tuple[str, ...]
    commits: tuple[str, ...]
    patches: int


def read_versions(
    experiments: Iterable[ExperimentPaths],
) -> tuple[list[RecordedVersions], RecordedPlaces]:
    """The versions of every attempt, those of most attempts first, and the places of the attempts."""
    groups: dict[str, list[str]] = {}
    content: dict[str, tuple[str, dict[str, str]]] = {}
    places: dict[str, set[str]] = {
        key: set() for key in ("folders", "hosts", "remotes", "commits")
    }
    patches = 0
    for paths in experiments:
        for run in paths.runs():
            for attempt in run.attempts():
                provenance = provenance_of(attempt)
                _note_places(provenance, places)
                patches += attempt.patch.exists() and attempt.patch.stat().st_size > 0
                packages = _mapping(provenance.get("packages"))
                if not packages:
                    continue
                python = str(provenance.get("python"))
                key = json.dumps([python, packages], sort_keys=True)
                content[key] = python, packages
                groups.setdefault(key, []).append(
                    f"{paths.name}/{run.folder.name}/{attempt.number}"
                )
    ordered = sorted(groups, key=lambda key: (-len(groups[key]), groups[key][0]))
    versions = [RecordedVersions(*content[key], tuple(groups[key])) for key in ordered]
    named = {key: tuple(sorted(values)) for key, values in places.items()}
    return versions, RecordedPlaces(**named, patches=patches)


def _note_places(provenance: Mapping[str, Any], places: Mapping[str, set[str]]) -> None:
    code, machine = _of(provenance, "code"), _of(provenance, "machine")
    for key, value in (
        ("folders", provenance.get("folder")),
        ("folders", provenance.get("executable")),
        ("hosts", machine.get("host")),
        ("remotes", code.get("remote")),
        ("commits", code.get("commit")),
    ):
        if value:
            places[key].add(str(value))


def _of(provenance: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = provenance.get(key)
    return value if isinstance(value, Mapping) else {}


def _mapping(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def needed_packages(specs: Iterable[RunSpec], recorded: Mapping[str, str]) -> tuple[str, ...]:
    """The recorded packages, besides rlexp, that some runs need to give the same numbers."""
    every = list(specs)
    names = {name for spec in every for name in collect_versions(spec)}
    if any(spec.dataset is not None for spec in every):
        names |= {name for packages in PACKAGES.values() for name in packages}
    return tuple(sorted(names.intersection(recorded) - {RLEXP}))


def constraints(versions: Sequence[RecordedVersions]) -> bytes:
    """The exact versions of most attempts as constraints of pip; empty where none were recorded."""
    if not versions:
        return b"# No versions of packages were recorded.\n"
    first = versions[0]
    names = [name for name in first.packages if name != RLEXP]
    head = f"# The versions of {format_count(len(first.attempts), 'attempt')}. rlexp is installed beside them.\n"
    return (head + render_requirements(names, first.packages, first.python)).encode()


def versions_document(versions: Sequence[RecordedVersions]) -> bytes:
    """Every set of versions with its attempts, as JSON."""
    content = [
        {"python": v.python, "attempts": list(v.attempts), "packages": dict(v.packages)}
        for v in versions
    ]
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
