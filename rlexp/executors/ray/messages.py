"""Messages between a command and the nodes of a Ray cluster, and the files that they carry.

A `Mailbox` is a Ray actor through which a node and the bridge process exchange messages; a `Wire`
connects the bridge process with the command. Files travel as a parcel: a tar archive of `Piece`s,
each a whole file or a part of one. A parcel from a node is not trusted: it may hold only regular
files below the folder.
"""

import json
import os
import socket
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from multiprocessing.connection import Connection
from pathlib import Path
from stat import S_ISREG
from typing import Any

from rlexp.errors import RecordError
from rlexp.store.files import publish, refuse_link

Message = dict[str, Any]
"""JSON values, and the bytes of a parcel under `PARCEL`."""


class Mailbox:
    """Holds at most one message from each job, so that a slow command is not flooded."""

    def __init__(self) -> None:
        self._from: dict[str, Message] = {}
        self._to: dict[str, list[Message]] = {}

    def exchange(self, job: str, message: Message | None) -> tuple[bool, list[Message]]:
        """For tasks: leave a message, and fetch the messages for the job.

        Returns:
            Whether the message was accepted, and the messages for the job. A message is refused
            while the previous one waits to be collected.
        """
        taken = message is not None and job not in self._from
        if message is not None and taken:
            self._from[job] = message
        return taken, self._to.pop(job, [])

    def collect(self) -> dict[str, Message]:
        """For the command: the message of each job since the last call."""
        collected, self._from = self._from, {}
        return collected

    def send(self, job: str, message: Message) -> None:
        """For the command: leave a message for a job."""
        self._to.setdefault(job, []).append(message)

    def forget(self, job: str) -> None:
        """For the command: remove the messages of an ended job."""
        self._from.pop(job, None)
        self._to.pop(job, None)


PARCEL = "parcel"
"""The key of a message that holds bytes."""


class Wire:
    """One end of a socket pair, over which whole messages are sent and received."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def send(self, message: Message) -> None:
        """Send a message, its parcel as bytes behind the JSON values.

        Raises:
            OSError: The other end is closed.
        """
        values = {key: value for key, value in message.items() if key != PARCEL}
        has_parcel = PARCEL in message
        self._connection.send_bytes(json.dumps([values, has_parcel]).encode())
        if has_parcel:
            self._connection.send_bytes(message[PARCEL])

    def receive(self, seconds: float | None) -> Message | None:
        """The next message; None if none comes within `seconds` (without limit if that is None).

        Raises:
            EOFError: The other end is closed.
            OSError: The same, in the middle of a message.
        """
        if not self._connection.poll(seconds):
            return None
        message, has_parcel = json.loads(self._connection.recv_bytes())
        if has_parcel:
            message[PARCEL] = self._connection.recv_bytes()
        return dict(message)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def pair() -> tuple[Wire, int]:
    """One end for this process, and the descriptor of the other end for a child process."""
    here, there = socket.socketpair()
    return Wire(here.detach()), there.detach()


REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
OFFSET = "RLEXP.offset"
"""The tar header of a piece that is a part of a file."""
LONGEST = 1000
"""Most characters of a path within a parcel."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a part of a file.

    Attributes:
        name: Path of the file below the folder, with slashes.
        content: The bytes.
        offset: Position of the bytes in the file; None where they are the whole file.
    """

    name: str
    content: bytes = field(repr=False)
    offset: int | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the folders and of the file in its path."""
        return tuple(self.name.split("/"))


def pack(pieces: Iterable[Piece]) -> bytes:
    """A parcel with these pieces, in this order."""
    parcel = BytesIO()
    with tarfile.open(fileobj=parcel, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for piece in pieces:
            member = tarfile.TarInfo(piece.name)
            member.size = len(piece.content)
            if piece.offset is not None:
                member.pax_headers = {OFFSET: str(piece.offset)}
            tar.addfile(member, BytesIO(piece.content))
    return parcel.getvalue()


def unpack(parcel: bytes) -> Iterator[Piece]:
    """The pieces of a parcel in their order; the parcel is not trusted.

    Raises:
        RecordError: The parcel is damaged, or holds something else than files below a folder.
    """
    try:
        with tarfile.open(fileobj=BytesIO(parcel), mode="r:") as tar:
            for member in tar:
                yield _piece(tar, member, len(parcel))
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise RecordError(f"a parcel is damaged: {error}") from error


def write_below(folder: Path, piece: Piece) -> None:
    """Write a piece below a folder: whole files atomically and durably, parts in place.

    Raises:
        OSError: The disk is full or fails.
        RecordError: The path leads through a link, or the bytes before the piece are missing.
    """
    path = folder
    # Every folder on the way: a link would lead the write out of the experiment.
    for part in piece.parts[:-1]:
        path /= part
        refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    path /= piece.parts[-1]
    if piece.offset is None:
        publish(path, piece.content)
    else:
        _write_into(path, piece.content, piece.offset)


def read_below(folder: Path, name: str, offset: int | None = None) -> Piece | None:
    """A regular file below a folder, from `offset` on; None if there is no such file."""
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    # `os.open` accepts a folder, and `os.fdopen` would raise an error for it.
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        file.seek(offset or 0)
        return Piece(name, file.read(), offset)


def _write_into(path: Path, content: bytes, offset: int) -> None:
    refuse_link(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        # A gap would read as zeros in the middle of a journal.
        if os.fstat(descriptor).st_size < offset:
            raise RecordError(f"{path} lacks what comes before byte {offset}")
        while content:
            written = os.pwrite(descriptor, content, offset)
            content, offset = content[written:], offset + written
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _piece(tar: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> Piece:
    name = member.name
    # A sparse member may claim terabytes that are not in the archive.
    if member.type not in REGULAR or member.sparse is not None:
        raise RecordError(f"a parcel holds {name!r:.200}, which is no regular file")
    if len(name) > LONGEST or not all(map(_is_visible_name, name.split("/"))):
        raise RecordError(f"a parcel holds {name!r:.200}, which leads out of its folder")
    if not 0 <= member.size <= most:
        raise RecordError(f"a parcel says that {name!r:.200} has {member.size:,} bytes")
    file = tar.extractfile(member)
    content = file.read() if file is not None else b""
    if len(content) != member.size:
        raise RecordError(f"a parcel ends within {name!r:.200}")
    return Piece(name, content, _offset(member))


def _is_visible_name(part: str) -> bool:
    """Whether a part of a path names a visible file or folder, and not `.` or `..`."""
    return bool(part) and not part.startswith(".") and "\0" not in part and "\\" not in part


def _offset(member: tarfile.TarInfo) -> int | None:
    text = member.pax_headers.get(OFFSET)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RecordError(f"a parcel says that {member.name!r:.200} goes to byte {text!r:.40}")
    return int(text)
