"""A client of the Model Context Protocol, by the official SDK, with functions that wait for answers."""

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Tool

T = TypeVar("T")
LONGEST = 900.0
"""Seconds that an answer may take on a busy machine."""
SERVER = ("-P", "-m", "rlexp", "mcp")
"""The words of the server's command behind the name of Python."""


@dataclass(slots=True)
class ToolClient:
    """A client that is connected to a server; its event loop runs in a thread of its own."""

    loop: asyncio.AbstractEventLoop
    session: ClientSession
    leave: asyncio.Event
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool and wait for its answer."""
        return self._wait(self._call(tool, arguments))

    def document(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The document of a call."""
        content: dict[str, Any] = self.call(tool, **arguments).structured_content
        return content

    def tools(self) -> list[Tool]:
        """The tools that the server offers."""
        return self._wait(self.session.list_tools()).tools

    def begin(self, tool: str, **arguments: Any) -> "Future[CallToolResult]":
        """Begin a call; cancelling the future cancels the request."""
        return asyncio.run_coroutine_threadsafe(self._call(tool, arguments), self.loop)

    def processes(self) -> list[psutil.Process]:
        """The server and every process below it."""
        children = psutil.Process().children()
        (server,) = [p for p in children if [*p.cmdline()[1:5]] == [*SERVER]]
        return [server, *server.children(recursive=True)]

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        async def receive(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        return await self.session.call_tool(tool, arguments, progress_callback=receive)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(LONGEST)


@contextmanager
def connected(folder: Path, *words: str) -> Iterator[ToolClient]:
    """A client of a server that it starts for a folder, with further words of the command."""
    ready: list[ToolClient] = []
    started = threading.Event()
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*SERVER, "--workspace", str(folder), *words],
        env={k: v for k, v in os.environ.items() if k != "RLEXP_RUNS"},
    )

    async def serve() -> None:
        async with (
            stdio_client(parameters) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            client = ToolClient(asyncio.get_running_loop(), session, asyncio.Event())
            ready.append(client)
            started.set()
            await client.leave.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(LONGEST)
    (client,) = ready
    try:
        yield client
    finally:
        client.loop.call_soon_threadsafe(client.leave.set)
        thread.join(LONGEST)
        assert not thread.is_alive()
