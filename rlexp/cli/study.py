"""Commands about the workspace as a whole, its machine and its configuration."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here


def doctor(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="With --determinism: a configuration, or the name of a run"),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Check one environment in a process of its own"),
    ] = None,
    determinism: Annotated[
        bool,
        typer.Option("--determinism", help="Train twice with equal seeds, and compare"),
    ] = False,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Check versions, threads and disk; or one environment; or determinism."""
    from rlexp.app.commands.doctor import doctor as use_case
    from rlexp.errors import ConfigError

    if words and not determinism:
        raise ConfigError(f"{words[0]!r} is of no use without --determinism; give that, too")
    if environment is not None and determinism:
        raise ConfigError(
            "--environment and --determinism are checks of their own: give one; "
            "rlexp doctor --determinism environment=… trains on an environment"
        )
    console = console_for(as_json=as_json)
    trained = words or [] if determinism else None
    raise typer.Exit(use_case(environment, here(allow_import), console, trained=trained))


def init(
    folder: Annotated[str, typer.Argument(help="The new workspace's folder")] = ".",
) -> None:
    """Write the scaffold of a new workspace."""
    from rlexp.app.commands.init import init as use_case

    raise typer.Exit(use_case(folder, console_for()))
