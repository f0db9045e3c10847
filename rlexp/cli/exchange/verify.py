"""`rlexp verify`: shows every record that is missing, edited or copied."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.exchange.verify import (
        Verification,
        VerifiedExperiment,
        VerifiedLooks,
        VerifiedProtocols,
    )
    from rlexp.app.commands.exchange.verify_bundle import BundleVerification
    from rlexp.app.streams.verification import VerifiedStream


def verify(
    experiment: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_experiment,
            help="An experiment, or a bundle (FILE.zip or its folder); default: all experiments.",
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            help="An earlier head (hex digits) that the ledger must contain; may be repeated for a bundle.",
        ),
    ] = None,
    looks_head: Annotated[
        str | None,
        typer.Option(
            "--looks-head", help="An earlier head that the register of looks must contain."
        ),
    ] = None,
    protocols_head: Annotated[
        str | None,
        typer.Option(
            "--protocols-head", help="An earlier head that the register of protocols must contain."
        ),
    ] = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Check that records are the same as when they were written.

    Compares records with the ledger, which holds their sums. Shows every record that is missing,
    edited or copied; the exit code is 1 if there is one. Records that were changed together with
    the ledger are found only with a head that you noted earlier: give it with --head.

    Also checks the register of looks at test scores, and that of protocols with their deviations.

    A bundle is checked by itself, without a checkout or its workspace: every file, and every number of its
    reports, which is computed again from its records. Nothing in it is executed.
    """
    from rlexp.app.commands.exchange.verify import verify as use_case
    from rlexp.app.commands.exchange.verify_bundle import names_bundle, verify_bundle
    from rlexp.cli.exit_codes import exit_code
    from rlexp.errors import ConfigError

    workspace, console = current_workspace(allow_import), console_for(as_json=as_json)
    faultless: bool
    if experiment is not None and names_bundle(experiment, workspace):
        checked = verify_bundle(
            experiment,
            workspace,
            heads=head or (),
            looks_head=looks_head,
            protocols_head=protocols_head,
        )
        show_result(checked, console, bundle_verification_lines)
        faultless = checked.faultless
    else:
        if head and len(head) > 1:
            raise ConfigError("an experiment has one ledger: give one --head")
        verification = use_case(
            experiment,
            head[0] if head else None,
            workspace,
            looks_head=looks_head,
            protocols_head=protocols_head,
        )
        show_result(verification, console, verification_lines)
        faultless = verification.faultless
    raise typer.Exit(exit_code(complete=faultless, interrupted=None))


def bundle_verification_lines(verified: "BundleVerification") -> "Iterator[str]":
    """What was checked of a bundle, the findings, what cannot be known, and the answer, as lines."""
    yield f"{verified.title}: bundle of rlexp {verified.writer}, checked by {verified.checker}"
    for finding in verified.findings:
        yield f"{finding.kind}: {finding.text}"
    for text in verified.checked:
        yield f"Checked {text}"
    for experiment in verified.experiments:
        yield from _experiment_lines(experiment)
    yield from _all_register_lines(verified)
    for text in verified.unknown:
        yield f"Not known: {text}"
    if verified.sha256:
        yield f"sha256 {verified.sha256}"
    yield "The bundle is what was written" if verified.faultless else "The bundle has faults"


def verification_lines(verification: "Verification") -> "Iterator[str]":
    """The findings on each experiment, its verdict and the next commands, as lines."""
    if not verification.experiments:
        yield f"{verification.folder} holds no experiments yet; to start one, use 'rlexp run'"
    for experiment in verification.experiments:
        yield from _experiment_lines(experiment)
    yield from _all_register_lines(verification)


def _all_register_lines(verified: "Verification | BundleVerification") -> "Iterator[str]":
    if verified.looks is not None:
        yield from _register_lines("looks", "broken chain", verified.looks)
    if verified.protocols is not None:
        yield from (protocol.verdict for protocol in verified.protocols.protocols)
        yield from _register_lines("protocols", "fault", verified.protocols)
    for stream in verified.streams:
        yield from _register_lines("candidates", "fault", stream)


def _register_lines(
    what: str, kind: str, verified: "VerifiedLooks | VerifiedProtocols | VerifiedStream"
) -> "Iterator[str]":
    name = f"register of {what}"
    yield from (f"{kind}: {name}: {fault}" for fault in verified.faults)
    yield from (f"remark: {name}: {remark}" for remark in verified.remarks)
    yield f"{name}: {verified.verdict}"


def _experiment_lines(verified: "VerifiedExperiment") -> "Iterator[str]":
    from rlexp.cli.summaries import next_lines

    name = verified.experiment
    for finding in verified.findings:
        where = f"{name}/{finding.run}" if finding.run else name
        yield f"{finding.kind}: {where}: {finding.text}"
    yield f"{name}: {verified.verdict}"
    yield from next_lines(verified.next)
