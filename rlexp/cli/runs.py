"""Commands that make runs, and look at them."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Drift, Json, Quiet, Run, Target, Yes, console_for, here


def resume(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="An experiment or a run, default: all that is unfinished; then words that "
            "change no number: executor.workers=2 budget.checkpoint_minutes=5",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try final failures again.")] = False,
    allow_drift: Drift = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Bring what is unfinished to its end, from its checkpoints."""
    from rlexp.app.commands.resume import Options
    from rlexp.app.commands.resume import resume as use_case

    options = Options(dry_run=dry_run, retry=retry, allow_drift=allow_drift)
    console = console_for(as_json=as_json, quiet=quiet)
    raise typer.Exit(use_case(words or [], options, here(allow_import), console))


def list_runs(
    experiment: Annotated[str | None, typer.Argument(help="Show its runs")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="state=failed, task~cartpole, score>400, label=ppo …"),
    ] = None,
    sort: Annotated[str | None, typer.Option("--sort", help="A column; -column reverses")] = None,
    group: Annotated[bool, typer.Option("--group", help="One row a configuration")] = False,
    as_json: Json = False,
) -> None:
    """List experiments, or the runs of one."""
    from rlexp.app.commands.list_runs import Selection, list_all

    selection = Selection(experiment, tuple(where or ()), sort, group)
    raise typer.Exit(list_all(selection, here(), console_for(as_json=as_json)))


def show(
    target: Target,
    show_config: Annotated[bool, typer.Option("--config", help="Its configuration")] = False,
    provenance: Annotated[bool, typer.Option("--provenance", help="Where it comes from")] = False,
    as_json: Json = False,
) -> None:
    """Show an experiment or a run: scores, states, evaluations."""
    from rlexp.app.commands.show import Part
    from rlexp.app.commands.show import show as use_case

    part = Part.CONFIG if show_config else Part.PROVENANCE if provenance else Part.RESULT
    raise typer.Exit(use_case(target, part, here(), console_for(as_json=as_json)))


def logs(
    run_name: Run,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Default: the last")] = None,
    lines: Annotated[int | None, typer.Option("--lines", "-n", help="Only the last N")] = None,
) -> None:
    """Print what a run wrote to its output."""
    from rlexp.app.commands.logs import logs as use_case

    raise typer.Exit(use_case(run_name, attempt, lines, here(), console_for()))


def diff(first: Run, second: Run, as_json: Json = False) -> None:
    """Show in what two runs differ: configuration, code, packages, machine."""
    from rlexp.app.commands.diff import diff as use_case

    raise typer.Exit(use_case(first, second, here(), console_for(as_json=as_json)))


def cancel(target: Target) -> None:
    """End the command that drives an experiment, or one run of it, gracefully."""
    from rlexp.app.commands.cancel import cancel as use_case

    raise typer.Exit(use_case(target, here(), console_for()))


def remove(target: Target, yes: Yes = False) -> None:
    """Remove an experiment or a run; without --yes, say what that would remove."""
    from rlexp.app.commands.remove import remove as use_case

    raise typer.Exit(use_case(target, here(), console_for(), yes=yes))


def verify(
    experiment: Annotated[str | None, typer.Argument(help="Default: all of them")] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Digits that its ledger must still contain: an earlier head"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare records with the ledger that was kept while they were made.

    Names every record that is missing, edited or copied; exit code 1 where there is one. Whoever
    rewrites the ledger too is found only by a head that was noted before: give it with --head.
    """
    from rlexp.app.commands.verify import verify as use_case

    raise typer.Exit(use_case(experiment, head, here(), console_for(as_json=as_json)))
