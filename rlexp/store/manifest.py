"""The manifest of a checkpoint: which files it has, and the sums by which they are known."""

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
"""The file in a checkpoint's folder that makes it one."""
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_CHUNK = re.compile(r"[0-9]+-[0-9]+\.npz", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class Sum:
    """What a file must be: its digest, and its size in bytes."""

    sha256: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> "Sum":
        """The sum of a file with this content."""
        return cls(hashlib.sha256(content).hexdigest(), len(content))

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"sha256": self.sha256, "bytes": self.size}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file of the replay folder: the run's transitions from `begin` to before `end`."""

    begin: int
    end: int
    sum: Sum

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.begin}-{self.end}.npz"


def is_chunk(name: str) -> bool:
    """Whether a file of this name is a chunk, needed or not."""
    return _CHUNK.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a checkpoint consists of.

    Attributes:
        step: Environment steps that the run had taken.
        about: Its origin: run, attempt, versions.
        files: The sum of each file in the checkpoint's folder, by its name.
        oldest: The first transition that the replay buffer held; 0 where there is none.
        transitions: The chunks that hold the buffer's transitions, oldest first, without a gap.
        resumable: Whether a run can continue from it; not once its experience was removed.
    """

    step: int
    about: Mapping[str, Any]
    files: Mapping[str, Sum]
    oldest: int = 0
    transitions: tuple[Chunk, ...] = ()
    resumable: bool = True

    def encode(self) -> bytes:
        """The manifest as a file, which ends with the sum of everything before."""
        plain = {
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
        return _with_sum(plain)


def decode_manifest(content: bytes) -> Manifest:
    """The inverse of `Manifest.encode`, of a file that anybody may have written.

    Raises:
        ValueError: It is no manifest, or not as it was written; says what is wrong.
    """
    try:
        plain = json.loads(content)
        schemas.MANIFEST.check(plain, "it")
        plain.pop("sum", None)
        if _with_sum(plain) != content:
            raise ValueError("it was changed after it was written")
        manifest = _manifest(plain)
    except RecordError as error:
        raise ValueError(str(error)) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no manifest: {error!r}") from error
    check_transitions(manifest.transitions, manifest.oldest)
    return manifest


def check_transitions(chunks: tuple[Chunk, ...], oldest: int) -> None:
    """Make sure that chunks follow each other without a gap, from `oldest` or before it on.

    Raises:
        ValueError: A stretch is missing, empty or there twice; says which.
    """
    begin = chunks[0].begin if chunks else 0
    if begin > oldest:
        raise ValueError(f"transitions {oldest} to {begin} are missing")
    if oldest > (chunks[-1].end if chunks else 0):
        raise ValueError(f"transition {oldest} is missing")
    if any(chunk.begin >= chunk.end for chunk in chunks):
        raise ValueError("a stretch of transitions is empty")
    for one, other in pairwise(chunks):
        if one.end != other.begin:
            raise ValueError(f"after transition {one.end} comes {other.begin}")


def _with_sum(plain: Mapping[str, Any]) -> bytes:
    total = hashlib.sha256(json.dumps(plain, allow_nan=False).encode()).hexdigest()
    return (json.dumps({**plain, "sum": total}, indent=1, allow_nan=False) + "\n").encode()


def _manifest(plain: Mapping[str, Any]) -> Manifest:
    manifest = Manifest(
        step=_count(plain["step"]),
        about=_mapping(plain["about"]),
        files={_name(key): _sum(value) for key, value in _mapping(plain["files"]).items()},
        oldest=_count(plain["oldest"]),
        transitions=tuple(_chunk(item) for item in _list(plain["transitions"])),
        resumable=plain["resumable"] is True,
    )
    if plain["resumable"] is not manifest.resumable:
        _refuse(plain["resumable"], "neither true nor false")
    return manifest


def _chunk(plain: Any) -> Chunk:
    chunk = Chunk(_count(plain["begin"]), _count(plain["end"]), _sum(plain))
    return chunk if plain["name"] == chunk.name else _refuse(plain["name"], "no chunk's name")


def _sum(plain: Any) -> Sum:
    digest, size = plain["sha256"], _count(plain["bytes"])
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
