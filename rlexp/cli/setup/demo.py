"""`rlexp demo`: shows the progress, the verdict and the page of a first experiment."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, Quiet, console_for, observer_for, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.setup.demo import Demonstration
    from rlexp.console import Console


def demo(
    folder: Annotated[str, typer.Argument(help="Folder that receives runs/ and reports/.")] = ".",
    compiled: Annotated[
        bool,
        typer.Option("--compiled", help="Train five seeds of compiled PPO instead of a pair."),
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train and compare a first experiment in under a minute."""
    from rlexp.app.commands.setup.demo import demo as use_case
    from rlexp.cli.exit_codes import exit_code

    console = console_for(as_json=as_json, quiet=quiet)
    result = use_case(folder, observer_for(console), compiled=compiled)
    render_result(result, console, show_demonstration)
    raise typer.Exit(exit_code(complete=result.complete, interrupted=result.interrupted))


def show_demonstration(result: "Demonstration", console: "Console") -> None:
    """Show the answer with its scores, the page, and the next commands."""
    from rlexp.cli.short_form import show_short_comparison, show_short_summary
    from rlexp.cli.summaries import closing_lines, next_lines
    from rlexp.cli.train.run import unchanged_lines

    for line in unchanged_lines(result.outcome):
        console.line(line)
    # The demonstration has no option that shows everything, but other commands have.
    if result.comparison is not None:
        console.line()
        details = f"rlexp compare {result.experiment} --full"
        show_short_comparison(result.comparison, console, details)
    elif result.complete:
        console.line()
        details = f"rlexp show {result.experiment} --full"
        show_short_summary(result.outcome.summary, result.outcome.card, console, details)
    # A short summary ends with these lines itself.
    if result.comparison is not None or not result.complete:
        for line in closing_lines(result.outcome.summary):
            console.line(line)
    if result.page is not None:
        console.line(f"Report: {result.page}")
    for line in next_lines(result.next):
        console.line(line)
