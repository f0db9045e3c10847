"""`rlexp config import`: turns hyperparameters that other tools tuned into a benchmark."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.import_hyperparameters import ImportedHyperparameters
    from rlexp.console import Console


def config_import(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="Of rl-baselines3-zoo: hyperparams/ppo.yml")
    ],
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", help="Which they are of; default: as the file")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Write conf/benchmark/NAME.yaml; default: print it"),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="An entry that is wanted; default: all")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", help="An entry that is not")
    ] = None,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Turn tuned hyperparameters of rl-baselines3-zoo into a benchmark, whole or not at all."""
    from rlexp.app.commands.import_hyperparameters import (
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
    result = import_hyperparameters(request, here(allow_import))
    render_result(result, console_for(as_json=as_json), show_hyperparameters)


def show_hyperparameters(result: "ImportedHyperparameters", console: "Console") -> None:
    """Show the file that was written and what makes sense now, or the benchmark itself."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import counted

    if result.left_out:
        console.note(f"Left out, as of no one task: {', '.join(result.left_out)}")
    if result.file is None:
        console.text(result.text)
        return
    tasks = counted(len(result.tasks), "task")
    console.line(f"wrote {result.file}: {result.algorithm} on {tasks}")
    for line in next_lines(result.next):
        console.line(line)
