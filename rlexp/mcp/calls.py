"""The calls of a server: a process for each, which is interrupted when its client or the server goes."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

COMMAND = (sys.executable, "-P", "-m", "rlexp.mcp.call_process")
LONGEST_LINE = 1 << 28
"""Bytes of the longest document that a call may write."""
CLOSING = 40.0
"""Seconds that calls have to end with the server; a call kills itself before."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        document: Its JSON document.
        answer: The document in one line of text.
        failed: Whether the document is an error.
    """

    document: Mapping[str, Any]
    answer: str
    failed: bool

    @property
    def is_final(self) -> bool:
        """Whether the same call would change nothing: it was not interrupted."""
        return self.document.get("interrupted") is None and (
            self.document.get("code") != "interrupted"
        )


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a call is, as the protocol wants it."""

    progress: float
    total: float | None
    message: str


@dataclass(slots=True)
class ToolCall:
    """A call in progress.

    Attributes:
        process: Its process.
        done: Its result, once it has ended.
        experiment: The experiment that it trains, once that is planned.
        progress: How far it is.
        notes: Remarks for the user so far.
        stopping: Whether it was asked to stop.
    """

    process: Process
    done: "asyncio.Future[CallResult]"
    experiment: str | None = None
    progress: CallProgress | None = None
    notes: list[str] = field(default_factory=list)
    stopping: bool = False

    @property
    def is_useful(self) -> bool:
        """Whether it goes on, or has a result that the same call would give again."""
        return not self.done.done() or self.done.result().is_final

    def stop(self) -> None:
        """Ask the call to stop: a training writes checkpoints and can continue."""
        self.stopping = True
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def follow(self) -> None:
        """Read what the process writes until it ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._take(json.loads(line))
        code = await self.process.wait()
        if not self.done.done():
            message = (
                f"the process of the call ended without a result (exit code {code}); call again"
            )
            content = {"code": "executor", "message": message}
            self.done.set_result(CallResult(_error_document(content), message, failed=True))

    def _take(self, content: dict[str, Any]) -> None:
        match content.pop("kind"):
            case "note":
                self.notes.append(content["text"])
            case "plan":
                self.experiment = content["experiment"]
            case "progress":
                self.progress = CallProgress(**content)
            case "result":
                self.done.set_result(CallResult(**content))


def _error_document(content: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"name": "error", "version": 1}
    return {"schema": schema, **content, "key": None, "allowed": [], "command": None}


class Calls:
    """Starts calls, and keeps those whose result was not taken yet.

    A process with everything imported waits for the next call.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        """Calls in the current folder; `allowed` are the packages that records may name."""
        self._allowed = tuple(allowed)
        self._kept: dict[str, ToolCall] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._taking = asyncio.Lock()
        self._waiting: asyncio.Task[Process] | None = None

    def prepare(self) -> None:
        """Start the process of the next call, which imports what it needs."""
        self._waiting = asyncio.create_task(self._start())

    async def take(self, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
        """The call with these arguments: the one in progress, or a new one."""
        key = json.dumps([tool, arguments], sort_keys=True)
        if (present := self._kept.get(key)) is not None and present.stopping:
            # The experiment is in use until the call has ended.
            await asyncio.wait({present.done})
        # Two equal calls at the same time are one call.
        async with self._taking:
            call = self._kept.get(key)
            if call is None or call.stopping or not call.is_useful:
                call = self._kept[key] = await self._begin(tool, arguments)
        return call

    def note_cancelled(self, experiment: str) -> None:
        """Remember that the calls which train an experiment were asked to stop in another way."""
        for call in self._kept.values():
            call.stopping = call.stopping or call.experiment == experiment

    def forget(self, call: ToolCall) -> None:
        """Keep a call no longer: its result is taken."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept is not call}

    async def close(self) -> None:
        """Stop every call, and wait until all have ended."""
        waiting = [] if self._waiting is None else [await self._waiting]
        self._waiting = None
        for process in waiting:
            assert process.stdin is not None
            process.stdin.close()
        for call in self._kept.values():
            call.stop()
        if self._followers:
            await asyncio.wait(self._followers, timeout=CLOSING)
        for process in waiting:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _begin(self, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
        waiting = self._waiting or asyncio.create_task(self._start())
        self.prepare()
        process = await waiting
        call = ToolCall(process, asyncio.get_running_loop().create_future())
        request = {"tool": tool, "arguments": arguments, "allowed": self._allowed}
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        follower = asyncio.create_task(call.follow())
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        return call

    @staticmethod
    async def _start() -> Process:
        # In a session of its own, Ctrl-C reaches the server only, which stops its calls once.
        return await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=PIPE,
            stdout=PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
            env=dict(os.environ),
        )
