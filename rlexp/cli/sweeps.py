"""`rlexp sweep`: tunes hyperparameters, and tests the choice."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Drift, Json, Quiet, console_for, here

Definition = Annotated[
    list[str] | None,
    typer.Argument(help="A definition in sweeps/, then configuration: quick sweep.trials=20"),
]


def sweep(
    words: Definition = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try final failures again.")] = False,
    until: Annotated[
        str, typer.Option("--until", help="Stop after: search, selection or test")
    ] = "test",
    allow_drift: Drift = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tune on tuning seeds, choose once, and test the choice on seeds never seen before."""
    from rlexp.app.commands.sweep import Options, read_stage
    from rlexp.app.commands.sweep import sweep as use_case
    from rlexp.app.sweep_request import split_definition

    name, given = split_definition(words or ())
    options = Options(
        dry_run=dry_run, retry=retry, allow_drift=allow_drift, until=read_stage(until)
    )
    console = console_for(as_json=as_json, quiet=quiet)
    raise typer.Exit(use_case(name, given, options, here(allow_import), console))
