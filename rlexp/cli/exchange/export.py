"""`rlexp export`: writes records for other tools and lists the files."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_label_or_run, complete_phase, one_of
from rlexp.cli.options import (
    AllowImport,
    Json,
    console_for,
    current_workspace,
    observer_for,
    show_result,
)
from rlexp.cli.report_settings import StrictRecordsOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.exporting.output import ExportedFiles

MOST_NAMED = 12
"""Longest list of files that is printed in full."""


FormatArgument = Annotated[
    str,
    typer.Argument(
        metavar="FORMAT",
        autocompletion=one_of(
            "rliable", "marl-eval", "csv", "parquet", "script", "huggingface", "minari"
        ),
        help="rliable, marl-eval, csv, parquet, script, huggingface or minari.",
    ),
]
TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        autocompletion=complete_label_or_run,
        help="EXPERIMENT or EXPERIMENT/LABEL; for script, EXPERIMENT/RUN.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="The file or folder to write; minari: the dataset's id."),
]
PhaseOption = Annotated[
    str | None,
    typer.Option(
        "--phase", autocompletion=complete_phase, help="test (default), selection or tuning."
    ),
]
TaskOption = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be repeated.")
]
LevelOption = Annotated[
    str | None,
    typer.Option(
        "--level",
        autocompletion=one_of("runs", "evaluations", "episodes", "measurements"),
        help="csv, parquet: runs, evaluations, episodes or measurements.",
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        autocompletion=one_of("iqm", "mean", "median"),
        help="huggingface: iqm (default), mean or median.",
    ),
]
CommonSeedsOption = Annotated[
    bool, typer.Option("--common-seeds", help="Only seeds with a score on every task.")
]
NormalisedOption = Annotated[
    bool,
    typer.Option("--normalised", help="rliable: normalise scores by the anchors of each task."),
]
EpisodesOption = Annotated[
    int | None,
    typer.Option("--episodes", min=1, help="minari: episodes of each run; default: 100."),
]
CheckpointOption = Annotated[
    int | None,
    typer.Option(
        "--checkpoint", help="minari: record the checkpoint at this step; default: final."
    ),
]
StochasticOption = Annotated[
    bool, typer.Option("--stochastic", help="minari: sample the actions of the policies.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]


def export(
    format_name: FormatArgument,
    targets: TargetsArgument,
    output: OutputOption = None,
    phase: PhaseOption = None,
    task: TaskOption = None,
    level: LevelOption = None,
    metric: MetricOption = None,
    common_seeds: CommonSeedsOption = False,
    normalised: NormalisedOption = False,
    episodes: EpisodesOption = None,
    checkpoint: CheckpointOption = None,
    stochastic: StochasticOption = False,
    force: ForceOption = False,
    strict: StrictRecordsOption = False,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Export records for other tools.

    Writes scores, tables, a training script, a model folder for Hugging Face, or a Minari dataset.
    """
    from rlexp.app.commands.exchange.export import export as use_case
    from rlexp.app.exporting.output import ExportRequest

    request = ExportRequest(
        format=format_name,
        targets=tuple(targets),
        output=output,
        phase=phase,
        tasks=tuple(task or ()),
        level=level,
        metric=metric,
        common_seeds=common_seeds,
        normalised=normalised,
        force=force,
        strict=strict,
        episodes=episodes,
        checkpoint=checkpoint,
        stochastic=stochastic,
    )
    console = console_for(as_json=as_json)
    result = use_case(request, current_workspace(allow_import), observer_for(console))
    show_result(result, console, export_lines)


def export_lines(result: "ExportedFiles") -> "Iterator[str]":
    """Remarks on the exported runs, the files, and commands to try them, as lines."""
    from rlexp.cli.summaries import next_lines

    yield from result.remarks
    yield from (f"Wrote {path}" for path in result.files[:MOST_NAMED])
    if len(result.files) > MOST_NAMED:
        yield f"Wrote {len(result.files) - MOST_NAMED} further files in {result.output}"
    yield from next_lines(result.next)
