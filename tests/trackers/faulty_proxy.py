"""A small HTTP proxy in front of a real server that injects faults on request."""

import http.client
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
PAGE = b"<html><body>Welcome to the guest network. Please log in.</body></html>"


@dataclass(frozen=True, slots=True)
class Mode:
    """What the proxy does with a request.

    Attributes:
        kind: `pass` forwards the request; `slow` forwards it after a delay; `lost` forwards it and
            breaks the connection instead of returning the answer; `hole` never answers; `status`
            answers with a status and a body; `garbage` answers with a page and status 200;
            `refuse` closes the port.
        seconds: The delay.
        code: The status of the answer.
        body: The body of the answer.
        headers: Further headers of the answer.
    """

    kind: Literal["pass", "slow", "lost", "hole", "status", "garbage", "refuse"] = "pass"
    seconds: float = 0.0
    code: int = 500
    body: bytes = b"it broke"
    headers: Sequence[tuple[str, str]] = ()


PASS = Mode()
HOLE = Mode("hole")
LOST = Mode("lost")
GARBAGE = Mode("garbage", code=200, body=PAGE)
REFUSE = Mode("refuse")


def status(code: int, body: bytes = b"it broke", **headers: str) -> Mode:
    """A mode that answers with a status."""
    header_items = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Mode("status", code=code, body=body, headers=header_items)


def slow(seconds: float) -> Mode:
    """A mode that forwards every request after a delay."""
    return Mode("slow", seconds=seconds)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached the proxy."""

    method: str
    path: str
    headers: str
    body: bytes


class FaultyProxy:
    """Forwards requests from a port of 127.0.0.1 to another port, and records them."""

    def __init__(self, upstream: int) -> None:
        """Listen on a free port."""
        self.upstream = upstream
        self.requests: list[Request] = []
        self.once: deque[Mode] = deque()
        self.closing = threading.Event()
        self._mode = PASS
        self._server = self._listen(0)
        self.port = self._server.server_port

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def mode(self) -> Mode:
        """The mode for every request that is not covered by a mode in `once`."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        previous, self._mode = self._mode, mode
        if mode.kind == "refuse" and previous.kind != "refuse":
            self._stop_listening()
        if previous.kind == "refuse" and mode.kind != "refuse":
            self._server = self._listen(self.port)

    def count(self, part: str = "") -> int:
        """The number of requests whose path contains this text."""
        return sum(part in request.path for request in self.requests)

    def close(self) -> None:
        """Stop listening and release waiting requests."""
        self.closing.set()
        if self._mode.kind != "refuse":
            self._stop_listening()

    def _listen(self, port: int) -> ThreadingHTTPServer:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        server = _Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def _stop_listening(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away needs no message."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultyProxy

    def handle_request(self) -> None:
        """Answer in the mode of the proxy."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.owner
        proxy.requests.append(Request(self.command, self.path, str(self.headers), body))
        mode = proxy.once.popleft() if proxy.once else proxy.mode
        if mode.kind == "hole":
            proxy.closing.wait()
        if mode.kind in {"hole", "refuse"}:
            self.close_connection = True
            return
        if mode.kind in {"status", "garbage"}:
            self._answer(mode.code, [("Content-Type", "text/html"), *mode.headers], mode.body)
            return
        time.sleep(mode.seconds)
        code, headers, content = self._forward(body)
        if mode.kind == "lost":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        with suppress(OSError):  # the client may have given up
            self._answer(code, headers, content)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.owner.upstream, timeout=60)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except OSError:
            return 502, [], b"nobody there"
        finally:
            upstream.close()

    def _answer(self, code: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response(code)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


for _method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_request)


@contextmanager
def proxy_of(upstream: int) -> Iterator[FaultyProxy]:
    """A proxy in front of a port of 127.0.0.1, closed at the end."""
    proxy = FaultyProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
