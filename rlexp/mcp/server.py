"""The server: answers a client of the Model Context Protocol on standard input and output.

Each call has a process, which is interrupted when its client or the server goes.
Protocol: https://modelcontextprotocol.io
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from rlexp.app.error_document import error_document
from rlexp.app.results import document
from rlexp.config.tool_arguments import arguments_schema, description
from rlexp.config.validate import validate_arguments
from rlexp.errors import ConfigError, RlexpError
from rlexp.mcp.tools import TOOLS, OfferedTool

CALL_COMMAND = (sys.executable, "-P", "-m", "rlexp.mcp.call_process")
LONGEST_LINE = 1 << 28
"""Bytes of the longest document that a call may write."""
CLOSING = 40.0
"""Seconds that calls have to end with the server; a call kills itself before."""
INSTRUCTIONS = """\
rlexp trains reinforcement-learning configurations on seeds and compares them honestly.
Try things out with phase=tuning; use test seeds (the default phase) for what you have decided on, because
every configuration whose test scores are seen is counted. Never choose by test scores.
A call of run that was interrupted, or that is still training, is given again with the same words: it waits,
or continues from checkpoints. Documents are those of the command line with --json. Removing records is not
offered here.
"""
LOOK_EVERY = 1.0
"""Seconds between two messages about progress."""
WAIT = "wait_seconds"
"""The argument that says how long a call may take before its status is the answer."""
OF_SIGNALS = 128
"""The exit code of a server that a signal ended is this plus the signal's number."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
            *CALL_COMMAND,
            stdin=PIPE,
            stdout=PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
            env=dict(os.environ),
        )


def serve(allowed: Sequence[str]) -> int:
    """Serve the current folder until the client closes standard input; returns the exit code.

    Args:
        allowed: Packages whose classes and environments may be imported.
    """
    asyncio.run(_serve(Calls(allowed)))
    return 0


async def _serve(calls: Calls) -> None:
    """Serve one client until it closes standard input, or a signal ends the process."""
    loop = asyncio.get_running_loop()
    endings: list[asyncio.Task[None]] = []

    def receive(number: signal.Signals) -> None:
        if endings:
            # Whoever asks twice does not wait. The calls end themselves without the server.
            os._exit(OF_SIGNALS + number)
        endings.append(loop.create_task(_end(calls, number)))

    for number in SIGNALS:
        loop.add_signal_handler(number, receive, number)
    calls.prepare()
    server = _server(calls)
    async with stdio_server() as (reading, writing):
        try:
            await server.run(reading, writing, server.create_initialization_options())
        finally:
            await calls.close()


async def _end(calls: Calls, number: signal.Signals) -> None:
    """End every call, and then this process."""
    await calls.close()
    sys.stderr.flush()
    # A thread of the SDK waits for standard input, and nothing but the client can end this wait.
    os._exit(OF_SIGNALS + number)


def _server(calls: Calls) -> Server[Any]:
    async def list_tools(
        context: ServerRequestContext[Any], parameters: PaginatedRequestParams | None
    ) -> ListToolsResult:
        del context, parameters
        return ListToolsResult(tools=[offered(name, tool) for name, tool in TOOLS.items()])

    async def call_tool(
        context: ServerRequestContext[Any], parameters: CallToolRequestParams
    ) -> CallToolResult:
        try:
            return await _call(calls, parameters.name, parameters.arguments or {}, context)
        except RlexpError as error:
            failure = error_document(error)
            return _content(CallResult(document(failure), failure.message, failed=True))

    return Server(
        "rlexp",
        version=version("rlexp"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def offered(name: str, tool: OfferedTool) -> Tool:
    """A tool as the protocol describes it."""
    hints = ToolAnnotations(
        read_only_hint=tool.reads, destructive_hint=False, idempotent_hint=True
    )
    return Tool(
        name=name,
        title=tool.title,
        description=description(tool.arguments),
        input_schema=arguments_schema(tool.arguments),
        annotations=hints,
    )


async def _call(
    calls: Calls, name: str, arguments: Mapping[str, Any], context: ServerRequestContext[Any]
) -> CallToolResult:
    """Perform a call, or wait on for one in progress.

    Raises:
        ConfigError: There is no such tool, or an argument is wrong.
    """
    if name not in TOOLS:
        raise ConfigError.unknown(f"there is no tool {name!r}", name, list(TOOLS), key="tool")
    given = validate_arguments(TOOLS[name].arguments, arguments)
    # How long a client waits does not make another call.
    same = {key: value for key, value in arguments.items() if key != WAIT}
    call = await calls.take(name, same)
    try:
        await _wait(call, getattr(given, WAIT, None), context)
    except asyncio.CancelledError:
        call.stop()
        raise
    if call.done.done():
        calls.forget(call)
        result = call.done.result()
        if result.document.get("outcome") == "ending" and result.document.get("run") is None:
            calls.note_cancelled(result.document["experiment"])
        return _content(result, call.notes)
    return await _still_training(calls, call)


async def _wait(call: ToolCall, seconds: float | None, context: ServerRequestContext[Any]) -> None:
    """Wait for the result of a call, and report its progress to the client meanwhile.

    A call is not left before it is known which experiment it trains.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    sent: CallProgress | None = None
    while not call.done.done():
        if deadline is not None and loop.time() >= deadline and call.experiment is not None:
            return
        left = LOOK_EVERY if deadline is None else deadline - loop.time()
        await asyncio.wait({call.done}, timeout=min(max(left, 0.1), LOOK_EVERY))
        if (now := call.progress) is not None and now != sent:
            sent = now
            await context.session.report_progress(now.progress, now.total, now.message)


async def _still_training(calls: Calls, call: ToolCall) -> CallToolResult:
    """The status of the experiment that a call trains, and what to do next."""
    look = await calls.take("status", {"experiment": call.experiment})
    try:
        status = await asyncio.shield(look.done)
    finally:
        calls.forget(look)
    progress = "" if call.progress is None else f" ({call.progress.message})"
    text = (
        f"{call.experiment} is still training{progress}: give the same call again to wait "
        "on, status to look, or cancel to stop; it ends with this server and can continue"
    )
    return _content(CallResult(status.document, text, status.failed), call.notes)


def _content(result: CallResult, notes: Sequence[str] = ()) -> CallToolResult:
    """A result as the protocol wants it: a line of text, remarks, and the document."""
    texts = ["\n".join([result.answer, *notes]), json.dumps(result.document, ensure_ascii=False)]
    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in texts],
        structured_content=dict(result.document),
        is_error=result.failed,
    )
