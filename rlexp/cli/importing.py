"""The command that brings in what other tools recorded."""

from typing import Annotated

import typer

from rlexp.cli.options import Json, console_for, here

WORDS = (
    "KIND, one of rl-zoo, sb3-evaluations, sb3-monitor, tensorboard, mlflow, marl-eval, csv or auto "
    "(the default), then files, folders or archives, or the address of an MLflow server"
)


def import_results(
    words: Annotated[list[str], typer.Argument(metavar="[KIND] PATH...", help=WORDS)],
    experiment: Annotated[str, typer.Option("--experiment", help="The name they get in runs/")],
    label: Annotated[str | None, typer.Option("--label", help="Under which to report")] = None,
    task: Annotated[str | None, typer.Option("--task", help="On which they are scored")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the first run, if none is known")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Budget; what is beyond it is left out")
    ] = None,
    steps_unit: Annotated[
        str | None, typer.Option("--steps-unit", help="environment, frames or updates")
    ] = None,
    frame_skip: Annotated[
        int | None, typer.Option("--frame-skip", min=1, help="Frames of an environment step")
    ] = None,
    steps_per_update: Annotated[
        int | None,
        typer.Option("--steps-per-update", min=1, help="Environment steps of an update"),
    ] = None,
    score: Annotated[str | None, typer.Option("--score", help="final, auc or last_window")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Which series, where there are several")
    ] = None,
    returns: Annotated[
        str | None, typer.Option("--returns", help="What they are of: evaluations or training")
    ] = None,
    mlflow_experiment: Annotated[
        str | None, typer.Option("--mlflow-experiment", help="Which one, where there are several")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Bring results of other tools into runs/, whole or not at all, marked as imported."""
    from rlexp.app.commands.import_results import ImportRequest, import_records
    from rlexp.exchange.importers.kinds import split_kind

    kind, paths = split_kind(words)
    request = ImportRequest(
        kind=kind,
        paths=paths,
        experiment=experiment,
        label=label,
        task=task,
        seed=seed,
        steps=steps,
        steps_unit=steps_unit,
        frame_skip=frame_skip,
        steps_per_update=steps_per_update,
        score=score,
        metric=metric,
        returns=returns,
        mlflow_experiment=mlflow_experiment,
        dry_run=dry_run,
    )
    raise typer.Exit(import_records(request, here(), console_for(as_json=as_json)))
