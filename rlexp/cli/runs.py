"""Commands that make runs, and look at them."""

from pathlib import Path
from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, Quiet, Target, console_for, here


def worker(
    experiment: Annotated[str, typer.Argument(help="Whose runs to take")],
    words: Annotated[
        list[str] | None, typer.Argument(help="How they run here: executor.grace=60")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at a time; default: by cores")
    ] = None,
    idle: Annotated[
        float, typer.Option("--idle", min=0, help="Seconds to wait for further runs.")
    ] = 600.0,
    job: Annotated[
        Path | None, typer.Option("--job", help="A file with the runs to take, a line each")
    ] = None,
    while_input: Annotated[
        bool, typer.Option("--while-input", help="End when standard input ends.", hidden=True)
    ] = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
) -> None:
    """Take runs that executor=pull, or a cluster, left to workers, and execute them here."""
    from rlexp.app.commands.worker import Options, work

    options = Options(job=job, workers=workers, idle=idle, while_input=while_input)
    raise typer.Exit(
        work(experiment, words or [], options, here(allow_import), console_for(quiet=quiet))
    )


def reproduce(
    target: Target,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Of an experiment, only the first N")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", help="Of an experiment; default: test")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse where packages or processor differ")
    ] = False,
    output: Annotated[
        str | None, typer.Option("--output", help="Keep what ran again in this new folder")
    ] = None,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Rebuild the code of completed runs, run them again, and compare number by number."""
    from rlexp.app.commands.reproduce import Wanted
    from rlexp.app.commands.reproduce import reproduce as use_case

    wanted = Wanted(runs=runs, phase=phase, strict=strict, output=output)
    console = console_for(as_json=as_json, quiet=quiet)
    raise typer.Exit(use_case(target, wanted, here(allow_import), console))
