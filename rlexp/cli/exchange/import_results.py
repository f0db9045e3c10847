"""`rlexp import`: imports results of other tools and shows what was read."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlexp.app.commands.exchange.import_results import (
        ImportedRunRow,
        ImportedSearch,
        ImportOutcome,
    )
    from rlexp.console import Console

SOURCES_HELP = (
    "KIND: rl-zoo, sb3-evaluations, sb3-monitor, tensorboard, ray, optuna, mlflow, marl-eval, csv or "
    "auto (default). PATH: files, folders or archives, or the address of an MLflow server."
)

COLUMNS = ("label", "task", "runs", "completed", "seeds", "steps", "score", "returns")
"""Fields of `ImportedGroup` that the table shows."""
MOST = 5
"""Longest list of names that is printed in full."""
MOST_NAMES = 50
"""Most runs without a score that are named."""


SourcesArgument = Annotated[list[str], typer.Argument(metavar="[KIND] PATH...", help=SOURCES_HELP)]
ExperimentOption = Annotated[
    str, typer.Option("--experiment", help="Name of the experiment in runs/.")
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Label of the runs in reports.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Task of the runs.")]
FirstSeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the first run, if the source names none."),
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="Budget in steps; later points are left out."),
]
StepsUnitOption = Annotated[
    str | None,
    typer.Option("--steps-unit", help="Unit of a step: environment, frames or updates."),
]
FrameSkipOption = Annotated[
    int | None, typer.Option("--frame-skip", min=1, help="Frames per environment step.")
]
StepsPerUpdateOption = Annotated[
    int | None,
    typer.Option("--steps-per-update", min=1, help="Environment steps per update."),
]
ScoreOption = Annotated[
    str | None, typer.Option("--score", help="Score of a run: final, auc or last_window.")
]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", help="Series to import, if the source has several."),
]
ReturnsOption = Annotated[
    str | None,
    typer.Option("--returns", help="Origin of the returns: evaluations or training."),
]
MlflowExperimentOption = Annotated[
    str | None,
    typer.Option("--mlflow-experiment", help="MLflow experiment, if there are several."),
]
StudyOption = Annotated[
    str | None, typer.Option("--study", help="Study of Optuna, if there are several.")
]
PathOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        help="Pattern of the paths of runs: '{label}/seed_{seed}', '{task}/*_{seed}'.",
    ),
]
LabelFromOption = Annotated[
    list[str] | None,
    typer.Option("--label-from", help="Parameter that becomes part of the label: lr."),
]
TaskFromOption = Annotated[
    str | None, typer.Option("--task-from", help="Parameter that names the task.")
]
SeedFromOption = Annotated[
    str | None, typer.Option("--seed-from", help="Parameter that is the seed.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", help="Only runs with lr=0.001, seed<3, env_id~cartpole …"),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", help="Column of a field: step=timesteps_total."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported.")]


def import_results(
    sources: SourcesArgument,
    experiment: ExperimentOption,
    label: LabelOption = None,
    task: TaskOption = None,
    seed: FirstSeedOption = None,
    steps: StepsOption = None,
    steps_unit: StepsUnitOption = None,
    frame_skip: FrameSkipOption = None,
    steps_per_update: StepsPerUpdateOption = None,
    score: ScoreOption = None,
    metric: MetricOption = None,
    returns: ReturnsOption = None,
    mlflow_experiment: MlflowExperimentOption = None,
    study: StudyOption = None,
    path: PathOption = None,
    label_from: LabelFromOption = None,
    task_from: TaskFromOption = None,
    seed_from: SeedFromOption = None,
    where: WhereOption = None,
    column: ColumnOption = None,
    dry_run: DryRunOption = False,
    as_json: Json = False,
) -> None:
    """Import results of other tools into runs/.

    Imported runs are marked as imported. Either all results are imported, or none.
    """
    from rlexp.app.commands.exchange.import_results import ImportRequest
    from rlexp.app.commands.exchange.import_results import import_results as use_case
    from rlexp.exchange.importers.kinds import split_kind

    kind, paths = split_kind(sources)
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
        study=study,
        path=path,
        label_from=tuple(label_from or ()),
        task_from=task_from,
        seed_from=seed_from,
        where=tuple(where or ()),
        column=tuple(column or ()),
        dry_run=dry_run,
    )
    render_result(
        use_case(request, current_workspace()), console_for(as_json=as_json), show_import
    )


def show_import(outcome: "ImportOutcome", console: "Console") -> None:
    """Show the imported runs, remarks on them, and the next commands."""
    from rlexp.app.results import to_json
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_ranges

    console.line(_head(outcome))
    rows = [{**to_json(group), "seeds": format_ranges(group.seeds)} for group in outcome.groups]
    console.table(rows, COLUMNS)
    for line in _remarks(outcome):
        console.line(line)
    if not outcome.dry_run:
        console.line(f"Records: {outcome.folder}")
    for line in next_lines(outcome.next):
        console.line(line)


def _head(outcome: "ImportOutcome") -> str:
    from rlexp.text import format_count

    name, there = outcome.experiment, len(outcome.there)
    if not outcome.new:
        return f"nothing new: experiment {name} already holds these {format_count(there, 'run')}"
    more = f"; {there} further ones were imported before" if there else ""
    verb = "would import" if outcome.dry_run else "imported"
    runs = format_count(len(outcome.new), "run")
    return f"{verb} {runs} from {outcome.kind} into experiment {name}{more}"


def _remarks(outcome: "ImportOutcome") -> "Iterator[str]":
    """Remarks on returns of training, numbered seeds, missing scores and points left out."""
    from rlexp.exchange.importers.imported_study import ReturnKind
    from rlexp.text import format_count, join_first_names

    if outcome.search is not None:
        yield from _search_remarks(outcome.search)
        if outcome.left_out:
            yield f"Not read: {join_first_names(outcome.left_out, MOST)}."
        return
    if any(ReturnKind(group.returns).of_training for group in outcome.groups):
        yield (
            "Returns come from training episodes, during which the policy changed. Reports state "
            "this; the source has no evaluation of a fixed policy."
        )
    if numbered := [run for run in outcome.runs if not run.seed_known]:
        seeds = join_first_names([f"{run.name} is {run.seed}" for run in numbered], MOST)
        yield f"The source names no seeds; numbers were assigned: {seeds}."
    yield from _without_score(outcome.runs)
    if cut := [run for run in outcome.runs if run.beyond_budget]:
        points = sum(run.beyond_budget for run in cut)
        yield f"Left out: {points:,} points of {format_count(len(cut), 'run')} beyond the budget."
    yield from _unequal_lengths(outcome.runs)
    for differing in outcome.differing:
        yield (
            f"Runs of {differing.label} on {differing.task} differ in "
            f"{join_first_names(differing.parameters, MOST)}, and are reported as one: import those of "
            "one configuration with a --label of their own."
        )
    if outcome.left_out:
        yield f"Not read: {join_first_names(outcome.left_out, MOST)}."


def _search_remarks(search: "ImportedSearch") -> "Iterator[str]":
    """The best trial of an imported search, and what its value does not say."""
    from rlexp.text import format_score

    counts = ", ".join(f"{number} {state}" for state, number in search.trials.items())
    yield f"Trials: {counts}."
    if search.other_objectives:
        yield (
            f"{search.study} has {len(search.other_objectives) + 1} objectives, and an import holds "
            f"one of them: {search.metric}. To import another one, choose it with --metric "
            f"({', '.join(search.other_objectives)}) and another name with --experiment."
        )
    if search.best is not None and search.value is not None:
        values = ", ".join(f"{key} = {value}" for key, value in search.parameters.items())
        yield (
            f"Best of them by {search.metric} ({search.direction}): trial {search.best} with "
            f"{format_score(search.value)}: {values}."
        )
    yield (
        "Each trial has one value, of seeds that are not known. The best of many such values "
        "promises more than it keeps, and there is no test score: 'rlexp sweep' tunes, selects and "
        "tests on separate seeds."
    )


def _without_score(runs: "Sequence[ImportedRunRow]") -> "Iterator[str]":
    from rlexp.text import format_count

    scoreless = [run for run in runs if run.state != "completed"]
    if not scoreless:
        return
    yield f"No score: {len(scoreless):,} of {format_count(len(runs), 'run')}."
    for run in scoreless[:MOST]:
        yield f"  {run.name}: {run.state}, {run.reason}."
    if len(scoreless) > MOST:
        names = ", ".join(run.name for run in scoreless[MOST:MOST_NAMES])
        others = (
            f" and {len(scoreless) - MOST_NAMES:,} more" if len(scoreless) > MOST_NAMES else ""
        )
        yield f"  also {names}{others}; 'rlexp ls' lists them."


def _unequal_lengths(runs: "Sequence[ImportedRunRow]") -> "Iterator[str]":
    """How to compare runs that are not equally long."""
    for task in dict.fromkeys(run.task for run in runs):
        ended = [run.step for run in runs if run.task == task and _ended_early(run)]
        if ended and min(ended) > 0:
            yield (
                f"On {task} runs are not equally long: --steps {min(ended)} under a name of its own "
                "compares them at what all have."
            )


def _ended_early(run: "ImportedRunRow") -> bool:
    return run.state != "completed" and run.failure is None
