"""A small HTTP proxy in front of a real server, which can be told to misbehave."""

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
        kind: `pass` hands it on; `slow` does so after a while; `lost` hands it on and breaks the
            connection off instead of handing back the answer; `hole` never answers; `status`
            answers with a status and a body; `garbage` with a page, as if all were well; `refuse`
            is for the port: nobody listens.
        seconds: How slow.
        code: The status.
        body: What it answers.
        headers: Further headers of its answer.
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
    """Answer with a status."""
    told = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Mode("status", code=code, body=body, headers=told)


def slow(seconds: float) -> Mode:
    """Hand every request on, but late."""
    return Mode("slow", seconds=seconds)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached the proxy."""

    method: str
    path: str
    headers: str
    body: bytes


class FaultyProxy:
    """Forwards what comes to a port of 127.0.0.1 to another one, and counts it."""

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
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def mode(self) -> Mode:
        """What it does with every request for which `once` holds nothing."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        was, self._mode = self._mode, mode
        if mode.kind == "refuse" and was.kind != "refuse":
            self._deafen()
        if was.kind == "refuse" and mode.kind != "refuse":
            self._server = self._listen(self.port)

    def count(self, part: str = "") -> int:
        """How many requests had this in their path."""
        return sum(part in request.path for request in self.requests)

    def close(self) -> None:
        """Let go of everything."""
        self.closing.set()
        if self._mode.kind != "refuse":
            self._deafen()

    def _listen(self, port: int) -> ThreadingHTTPServer:
        proxy = self

        class Handler(_Handler):
            told = proxy

        server = _Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def _deafen(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: FaultyProxy

    def handle_request(self) -> None:
        """Answer as the proxy is told."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.told
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
        with suppress(OSError):  # whoever asked may have given up
            self._answer(code, headers, content)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.told.upstream, timeout=60)
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
        """Nothing is printed."""


for _method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_request)


@contextmanager
def proxy_of(upstream: int) -> Iterator[FaultyProxy]:
    """A proxy in front of a port of 127.0.0.1."""
    proxy = FaultyProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
