"""`rlexp verify`: names every record that is missing, edited or copied."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, here, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.verify import Verification, VerifiedExperiment


def verify(
    experiment: Annotated[str | None, typer.Argument(help="Default: all of them")] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="Digits that its ledger must still contain: an earlier head"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare records with the ledger that was kept while they were made.

    Names every record that is missing, edited or copied; exit code 1 where there is one. Whoever
    rewrites the ledger too is found only by a head that was noted before: give it with --head.
    """
    from rlexp.app.commands.verify import verify as use_case
    from rlexp.cli.exit_codes import exit_code

    verification = use_case(experiment, head, here())
    show_result(verification, console_for(as_json=as_json), verification_lines)
    raise typer.Exit(exit_code(complete=verification.faultless, interrupted=None))


def verification_lines(verification: "Verification") -> "Iterator[str]":
    """What was found of each experiment, and what to do."""
    if not verification.experiments:
        yield f"{verification.folder} holds no experiments yet; 'rlexp run' makes some"
    for experiment in verification.experiments:
        yield from _experiment_lines(experiment)


def _experiment_lines(verified: "VerifiedExperiment") -> "Iterator[str]":
    from rlexp.cli.summaries import next_lines

    name = verified.experiment
    for finding in verified.findings:
        where = f"{name}/{finding.run}" if finding.run else name
        yield f"{finding.kind}: {where}: {finding.text}"
    yield f"{name}: {verified.verdict}"
    yield from next_lines(verified.next)
