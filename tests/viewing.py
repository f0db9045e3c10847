"""A page server in a thread of the test, and requests to it."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

from rlexp.app.commands.look.view import view
from rlexp.app.workspace import Workspace
from rlexp.cli.look.page_server import PageServer


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def state(self) -> dict[str, Any]:
        """The JSON object that it holds."""
        value: dict[str, Any] = json.loads(self.content)
        return value


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to a server."""

    server: PageServer
    headers: dict[str, str] = field(default_factory=dict)

    def raw(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """The answer to a request for exactly this path."""
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return answer

    def get(self, path: str = "", method: str = "GET", **headers: str) -> Answer:
        """The answer to a request for a path behind the token."""
        return self.raw(f"/{self.server.token}/{path}", method, **headers)

    def until(self, path: str, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first state at a path that fulfils a condition."""
        deadline = time.monotonic() + 120
        while not condition(state := self.get(f"{path}state.json").state):
            assert time.monotonic() < deadline, state
            time.sleep(0.1)
        return state

    def page(self, name: str, *, other_than: str = "") -> str:
        """The page of an experiment, after its computation."""
        self.until(f"{name}/", lambda s: s["version"] not in {"", other_than})
        return self.get(f"{name}/").content.decode()


@contextmanager
def served(
    workspace: Workspace, *, phase: str | None = None, overrides: Sequence[str] = ()
) -> Iterator[Client]:
    """A client of a server of this workspace, whose reports have this phase and these settings."""
    viewer = view(None, workspace, phase=phase, overrides=overrides)
    server = PageServer(0, viewer.document)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
