"""The HTTP server of `rlexp view`: it answers this machine only, and only those who know the token."""

import hmac
import secrets
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from rlexp.app.commands.look.view import ViewDocument

ADDRESS = "127.0.0.1"
"""The only address that the server listens on."""
HOSTS = (ADDRESS, "localhost")
"""Names of the server in the header `Host`; a page of another name may not reach it."""
TOKEN_BYTES = 24
"""Random bytes of the token: 192 bits."""
TIMEOUT = 60.0
"""Seconds after which a silent connection is closed."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of every answer."""

FindDocument = Callable[[str], "ViewDocument | None"]
"""Returns the document at a path behind the token, or None."""


class PageServer(ThreadingHTTPServer):
    """Serves the documents of a function, read-only.

    Attributes:
        find: Returns the document at a path.
        token: The first part of every address; random.
    """

    daemon_threads = True

    def __init__(self, port: int, find: FindDocument) -> None:
        """Listen on a port of the loopback address; port 0 is any free one.

        Raises:
            OSError: The port is taken, or needs other permissions.
        """
        self.find = find
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        super().__init__((ADDRESS, port), PageRequestHandler)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address of its root, with the token."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def server_bind(self) -> None:
        """Bind without a look-up of this machine's name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.port

    def handle_error(self, *_: Any) -> None:
        """Report a bug on one line; a browser that closes a connection is no error."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"rlexp view: a request failed: {error!r}", file=sys.stderr)  # noqa: T201


class PageRequestHandler(BaseHTTPRequestHandler):
    """Answers one request: HTTP/1.0 keeps no connection, and so no thread outlives its request."""

    server: PageServer
    timeout = TIMEOUT

    def do_GET(self) -> None:
        """Answer with a document."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a document."""
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        if not self._is_for_this_server():
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        given, slash, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        # In constant time: the time of the answer must not tell how much of a guess is right.
        if not hmac.compare_digest(given.encode("latin-1", "replace"), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        document = self.server.find(unquote(rest)) if slash else None
        if document is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._send(HTTPStatus.OK, document.policy, document.media_type, len(document.content))
        if with_content:
            self.wfile.write(document.content)

    def _is_for_this_server(self) -> bool:
        """Whether the request names this server: another name may be a trick of a foreign page."""
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and hosts[0] in {f"{name}:{self.server.port}" for name in HOSTS}

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(status, "default-src 'none'", None, 0)

    def _send(self, status: HTTPStatus, policy: str, media_type: str | None, length: int) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        if media_type is not None:
            self.send_header("Content-Type", media_type)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send_error(self, code: int, *_: Any) -> None:
        """Refuse a request that is no valid GET or HEAD, without content."""
        unsupported = code == HTTPStatus.NOT_IMPLEMENTED
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED if unsupported else HTTPStatus(code))

    def version_string(self) -> str:
        """The header `Server`, without versions."""
        return "rlexp"

    def log_message(self, *_: Any) -> None:
        """Log nothing: every path holds the token."""
