"""`rlexp view`: serves the pages of experiments on this machine while runs go on."""

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import AllowImport, console_for, current_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.cli.look.page_server import FindDocument, PageServer

FIRST_PORT = 8642
"""The port that is tried first if none is asked for."""
TRIED_PORTS = 20
"""Ports that are tried, one after the other; then the system chooses."""


def view(
    target: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_experiment, help="Begin with the page of this experiment."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="The port; by default a free one."),
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    allow_import: AllowImport = None,
) -> None:
    """Show experiments in a browser while they run.

    Only this machine can reach the page. Nothing is written into runs/.
    """
    from rlexp.app.commands.view import page_path
    from rlexp.app.commands.view import view as use_case

    workspace = current_workspace(allow_import)
    viewer = use_case(target, workspace)
    path = page_path(target, workspace)
    server = listening_server(port, viewer.document)
    with suppress(KeyboardInterrupt), server, browser(server.address + path, opens=opens):
        console_for().text(f"Serving {server.address}{path} (Ctrl-C ends it)")
        server.serve_forever()


def listening_server(port: int | None, find: "FindDocument") -> "PageServer":
    """A server on the given port, or without one on the first free port.

    Raises:
        ConfigError: The given port cannot be used.
    """
    from rlexp.cli.look.page_server import PageServer
    from rlexp.errors import ConfigError

    if port is not None:
        try:
            return PageServer(port, find)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}; leave --port out for a free one",
                key="--port",
            ) from error
    for free in range(FIRST_PORT, FIRST_PORT + TRIED_PORTS):
        with suppress(OSError):
            return PageServer(free, find)
    return PageServer(0, find)


@contextmanager
def browser(address: str, *, opens: bool) -> "Iterator[None]":
    """Open a browser if asked; the address with its token is not on the browser's command line."""
    if not opens:
        yield
        return
    import webbrowser
    from html import escape

    from rlexp.temporary_folders import scratch

    # Every user of a machine can read command lines. The folder is readable by this user only.
    with scratch("rlexp-view-") as (folder, _):
        page = folder / "open.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(address)}">')
        webbrowser.open(page.as_uri())
        yield
