"""`rlexp view`: serves the pages of experiments on this machine while runs go on."""

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result
from rlexp.cli.report_settings import PhaseOption, SettingsOption, setting_overrides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.look.view import ServedAddress
    from rlexp.cli.look.page_server import FindDocument, PageServer
    from rlexp.console import Console

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
    phase: PhaseOption = None,
    settings: SettingsOption = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Show experiments in a browser while they run.

    Only this machine can reach the page. Nothing is written into runs/.
    """
    from rlexp.app.commands.look.view import ServedAddress, page_path
    from rlexp.app.commands.look.view import view as use_case

    workspace = current_workspace(allow_import)
    viewer = use_case(target, workspace, phase=phase, overrides=setting_overrides(settings))
    path = page_path(target, workspace)
    server = listening_server(port, viewer.document)
    with suppress(KeyboardInterrupt), server, browser(server.address + path, opens=opens):
        served = ServedAddress(address=server.address + path, port=server.port)
        render_result(served, console_for(as_json=as_json), show_address)
        # A script reads the address from a pipe while the command goes on.
        sys.stdout.flush()
        server.serve_forever()


def show_address(served: "ServedAddress", console: "Console") -> None:
    """Show the address, and how the command is ended."""
    console.text(f"Serving {served.address} (Ctrl-C ends it)")


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
