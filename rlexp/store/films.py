"""The films of a run's episodes: video files with a description beside each.

They are no records: no number is computed from them, and they may be removed at any time.
"""

from collections.abc import Iterator
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.records.film import FilmRecord
from rlexp.store.files import publish_json, read_json
from rlexp.store.registers.ledger import sum_of_file

FOLDER = "videos"
"""The folder of the films in a workspace; it has a folder for each filmed run."""
ENDINGS = (".mp4", ".gif")
"""Endings of the names of video files."""


def write_description(video: Path, film: FilmRecord) -> None:
    """Write the description of a film beside its video file.

    Raises:
        OSError: It cannot be written.
    """
    publish_json(video.with_suffix(".json"), film.plain())


def read_films(folder: Path) -> Iterator[tuple[FilmRecord, Path]]:
    """The films in the folder of a run with their video files, by seed set and episode.

    A file without a readable description, or that has changed since, is left out.
    """
    described = []
    try:
        videos = sorted(p for p in folder.iterdir() if p.suffix in ENDINGS)
    except OSError:
        return
    for video in videos:
        try:
            film = FilmRecord.from_plain(read_json(video.with_suffix(".json")))
        except (RecordError, ValueError):
            continue
        described.append((film, video))
    for film, video in sorted(described, key=lambda each: (each[0].draw, each[0].episode)):
        if sum_of_file(video) == film.sum:
            yield film, video
