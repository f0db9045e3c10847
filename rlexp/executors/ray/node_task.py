"""A Ray task on its node: starts a worker, and sends its files back if no folder is shared.

`execute` is the task. `Worker` is the worker's process, which ends with the task. Where the node
does not see the command's folder, the worker writes into a temporary folder, and `RunFiles` and
`Outbox` send new files back.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlexp.executors.ray.messages import Message, Piece, pack, read_below, unpack, write_below
from rlexp.records.checkpoint import MODEL, NORMALISATION
from rlexp.records.events import RunEnded
from rlexp.store.checkpoints.checkpoint_folders import step_of_folder
from rlexp.store.checkpoints.manifest import MANIFEST, is_chunk
from rlexp.temporary_folders import scratch

JOURNAL, PROGRESS = "events.jsonl", "progress.bin"
ENDED = f'"event":"{RunEnded.tag}"'.encode()
TOGETHER = 1 << 24
"""Bytes of small files that are sent in one parcel."""


@dataclass(slots=True)
class RunFiles:
    """The files of a run, and which of them were sent to the command."""

    folder: Path
    _seen: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _journals: dict[str, int] = field(default_factory=dict)
    _progress: dict[str, bytes] = field(default_factory=dict)
    _attempts: int = 0

    def __post_init__(self) -> None:
        """Mark the existing files as sent: they came from the command."""
        for name in _files(self.folder):
            self._is_new(name)
            if name.endswith(f"/{JOURNAL}"):
                self._journals[name] = (self.folder / name).stat().st_size
        self._attempts = len(_names(self.folder / "attempts"))

    def messages(self, *, everything: bool, last: bool = False) -> Iterator[Message]:
        """The new files as messages, in the order in which they must be sent.

        Args:
            everything: Whether to look at all files, and not only at journals and progress.
            last: Whether the worker has ended, so that an incomplete line is sent, too.
        """
        # Journals are read before the files and sent after them: an event that names a checkpoint
        # must not arrive before the checkpoint.
        news = self._news(last)
        attempts = len(_names(self.folder / "attempts"))
        if not everything and attempts == self._attempts and not _tells_the_end(news):
            if news:
                yield self._message(pack(news))
            return
        self._attempts = attempts
        for unit in self._units():
            yield self._message(pack(unit))
        # Journals again, as files were sent meanwhile. The end of an attempt may name further
        # files, which go first.
        later = self._news(last)
        if _tells_the_end(later):
            for unit in self._units():
                yield self._message(pack(unit))
        yield {**self._message(pack([*news, *later])), "kept": self._kept()}

    def _message(self, parcel: bytes) -> Message:
        return {"run": self.folder.name, "parcel": parcel}

    def _news(self, last: bool) -> list[Piece]:
        """The new progress and the new journal lines of all attempts."""
        pieces = []
        for number in _names(self.folder / "attempts"):
            pieces += self._progress_news(f"attempts/{number}/{PROGRESS}")
            pieces += self._journal_news(f"attempts/{number}/{JOURNAL}", last)
        return pieces

    def _progress_news(self, name: str) -> list[Piece]:
        piece = read_below(self.folder, name, 0)
        if piece is None or self._progress.get(name) == piece.content:
            return []
        self._progress[name] = piece.content
        return [piece]

    def _journal_news(self, name: str, last: bool) -> list[Piece]:
        offset = self._journals.get(name, 0)
        piece = read_below(self.folder, name, offset)
        if piece is None:
            return []
        whole = len(piece.content) if last else piece.content.rfind(b"\n") + 1
        self._journals[name] = offset + whole
        return [Piece(name, piece.content[:whole], offset)] if whole else []

    def _units(self) -> Iterator[list[Piece]]:
        """The new files in groups; replay chunks first, because checkpoints name them."""
        for name in _names(self.folder / "replay"):
            if is_chunk(name) and self._is_new(f"replay/{name}"):
                yield self._read([f"replay/{name}"])
        for name in _names(self.folder / "checkpoints"):
            if step_of_folder(Path(name)) is not None:
                yield from self._checkpoint(f"checkpoints/{name}")
        others = [
            f for f in _files(self.folder / "attempts") if not f.endswith((JOURNAL, PROGRESS))
        ]
        yield from self._small([MODEL, NORMALISATION, *(f"attempts/{name}" for name in others)])

    def _checkpoint(self, name: str) -> Iterator[list[Piece]]:
        files = [f"{name}/{file}" for file in _names(self.folder / name) if file != MANIFEST]
        manifest = f"{name}/{MANIFEST}"
        if not (self.folder / manifest).exists():
            return
        changed = [file for file in files if self._is_new(file)]
        if not self._is_new(manifest) and not changed:
            return
        pieces = self._read([*(files if changed else []), manifest])
        if not pieces or pieces[-1].name != manifest:
            # The worker has removed the checkpoint since its files were listed.
            self._seen.pop(manifest, None)
            return
        yield pieces

    def _small(self, names: list[str]) -> Iterator[list[Piece]]:
        together, size = list[Piece](), 0
        for name in names:
            pieces = self._read([name]) if self._is_new(name) else []
            together += pieces
            size += sum(len(piece.content) for piece in pieces)
            if size > TOGETHER:
                yield together
                together, size = [], 0
        if together:
            yield together

    def _read(self, names: list[str]) -> list[Piece]:
        pieces = (read_below(self.folder, name) for name in names)
        return [piece for piece in pieces if piece is not None]

    def _is_new(self, name: str) -> bool:
        try:
            status = os.lstat(self.folder / name)
        except OSError:
            return False
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._seen.get(name) == stamp:
            return False
        self._seen[name] = stamp
        return True

    def _kept(self) -> list[str] | None:
        """The names of the worker's checkpoints and replay chunks; None if they are unreadable."""
        kept = []
        for folder in ("checkpoints", "replay"):
            try:
                names = os.listdir(self.folder / folder)  # noqa: PTH208
            except FileNotFoundError:
                names = []
            except OSError:
                return None
            kept += [f"{folder}/{name}" for name in names if not name.startswith(".")]
        return kept


def _tells_the_end(news: list[Piece]) -> bool:
    return any(ENDED in piece.content for piece in news)


def _names(folder: Path) -> list[str]:
    """The names in a folder, without hidden entries."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    except OSError:
        return []


def _files(folder: Path) -> list[str]:
    """The paths of the files below a folder, without hidden files and links."""
    files = []
    for name in _names(folder):
        path = folder / name
        if path.is_symlink():
            continue
        files += [f"{name}/{inner}" for inner in _files(path)] if path.is_dir() else [name]
    return files


LOOK_EVERY = 0.5
NEWS_EVERY = 2.0
"""Seconds between two looks at the journals of runs outside a shared folder."""
TAIL = 2000
"""Bytes of a worker's output that are sent back."""
PREFIX = "rlexp-node-"

Exchange = Callable[[Message | None], tuple[bool, list[Message]]]
"""Leaves a message for the command; returns whether it was accepted, and the command's messages."""


def work(letter: Message, mailbox: Any) -> Message:
    """Execute a batch of runs, as the task of a job.

    Args:
        letter: The instructions of the command, as JSON values.
        mailbox: The actor through which task and command exchange messages.

    Returns:
        The worker's exit code under `code`, the end of its output under `tail`.
    """
    import ray

    # A task that waits in `ray.get` in its main thread gives its cores to other tasks.
    with ThreadPoolExecutor(1) as thread:

        def exchange(message: Message | None) -> tuple[bool, list[Message]]:
            reply = mailbox.exchange.remote(letter["job"], message)
            return thread.submit(ray.get, reply).result()  # type: ignore[no-any-return]

        return execute(letter, exchange)


def execute(letter: Message, exchange: Exchange) -> Message:
    """Execute a batch in the command's folder if the node sees it, or in a temporary folder."""
    shared = sees(letter)
    post(exchange, {"begun": True, "shared": shared})
    if shared:
        worker = Worker(letter, letter["list"], letter["variables"])
        return _attend(worker, exchange, letter["grace"], lambda _: iter(()), obey=lambda _: None)
    return _execute_apart(letter, exchange)


def sees(letter: Message) -> bool:
    """Whether this node sees the command's folder."""
    # The same path may be another folder here: a random token tells.
    if letter["shared"] != "auto":
        return bool(letter["shared"])
    try:
        return Path(letter["token_file"]).read_text() == str(letter["token"])
    except OSError:
        return False


def post(exchange: Exchange, message: Message) -> list[Message]:
    """Leave a message as soon as it is accepted; returns the messages that came meanwhile."""
    received = list[Message]()
    while True:
        accepted, replies = exchange(message)
        received += replies
        if accepted:
            return received
        time.sleep(0.1)


class Worker:
    """The process of a worker; it ends when this process dies, by the end of its input."""

    def __init__(
        self,
        letter: Message,
        runs: str,
        variables: Mapping[str, str],
        *,
        lock: int | None = None,
        elsewhere: Path | None = None,
    ) -> None:
        command = list(letter["worker"])
        # The path of the command's Python interpreter may not exist on this node.
        if not os.access(command[0], os.X_OK):
            command[0] = sys.executable
        folder = Path(letter["folder"])
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._process = subprocess.Popen(
            [*command, "--while-input", "--job", runs],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
            cwd=folder if folder.is_dir() or elsewhere is None else elsewhere,
            env={**os.environ, **variables},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the worker if it still runs."""
        if kind is not None:
            self.stop()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._output.close()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`; returns whether the worker has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def stop(self) -> None:
        """Ask the worker to end."""
        with suppress(OSError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker's process group."""
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def report(self) -> Message:
        """The exit code of the worker, and the end of its output."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - TAIL))
        tail = self._output.read().decode(errors="replace")
        return {"code": self._process.returncode, "tail": tail}


def _attend(
    worker: Worker,
    exchange: Exchange,
    grace: float,
    outbox: Callable[[bool], Iterator[Message]],
    obey: Callable[[Message], object],
) -> Message:
    """Wait for a worker; passes it the command's requests, and sends its files back."""
    kill_at = float("inf")
    queue: Iterator[Message] = iter(())
    pending: Message | None = None
    with worker:
        while not worker.wait(0.1 if pending else LOOK_EVERY):
            if pending is None:
                queue = outbox(False)
                pending = next(queue, None)
            accepted, replies = exchange(pending)
            if accepted:
                pending = next(queue, None)
            for reply in replies:
                match reply.get("do"):
                    case "stop":
                        worker.stop()
                        kill_at = min(kill_at, time.monotonic() + grace)
                    case "kill":
                        kill_at = 0.0
                    case _:
                        obey(reply)
            if time.monotonic() > kill_at:
                worker.kill()
        # Messages are built one at a time: a checkpoint may be large.
        for message in chain([pending] if pending else [], queue, outbox(True)):
            post(exchange, message)
        return worker.report()


def _execute_apart(letter: Message, exchange: Exchange) -> Message:
    with scratch(PREFIX) as (folder, lock):
        reply = _await_parcel(exchange)
        if reply is None or not reply["runs"]:
            return {"code": 0, "tail": ""}
        experiment = folder / "runs" / Path(letter["experiment"]).name
        for piece in unpack(reply["parcel"]):
            write_below(experiment, piece)
        runs = folder / "list.txt"
        runs.write_text("".join(f"{run}\n" for run in reply["runs"]))
        outbox = Outbox([experiment / run for run in reply["runs"]], letter["return_every"])
        variables = {**letter["variables"], "RLEXP_RUNS": str(folder / "runs")}
        worker = Worker(letter, str(runs), variables, lock=lock, elsewhere=folder)

        def obey(request: Message) -> None:
            if request.get("do") == "ask":
                stop = Piece("stop", request["stop"].encode())
                write_below(experiment / request["run"], stop)

        return _attend(worker, exchange, letter["grace"], outbox.messages, obey)


def _await_parcel(exchange: Exchange) -> Message | None:
    while True:
        for reply in exchange(None)[1]:
            if "parcel" in reply:
                return reply
            if reply.get("do") in {"stop", "kill"}:
                return None
        time.sleep(0.1)


class Outbox:
    """The messages with new files of several runs, at most every `every` seconds."""

    def __init__(self, runs: Sequence[Path], every: float) -> None:
        self._runs = [RunFiles(run) for run in runs]
        self._every = every
        self._next, self._next_news = time.monotonic() + every, 0.0

    def messages(self, last: bool) -> Iterator[Message]:
        """The messages that are due now."""
        now = time.monotonic()
        if now < self._next_news and not last:
            return
        everything = last or now >= self._next
        self._next_news = now + NEWS_EVERY
        if everything:
            self._next = now + self._every
        for run in self._runs:
            yield from run.messages(everything=everything, last=last)
