"""Options that several commands share, and functions that every command calls."""

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rlexp.cli.completion import (
    complete_experiment,
    complete_run,
    complete_target,
    complete_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlexp.app.results import Result
    from rlexp.app.workspace import Workspace
    from rlexp.cli.observer import TerminalObserver
    from rlexp.console import Console

R = TypeVar("R", bound="Result")
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=complete_words,
        help="Overrides in Hydra's grammar, algorithm=ppo budget.steps=20000; "
        "a study file may be the first.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Remove it; without --yes, only show what would be removed.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")]
Retry = Annotated[
    bool,
    typer.Option("--retry", help="Also repeat failed runs that are not repeated by default."),
]
Detach = Annotated[bool, typer.Option("--detach", help="Exit once the runs are queued.")]
AllowImport = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import", help="Allow classes and environments of this package; may be repeated."
    ),
]
AllowDrift = Annotated[
    bool,
    typer.Option(
        "--allow-drift",
        help="Continue from checkpoints that other versions of packages or code wrote.",
    ),
]
FromSweep = Annotated[
    str | None,
    typer.Option(
        "--from-sweep",
        autocompletion=complete_experiment,
        help="Begin with the winner of this sweep, or its best trial so far; overrides change it.",
    ),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="Run this registered protocol, on the test seeds derived for it."
    ),
]
TrialNumber = Annotated[
    int | None,
    typer.Option("--trial", min=0, help="With --from-sweep: the number of another trial."),
]
Probe = Annotated[
    bool | None,
    typer.Option(
        "--probe/--no-probe",
        help="Measure for some seconds what a run costs; by default for plans of a minute or more.",
        show_default=False,
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_run,
        help="EXPERIMENT/RUN, or an unambiguous part of a run's name.",
    ),
]
TargetName = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_target, help="An experiment, or a run as EXPERIMENT/RUN."
    ),
]


def current_workspace(allow: list[str] | None = None) -> "Workspace":
    """The workspace in the current folder."""
    # Commands import use cases inside functions, so that `rlexp --help` needs no NumPy or Hydra.
    from rlexp.app.workspace import Workspace

    return Workspace.here(tuple(allow or ()))


def console_for(*, as_json: bool = False, quiet: bool = False) -> "Console":
    """The console that a command shows its result on."""
    from rlexp.console import Console

    return Console(as_json=as_json, quiet=quiet)


def observer_for(console: "Console") -> "TerminalObserver":
    """The observer that shows the progress of a use case on a console."""
    from rlexp.cli.observer import TerminalObserver

    return TerminalObserver(console)


def show_result(result: R, console: "Console", lines: "Callable[[R], Iterable[str]]") -> None:
    """Print a result to standard output: its JSON document, or its lines without `--json`."""

    def render(result: R, console: "Console") -> None:
        for line in lines(result):
            console.line(line)

    render_result(result, console, render)


def render_result(result: R, console: "Console", render: "Callable[[R, Console], object]") -> None:
    """Print a result to standard output: its JSON document, or with `render` without `--json`."""
    from rlexp.app.results import document

    if console.as_json:
        console.json(document(result))
    else:
        render(result, console)
