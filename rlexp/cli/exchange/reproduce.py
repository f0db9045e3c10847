"""`rlexp reproduce`: runs completed runs again and shows whether their numbers are equal."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import exit_code
from rlexp.cli.options import (
    AllowImport,
    Json,
    Quiet,
    TargetName,
    console_for,
    current_workspace,
    observer_for,
    show_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlexp.app.commands.exchange.reproduce import Reproduction
    from rlexp.app.reproduction.comparison import ReproducedRun
    from rlexp.records.divergence import Divergence

WITHOUT_WEIGHTS = "every number that its script wrote is equal; there are no weights to compare"
SHORTEST = 12
"""Characters of a digest that are shown."""


def reproduce(
    target: TargetName,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Only the first N runs of an experiment.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", help="Phase of an experiment; default: test.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to run if packages or the processor differ.")
    ] = False,
    output: Annotated[
        str | None, typer.Option("--output", help="Keep the new records in this new folder.")
    ] = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run completed runs again with their code, and compare.

    The code of each run is rebuilt from its records; every recorded number is compared.
    """
    from rlexp.app.commands.exchange.reproduce import ReproductionRequest
    from rlexp.app.commands.exchange.reproduce import reproduce as use_case

    request = ReproductionRequest(runs=runs, phase=phase, strict=strict, output=output)
    console = console_for(as_json=as_json, quiet=quiet)
    reproduction = use_case(
        target, request, current_workspace(allow_import), observer_for(console)
    )
    show_result(reproduction, console, reproduction_lines)
    code = exit_code(complete=reproduction.reproduced, interrupted=reproduction.interrupted)
    raise typer.Exit(code)


def reproduction_lines(reproduction: "Reproduction") -> "Iterator[str]":
    """Every run with its verdict, the number of each verdict, and the missing runs, as lines."""
    for run in reproduction.runs:
        yield from run_lines(run)
    if reproduction.runs:
        yield summary_line(reproduction.runs)
    if reproduction.output is not None:
        yield f"Records: {reproduction.output}"
    if missing := reproduction.requested - len(reproduction.runs):
        yield f"{missing} of {reproduction.requested} runs were not completed again"


def run_lines(run: "ReproducedRun") -> "Iterator[str]":
    """The verdict on one run, with scores, the first difference and its likely cause."""
    if run.verdict == "identical":
        yield f"{run.run}: identical, score {_number(run.score.now)}"
        return
    yield f"{run.run}: {run.verdict}"
    if run.state == "planned":
        yield f"  it could not begin: {run.reason}"
        return
    if run.verdict == "failed":
        yield f"  the repeated run ended as {_ending(run)}"
    else:
        yield f"  score {_number(run.score.then)} originally, {_number(run.score.now)} now"
    if run.cause is None:
        yield f"  {WITHOUT_WEIGHTS}"
        return
    if run.divergence is not None:
        yield f"  first difference at {_divergence(run.divergence)}"
    yield f"  likely cause: {run.cause}"


def summary_line(runs: "Sequence[ReproducedRun]") -> str:
    """The number of runs with each verdict."""
    from rlexp.app.reproduction.comparison import ReproductionVerdict

    counts = {
        verdict: sum(run.verdict is verdict for run in runs) for verdict in ReproductionVerdict
    }
    each = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}: {each}"


def _divergence(divergence: "Divergence") -> str:
    first, second = _value(divergence.first), _value(divergence.second)
    location = f"step {divergence.step:,}, {divergence.event} {divergence.field}"
    return f"{location}: {first} originally, {second} now"


def _value(value: object) -> str:
    if isinstance(value, str):
        # A SHA-256 digest has 64 hexadecimal digits; other texts are shown whole.
        return value[:SHORTEST] if len(value) == 64 else value
    return "—" if value is None else f"{value!r}"


def _number(score: float | None) -> str:
    from rlexp.text import format_score

    return "—" if score is None else format_score(score)


def _ending(run: "ReproducedRun") -> str:
    kind = f" ({run.failure})" if run.failure else ""
    return f"{run.state}{kind}" + (f": {run.reason}" if run.reason else "")
