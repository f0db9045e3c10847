"""The manifest of a checkpoint: the list of its files with their checksums."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from rlexp.errors import RecordError
from rlexp.store import schemas

MANIFEST = "manifest.json"
"""A folder with this file is a checkpoint."""
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_CHUNK = re.compile(r"[0-9]+-[0-9]+\.npz", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class Sum:
    """The checksum of a file: its sha256 and its size in bytes."""

    sha256: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> "Sum":
        """The checksum of a file with this content."""
        return cls(hashlib.sha256(content).hexdigest(), len(content))

    def plain(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"sha256": self.sha256, "bytes": self.size}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file of the replay folder with the run's transitions `begin` to `end` - 1."""

    begin: int
    end: int
    sum: Sum

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.begin}-{self.end}.npz"


def is_chunk(name: str) -> bool:
    """Whether a file of this name is a chunk."""
    return _CHUNK.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of a checkpoint.

    Attributes:
        step: Environment steps that the run had taken.
        about: Origin of the checkpoint: run, attempt, versions.
        files: The checksum of each file in the checkpoint's folder, by its name.
        oldest: Number of the oldest transition in the replay buffer; 0 without a buffer.
        transitions: The chunks that hold the buffer's transitions, oldest first, without a gap.
        resumable: Whether a run can continue from it; False once its chunks were removed.
    """

    step: int
    about: Mapping[str, Any]
    files: Mapping[str, Sum]
    oldest: int = 0
    transitions: tuple[Chunk, ...] = ()
    resumable: bool = True

    def encode(self) -> bytes:
        """The content of the file; its last key is the checksum of all other keys."""
        document = {
            **schemas.MANIFEST.head(),
            "step": self.step,
            "about": dict(self.about),
            "files": {name: total.plain() for name, total in self.files.items()},
            "oldest": self.oldest,
            "transitions": [
                {"name": c.name, "begin": c.begin, "end": c.end, **c.sum.plain()}
                for c in self.transitions
            ],
            "resumable": self.resumable,
        }
        return _with_sum(document)


def decode_manifest(content: bytes) -> Manifest:
    """The inverse of `Manifest.encode`; the content is not trusted.

    Raises:
        ValueError: The content is no manifest, or was changed; gives the reason.
    """
    try:
        document = json.loads(content)
        schemas.MANIFEST.check(document, "it")
        document.pop("sum", None)
        # Compared byte by byte with what would be written: this also refuses duplicate keys and
        # other forms of JSON that parse to the same values.
        if _with_sum(document) != content:
            raise ValueError("it was changed after it was written")
        manifest = _manifest(document)
    except RecordError as error:
        raise ValueError(str(error)) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no manifest: {error!r}") from error
    check_transitions(manifest.transitions, manifest.oldest)
    return manifest


def check_transitions(chunks: tuple[Chunk, ...], oldest: int) -> None:
    """Check that chunks follow each other without a gap, from `oldest` or an earlier transition.

    Raises:
        ValueError: A range of transitions is missing, empty or duplicated; names it.
    """
    begin = chunks[0].begin if chunks else 0
    if begin > oldest:
        raise ValueError(f"transitions {oldest} to {begin} are missing")
    if oldest > (chunks[-1].end if chunks else 0):
        raise ValueError(f"transition {oldest} is missing")
    if any(chunk.begin >= chunk.end for chunk in chunks):
        raise ValueError("a stretch of transitions is empty")
    for chunk, following in pairwise(chunks):
        if chunk.end != following.begin:
            raise ValueError(f"after transition {chunk.end} comes {following.begin}")


def _with_sum(document: Mapping[str, Any]) -> bytes:
    total = hashlib.sha256(json.dumps(document, allow_nan=False).encode()).hexdigest()
    return (json.dumps({**document, "sum": total}, indent=1, allow_nan=False) + "\n").encode()


def _manifest(document: Mapping[str, Any]) -> Manifest:
    manifest = Manifest(
        step=_count(document["step"]),
        about=_mapping(document["about"]),
        files={_name(key): _sum(value) for key, value in _mapping(document["files"]).items()},
        oldest=_count(document["oldest"]),
        transitions=tuple(_chunk(item) for item in _list(document["transitions"])),
        resumable=document["resumable"] is True,
    )
    if document["resumable"] is not manifest.resumable:
        _refuse(document["resumable"], "neither true nor false")
    return manifest


def _chunk(document: Any) -> Chunk:
    chunk = Chunk(_count(document["begin"]), _count(document["end"]), _sum(document))
    return (
        chunk if document["name"] == chunk.name else _refuse(document["name"], "no chunk's name")
    )


def _sum(document: Any) -> Sum:
    digest, size = document["sha256"], _count(document["bytes"])
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        _refuse(digest, "no sha256")
    return Sum(digest, size)


def _name(word: str) -> str:
    return word if _FILE.fullmatch(word) and word != MANIFEST else _refuse(word, "no file's name")


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _MOST else _refuse(value, "no count")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _refuse(value, "no mapping")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else _refuse(value, "no list")


def _refuse(value: Any, what: str) -> NoReturn:
    raise ValueError(f"{value!r:.60} is {what}")
