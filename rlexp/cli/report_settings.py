"""Options of commands that compute statistics: targets, and settings of `conf/report.yaml`."""

from typing import Annotated

import typer

Targets = Annotated[
    list[str], typer.Argument(help="EXPERIMENT, or EXPERIMENT/LABEL for one label of it")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of conf/report.yaml: --set interval=percentile"),
]
Margin = Annotated[
    float | None, typer.Option("--margin", help="A difference that does not matter")
]
Alpha = Annotated[float | None, typer.Option("--alpha", help="Family-wise error of the verdicts")]
Interval = Annotated[str | None, typer.Option("--interval", help="t, percentile, basic or bca")]
Level = Annotated[float | None, typer.Option("--level", help="Nominal coverage of intervals")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of every resampling")]
Phase = Annotated[str | None, typer.Option("--phase", help="test, selection or tuning")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 where data is missing or a check fails")
]


def setting_overrides(
    settings: list[str] | None, **options: float | str | None
) -> tuple[str, ...]:
    """Options of a command as overrides of `conf/report.yaml`.

    Args:
        settings: What `--set` was given.
        options: Settings that have an option of their own; those without a value are left out.
    """
    named = [f"{key}={value}" for key, value in options.items() if value is not None]
    return (*(settings or ()), *named)
