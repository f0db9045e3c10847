"""Transitions that members of a population share: files of their replay buffers, under one digest.

The digest names which transitions of which runs they are. Files are hard links where the file system
allows, so that sharing costs no copy.
"""

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.identity import digest as digest_of
from rlexp.records.checkpoint import MODEL, Transitions
from rlexp.store.checkpoints.checkpoint_folders import (
    clear_stale,
    entries,
    hidden,
    link,
    make_folder,
    read_summed,
)
from rlexp.store.checkpoints.inheritance import KeptCopy
from rlexp.store.checkpoints.manifest import Chunk, Sum
from rlexp.store.files import json_bytes, parse_json, publish, read_file, sync
from rlexp.store.layout import ExperimentPaths, check_digest
from rlexp.store.schemas import EXPERIENCE

SOURCES = "sources.json"
FOREIGN_END = "experience_end"
"""Number in a saved learner: the row behind the last one that came from other runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceSource:
    """The transitions of one run.

    Attributes:
        run: The id of the run.
        step: The step of the copy that holds them.
        digest: The digest of that copy.
        begin: The number of the first row; a row holds one transition of each environment.
        end: The number of the row behind the last one.
    """

    run: str
    step: int
    digest: str
    begin: int
    end: int


def source_of(copy: KeptCopy) -> ExperienceSource:
    """The transitions that a run has made since it last received those of others.

    Raises:
        RecordError: The copy holds no replay buffer, or cannot be read.
    """
    chunks = copy.manifest.transitions
    if not chunks:
        raise RecordError(f"run {copy.run.folder.name} keeps no replay buffer to share")
    try:
        with zipfile.ZipFile(copy.folder / MODEL) as archive:
            foreign = int(json.loads(archive.read("data")).get(FOREIGN_END, 0))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RecordError(f"{copy.folder / MODEL} is damaged: {error!r}") from error
    begin = max(foreign, copy.manifest.oldest)
    parent = copy.parent
    return ExperienceSource(
        run=parent.run, step=parent.step, digest=parent.digest, begin=begin, end=chunks[-1].end
    )


def keep_experience(experiment: ExperimentPaths, copies: Sequence[KeptCopy]) -> str:
    """Keep the transitions of runs beyond their replay buffers; returns the digest.

    A process that is killed meanwhile leaves nothing that counts, and a repetition completes it.

    Raises:
        OSError: The disk is full or fails.
        RecordError: A copy is damaged, or holds no replay buffer.
    """
    sources = [source_of(copy) for copy in copies]
    digest = digest_of([asdict(source) for source in sources])
    folder = experiment.experience / digest
    if (folder / SOURCES).exists():
        return digest
    make_folder(experiment.experience)
    clear_stale(experiment.experience, {digest})
    temporary = hidden(experiment.experience, digest)
    temporary.mkdir()
    documents = [
        _link_rows(copy, source, temporary, position)
        for position, (copy, source) in enumerate(zip(copies, sources, strict=True))
    ]
    publish(temporary / SOURCES, json_bytes({"sources": documents}, EXPERIENCE))
    sync(temporary)
    temporary.rename(folder)
    sync(experiment.experience)
    return digest


def _link_rows(
    copy: KeptCopy, source: ExperienceSource, folder: Path, position: int
) -> dict[str, Any]:
    """Link the files with the rows of a source; returns its entry in the list of sources."""
    chunks = [c for c in copy.manifest.transitions if c.end > source.begin]
    for chunk in chunks:
        # A damaged buffer would be shared with every member.
        read_summed(copy.run.replay, chunk.name, chunk.sum)
        link(copy.run.replay / chunk.name, folder / f"{position}-{chunk.name}")
    files = [{"begin": c.begin, "end": c.end, **c.sum.plain()} for c in chunks]
    return {**asdict(source), "files": files}


def find_experience(experiment: ExperimentPaths, digest: str) -> Path:
    """The folder with shared transitions, of this experiment or of another one beside it.

    Raises:
        RecordError: The workspace does not hold them.
    """
    check_digest(digest, "algorithm.experience", "transitions")
    others = sorted(experiment.folder.parent.glob(f"*/{experiment.experience.name}/{digest}"))
    for folder in (experiment.experience / digest, *others):
        if (folder / SOURCES).is_file():
            return folder
    raise RecordError(
        f"no experiment of this workspace holds the transitions {digest[:10]}, which the members of a "
        "population have shared: put the experiment back that made them"
    )


def copy_experience(source: ExperimentPaths, target: ExperimentPaths, digest: str) -> None:
    """Give another experiment the shared transitions that its trainings receive.

    Raises:
        OSError: The disk is full or fails.
        RecordError: The workspace of the source does not hold them.
    """
    folder = find_experience(source, digest)
    if (target.experience / digest / SOURCES).is_file():
        return
    make_folder(target.experience)
    clear_stale(target.experience, {digest})
    temporary = hidden(target.experience, digest)
    temporary.mkdir()
    for path in entries(folder):
        link(path, temporary / path.name)
    sync(temporary)
    temporary.rename(target.experience / digest)
    sync(target.experience)


def read_experience(experiment: ExperimentPaths, digest: str) -> Iterator[Transitions]:
    """The shared transitions in their order: rows `begin` to `end` of each content.

    Raises:
        RecordError: They are missing, damaged, or others than the digest says.
    """
    folder = find_experience(experiment, digest)
    try:
        document = parse_json(read_file(folder / SOURCES))
        EXPERIENCE.check(document, folder / SOURCES)
        entries = [(_source(entry), _chunks(entry)) for entry in document["sources"]]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{folder / SOURCES} is damaged: {error!r}") from error
    if digest_of([asdict(source) for source, _ in entries]) != digest:
        raise RecordError(f"{folder} does not hold the transitions that its name says")
    for position, (source, chunks) in enumerate(entries):
        for chunk in chunks:
            content = read_summed(folder, f"{position}-{chunk.name}", chunk.sum)
            # The numbers count from the first row of the file.
            first = max(source.begin - chunk.begin, 0)
            yield Transitions(first, min(chunk.end, source.end) - chunk.begin, content)


def _source(entry: dict[str, Any]) -> ExperienceSource:
    return ExperienceSource(**{k: v for k, v in entry.items() if k != "files"})


def _chunks(entry: dict[str, Any]) -> list[Chunk]:
    return [
        Chunk(int(f["begin"]), int(f["end"]), Sum(str(f["sha256"]), int(f["bytes"])))
        for f in entry["files"]
    ]
