"""`rlexp mcp`: serves a workspace to a client of the Model Context Protocol."""

from importlib.util import find_spec
from typing import Annotated

import typer

from rlexp.cli.options import AllowImport

EXTRA = "mcp"
"""The optional package, and the extra that installs it."""


def serve(
    workspace: Annotated[
        str, typer.Option("--workspace", help="The folder to serve; by default the current one.")
    ] = ".",
    allow_import: AllowImport = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print an error before the protocol as JSON.")
    ] = False,
) -> None:
    """Serve a workspace to agents and other programs by MCP.

    The client starts this command. Standard input and output carry the protocol alone.
    """
    import os
    import sys
    from pathlib import Path

    from rlexp.errors import ConfigError
    from rlexp.installation_way import install_command

    # The command line itself looks for --json where it reports an error.
    del as_json
    folder = Path(workspace).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"--workspace {workspace}: there is no such folder; create it: rlexp init {workspace}",
            key="--workspace",
        )
    if find_spec(EXTRA) is None:
        raise ConfigError.missing_package(
            f"rlexp mcp needs the package {EXTRA}", install_command(EXTRA), key=EXTRA
        )
    os.chdir(folder)
    from rlexp.mcp.server import serve as serve_client

    if sys.stdin.isatty():
        sys.stderr.write(
            f"Serving {Path.cwd()} by MCP on standard input and output, for a client that starts "
            "this command (Ctrl-C ends it)\n"
        )
    raise typer.Exit(serve_client(tuple(allow_import or ())))
