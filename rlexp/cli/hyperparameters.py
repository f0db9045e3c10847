"""The command that brings in hyperparameters which other tools tuned."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, console_for, here


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
) -> None:
    """Turn tuned hyperparameters of rl-baselines3-zoo into a benchmark, whole or not at all."""
    from rlexp.app.commands.import_hyperparameters import Asked, import_hyperparameters

    asked = Asked(
        path=path,
        algorithm=algorithm,
        name=name,
        tasks=tuple(task or ()),
        left_out=tuple(leave_out or ()),
    )
    raise typer.Exit(import_hyperparameters(asked, here(allow_import), console_for()))
