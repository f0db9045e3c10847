"""Options of commands that compute statistics: targets and settings of `conf/report.yaml`."""

from typing import Annotated

import typer

from rlexp.cli.completion import complete_label, complete_phase, one_of

TargetsOption = Annotated[
    list[str],
    typer.Argument(
        autocompletion=complete_label, help="EXPERIMENT, or EXPERIMENT/LABEL for one label of it."
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting of conf/report.yaml: --set interval=percentile."),
]
MarginOption = Annotated[
    float | None, typer.Option("--margin", help="Smallest difference that matters.")
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", help="Family-wise error rate of the verdicts.")
]
IntervalOption = Annotated[
    str | None,
    typer.Option(
        "--interval",
        autocompletion=one_of("t", "percentile", "basic", "bca"),
        help="Method: t, percentile, basic or bca.",
    ),
]
LevelOption = Annotated[
    float | None, typer.Option("--level", help="Nominal coverage of intervals.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of all resampling.")]
PhaseOption = Annotated[
    str | None,
    typer.Option("--phase", autocompletion=complete_phase, help="test, selection or tuning."),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with code 3 if data is missing or a check fails.")
]

StrictRecordsOption = Annotated[
    bool,
    typer.Option("--strict", help="Compare every file with the ledger, and refuse changed ones."),
]


def setting_overrides(
    settings: list[str] | None, **options: float | str | None
) -> tuple[str, ...]:
    """Options of a command as overrides of `conf/report.yaml`.

    Args:
        settings: Values of `--set`.
        options: Settings that have a separate option; None leaves a setting unchanged.
    """
    named = [f"{key}={value}" for key, value in options.items() if value is not None]
    return (*(settings or ()), *named)
