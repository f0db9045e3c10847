"""A test server on this machine that implements the part of W&B's protocol that clients use."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from wandb_storage import Storage, StoredRun

DAMAGED = {"garbage": b"<html>welcome to the hotel</html>", "empty": b""}
"""Damaged answers with status 200, as a faulty network would give them."""


@dataclass(frozen=True)
class Traffic:
    """One received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class WandBServer:
    """A server that keeps the received data in memory, even while it is stopped.

    Attributes:
        storage: The received data.
        traffic: Every received request.
        fault: The fault of its answers: an HTTP status, `garbage`, `empty`, or none.
        where: The part of the paths for which the server fails.
        delay: Seconds before each answer.
        failed: Set once the server has failed a request.
    """

    def __init__(self) -> None:
        self.storage = Storage()
        self.traffic: list[Traffic] = []
        self.fault: int | str | None = None
        self.where = ""
        self.delay = 0.0
        self.failed = threading.Event()
        self.lock = threading.Lock()
        self._server: _Listener | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def runs(self) -> dict[str, StoredRun]:
        """The stored runs, by id."""
        return self.storage.runs

    def start(self) -> None:
        """Listen on the same port as before."""
        if self._server is None:
            self._server = _Listener(self._port, self)
            self._port = self._server.server_address[1]
            self.storage.url = self.url
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Refuse new connections and break the open ones."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None

    def heal(self) -> None:
        """Answer without faults from now on."""
        self.fault, self.where, self.delay = None, "", 0.0
        self.failed.clear()
        self.start()

    def answer(self, request: Traffic) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        self.traffic.append(request)
        if self.where in request.path:
            time.sleep(self.delay)
            fault = self.fault
            if fault is not None:
                self.failed.set()
            if isinstance(fault, int):
                return fault, b'{"errors": [{"message": "so it is told to say"}]}'
            if fault is not None:
                return 200, DAMAGED[fault]
        with self.lock:
            return 200, json.dumps(self._served(request)).encode()

    def _served(self, request: Traffic) -> Any:
        path = unquote(urlsplit(request.path).path)
        if path == "/graphql":
            operation = json.loads(request.body)
            return {
                "data": self.storage.resolve(operation["query"], operation.get("variables") or {})
            }
        if path.startswith("/files/"):
            return self.storage.stream(path.split("/")[4], json.loads(request.body))
        if path.startswith("/storage/"):
            self.storage.upload(path.removeprefix("/storage/"), request.body)
        return {}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, owner: WandBServer) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away needs no message."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Traffic(self.command, self.path, dict(self.headers), body)
        status, content = self.server.owner.answer(request)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST  # noqa: N815
    do_PUT = do_POST  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def wandb_server() -> Iterator[WandBServer]:
    """A server that is stopped at the end."""
    server = WandBServer()
    try:
        yield server
    finally:
        server.stop()
