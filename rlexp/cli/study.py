"""Commands about the workspace as a whole, its machine and its configuration."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, Words, console_for, here


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


def config_show(words: Words = None, allow_import: Allow = None, as_json: Json = False) -> None:
    """Show the resolved configuration that words lead to."""
    from rlexp.app.commands.configuration import show_configuration

    console = console_for(as_json=as_json)
    raise typer.Exit(show_configuration(words or [], here(allow_import), console))


def config_list(
    group: Annotated[str | None, typer.Argument(help="algorithm, environment, agent …")] = None,
    as_json: Json = False,
) -> None:
    """List the groups, or the options of one."""
    from rlexp.app.commands.configuration import list_options

    raise typer.Exit(list_options(group, here(), console_for(as_json=as_json)))


def config_validate(words: Words = None, allow_import: Allow = None) -> None:
    """Check that words lead to a valid configuration whose parts fit; start nothing."""
    from rlexp.app.commands.configuration import validate_configuration

    raise typer.Exit(validate_configuration(words or [], here(allow_import), console_for()))
