"""Parcels: files on their way between a command and a node that does not see its folder."""

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
"""Plain values; files travel as the bytes of a parcel."""


class Mailbox:
    """One place for what comes from each job, so that a command that lags is not flooded."""

    def __init__(self) -> None:
        self._from: dict[str, Message] = {}
        self._to: dict[str, list[Message]] = {}

    def exchange(self, job: str, message: Message | None) -> tuple[bool, list[Message]]:
        """For tasks: leave a message, and fetch what lies there for the job.

        Returns:
            Whether the message was taken: not while the one before waits to be collected.
        """
        taken = message is not None and job not in self._from
        if message is not None and taken:
            self._from[job] = message
        return taken, self._to.pop(job, [])

    def collect(self) -> dict[str, Message]:
        """For the command: what came from each job since."""
        collected, self._from = self._from, {}
        return collected

    def send(self, job: str, message: Message) -> None:
        """For the command: leave a message for a job."""
        self._to.setdefault(job, []).append(message)

    def forget(self, job: str) -> None:
        """For the command: a job is gone."""
        self._from.pop(job, None)
        self._to.pop(job, None)


PARCEL = "parcel"
"""The key of a message's bytes."""


class Wire:
    """One end; each message is sent and received whole."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            OSError: Nobody is at the other end.
        """
        plain = {key: value for key, value in message.items() if key != PARCEL}
        has_parcel = PARCEL in message
        self._connection.send_bytes(json.dumps([plain, has_parcel]).encode())
        if has_parcel:
            self._connection.send_bytes(message[PARCEL])

    def receive(self, seconds: float | None) -> Message | None:
        """The next message, or nothing within so many seconds; None waits as long as it takes.

        Raises:
            EOFError: The other end is gone.
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
    """An end for this process, and the descriptor of the other, to be inherited."""
    here, there = socket.socketpair()
    return Wire(here.detach()), there.detach()


REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
OFFSET = "RLEXP.offset"
"""The header of what is written into a file, and not in its place."""
LONGEST = 1000
"""Characters that a path within a parcel may have."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or what was written into one.

    Attributes:
        name: Its path below the folder, with slashes.
        content: Its bytes.
        offset: Where in the file they belong; None where they are the whole file.
    """

    name: str
    content: bytes = field(repr=False)
    offset: int | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The words of its path."""
        return tuple(self.name.split("/"))


def pack(pieces: Iterable[Piece]) -> bytes:
    """A parcel of files, in this order."""
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
    """The files of a parcel that anybody may have packed, in their order.

    Raises:
        RecordError: It is damaged, or holds anything but files below a folder; says what.
    """
    try:
        with tarfile.open(fileobj=BytesIO(parcel), mode="r:") as tar:
            for member in tar:
                yield _piece(tar, member, len(parcel))
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise RecordError(f"a parcel is damaged: {error}") from error


def write_below(folder: Path, piece: Piece) -> None:
    """Write a piece below a folder: whole files atomically and durably, others in place.

    Raises:
        OSError: The disk is full or fails.
        RecordError: A link is in the way, or what comes before the piece is missing.
    """
    path = folder
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
    """A regular file below a folder, or what it holds from `offset` on; None where it is gone."""
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    # A folder can be opened, too, but `os.fdopen` raises an error for it.
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
    if member.type not in REGULAR or member.sparse is not None:
        raise RecordError(f"a parcel holds {name!r:.200}, which is no regular file")
    if len(name) > LONGEST or not all(map(_is_plain, name.split("/"))):
        raise RecordError(f"a parcel holds {name!r:.200}, which leads out of its folder")
    if not 0 <= member.size <= most:
        raise RecordError(f"a parcel says that {name!r:.200} has {member.size:,} bytes")
    file = tar.extractfile(member)
    content = file.read() if file is not None else b""
    if len(content) != member.size:
        raise RecordError(f"a parcel ends within {name!r:.200}")
    return Piece(name, content, _offset(member))


def _is_plain(part: str) -> bool:
    """Whether a word of a path names something in its folder; hidden files stay where they are."""
    return bool(part) and not part.startswith(".") and "\0" not in part and "\\" not in part


def _offset(member: tarfile.TarInfo) -> int | None:
    text = member.pax_headers.get(OFFSET)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RecordError(f"a parcel says that {member.name!r:.200} goes to byte {text!r:.40}")
    return int(text)
