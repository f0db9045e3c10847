"""`rlexp config import`: converts tuned hyperparameters of another tool to a benchmark."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.setup.import_hyperparameters import ImportedHyperparameters
    from rlexp.console import Console


def config_import(
    path: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of rl-baselines3-zoo: hyperparams/ppo.yml."),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", help="Their algorithm; default: the name of the file."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Write conf/benchmark/NAME.yaml; default: print it."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Import only this entry; may be repeated; default: all."),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", help="Do not import this entry; may be repeated."),
    ] = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Convert hyperparameters of rl-baselines3-zoo to a benchmark.

    Either every entry is converted, or nothing is written.
    """
    from rlexp.app.commands.setup.import_hyperparameters import (
        HyperparametersRequest,
        import_hyperparameters,
    )

    request = HyperparametersRequest(
        path=path,
        algorithm=algorithm,
        name=name,
        tasks=tuple(task or ()),
        left_out=tuple(leave_out or ()),
    )
    result = import_hyperparameters(request, current_workspace(allow_import))
    render_result(result, console_for(as_json=as_json), show_hyperparameters)


def show_hyperparameters(result: "ImportedHyperparameters", console: "Console") -> None:
    """Show the written file and the next commands; without a file, print the benchmark."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_count

    if result.left_out:
        console.note(
            f"Left out, because they are for no single task: {', '.join(result.left_out)}"
        )
    for note in result.notes:
        console.note(f"Another task than in the zoo: {note}")
    for entry in result.unusable:
        console.note(f"Cannot be trained here: {entry.entry} ({entry.reason})")
    if result.unusable:
        words = shlex.join(w for e in result.unusable for w in ("--leave-out", e.entry))
        console.note(f"To leave these out: {words}")
    if result.file is None:
        console.text(result.text)
        return
    tasks = format_count(result.cells, "task")
    console.line(f"wrote {result.file}: {result.algorithm} on {tasks}")
    for line in next_lines(result.next):
        console.line(line)
