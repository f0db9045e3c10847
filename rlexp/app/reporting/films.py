"""The films of episodes on the page of a report."""

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from rlexp.app.workspace import Workspace
from rlexp.reports.drawing.blocks import EpisodeFilm, ReportDocument
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.store.files import read_file
from rlexp.store.films import FOLDER, read_films
from rlexp.store.run_stamps import stamp_of_tree

MOST_FILMS = 4
"""Most films on a page."""
LARGEST_EMBEDDED = 2_000_000
"""Bytes of a video file up to which a page contains it; the page links a larger one."""
MEDIA_TYPES: Mapping[str, str] = {".mp4": "video/mp4", ".gif": "image/gif"}
"""Media types of video files by the endings of their names."""


def with_films(study: ReportDocument, evidence: Evidence, workspace: Workspace) -> ReportDocument:
    """The report with a film of each of the first labels that have one."""
    films: list[EpisodeFilm] = []
    for label in evidence.labels:
        members = (m for cell in evidence.of_label(label) for m in cell.members)
        film = next(_films(members, workspace), None)
        films += [film] if film else []
        if len(films) == MOST_FILMS:
            break
    return replace(study, films=tuple(films))


def _films(members: Iterable[PlannedRun], workspace: Workspace) -> Iterator[EpisodeFilm]:
    """The films of final policies in order of task, seed and episode, which no return changes."""
    for member in members:
        record = member.record
        for film, video in read_films(workspace.folder / FOLDER / record.spec.name):
            # The folder may hold films of a run of the same name that was removed.
            if film.weights is not None and film.weights == record.weights:
                yield EpisodeFilm(
                    label=member.label,
                    task=member.task,
                    run=member.name,
                    seed=record.spec.seed,
                    draw=film.draw,
                    episode=film.episode,
                    episode_return=film.episode_return,
                    length=film.length,
                    deterministic=film.deterministic,
                    file=video.relative_to(workspace.folder).as_posix(),
                    sum=film.sum,
                    bytes=video.stat().st_size,
                )


def film_addresses(study: ReportDocument, workspace: Path, folder: Path) -> dict[str, str]:
    """The address of each film for a page in `folder`, by the name of its file.

    A small film is the address itself. The page then needs no other file.

    Args:
        study: The report.
        workspace: The folder of the workspace.
        folder: The folder of the page.
    """
    return {
        film.file: embedded_film(film, workspace)
        or quote(os.path.relpath(workspace / film.file, folder))
        for film in study.films
    }


def served_films(study: ReportDocument, workspace: Path) -> dict[str, EpisodeFilm]:
    """The films that are too large for a page, by the names under which a live page links them."""
    return {
        f"film-{film.sum[:16]}{Path(film.file).suffix}": film
        for film in study.films
        if not embedded_film(film, workspace)
    }


def stamp_of_films(workspace: Path, before: float) -> str | None:
    """A digest of the stamps of all films of a workspace; None where it is not reliable.

    Args:
        workspace: The folder of the workspace.
        before: A time in seconds since 1970; see `stamp_of_tree`.
    """
    folder = os.path.realpath(workspace / FOLDER)
    return stamp_of_tree(folder, before) if Path(folder).is_dir() else ""


def embedded_film(film: EpisodeFilm, workspace: Path) -> str:
    """The address that contains a film; empty for a large one, and one that is gone."""
    if film.bytes > LARGEST_EMBEDDED:
        return ""
    try:
        content = read_file(workspace / film.file)
    except OSError:
        return ""
    return f"data:{media_type(film.file)};base64,{b64encode(content).decode()}"


def media_type(name: str) -> str:
    """The media type of a video file."""
    return MEDIA_TYPES[Path(name).suffix]
