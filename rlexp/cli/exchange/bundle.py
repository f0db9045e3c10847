"""`rlexp bundle`: writes what a paper needs of a study as one archive."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import (
    AllowImport,
    DryRun,
    Json,
    console_for,
    current_workspace,
    show_result,
)
from rlexp.cli.report_settings import (
    AlphaOption,
    IntervalOption,
    LevelOption,
    MarginOption,
    PhaseOption,
    SeedOption,
    SettingsOption,
    setting_overrides,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.exchange.bundle import WrittenBundle

LicenseOption = Annotated[
    str | None, typer.Option("--license", help="License of the records: CC-BY-4.0.")
]
PublishedOption = Annotated[
    str | None,
    typer.Option("--published", help="Day of publication; default: that of the last run."),
]


def bundle(
    experiments: Annotated[
        list[str],
        typer.Argument(autocompletion=complete_experiment, help="The experiments of the study."),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="NAME.zip, or a new folder; default: EXPERIMENT.zip."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the study.")] = None,
    author: Annotated[
        list[str] | None,
        typer.Option("--author", help="NAME or 'NAME <ORCID>'; may be repeated."),
    ] = None,
    license_: LicenseOption = None,
    published: PublishedOption = None,
    models: Annotated[bool, typer.Option("--models", help="Include policies.")] = False,
    code: Annotated[
        bool, typer.Option("--code", help="Include the git repository, with its history.")
    ] = False,
    phase: PhaseOption = None,
    margin: MarginOption = None,
    alpha: AlphaOption = None,
    interval: IntervalOption = None,
    level: LevelOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another bundle.")] = False,
    allow_import: AllowImport = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Write a study as one archive for a paper.

    The archive has the records, registers and heads of ledgers, reports with the data of their figures,
    exact versions, a container file, and metadata (RO-Crate, CITATION.cff). Anybody can check it with
    'rlexp verify FILE'. The same records give the same bytes. Title, authors and license come from the
    options, or from CITATION.cff in this folder. The exit code is 1 if a record is not what was written.
    """
    from rlexp.app.bundling.plan import BundleRequest
    from rlexp.app.commands.exchange.bundle import bundle as use_case
    from rlexp.cli.exit_codes import exit_code
    from rlexp.cli.observer import TerminalObserver

    request = BundleRequest(
        experiments=tuple(experiments),
        output=output,
        models=models,
        code=code,
        phase=phase,
        overrides=setting_overrides(
            settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed
        ),
        title=title,
        authors=tuple(author or ()),
        license=license_,
        published=published,
        force=force,
        dry_run=dry_run,
    )
    console = console_for(as_json=as_json)
    result = use_case(request, current_workspace(allow_import), TerminalObserver(console))
    show_result(result, console, bundle_lines)
    raise typer.Exit(exit_code(complete=result.faultless, interrupted=None))


def bundle_lines(result: "WrittenBundle") -> "Iterator[str]":
    """What is in a bundle, what is not, and the next commands, as lines."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_count

    for experiment in result.experiments:
        head = f"head {experiment.head[:12]}" if experiment.head else "no ledger"
        yield f"{experiment.experiment}: {experiment.summary} ({head}, {experiment.bytes:,} bytes)"
        if experiment.faults:
            yield (
                f"{format_count(experiment.faults, 'record')} of {experiment.experiment} not as written: "
                f"'rlexp verify {experiment.experiment}' says what differs"
            )
    if result.looks or result.protocols:
        yield (
            f"Registers: {format_count(result.looks, 'look')}, "
            f"{format_count(result.protocols, 'registration')}"
        )
    for kind, size in result.left_out.items():
        yield f"Left out: {kind} ({size:,} bytes)"
    for remark in result.remarks:
        yield f"Note: {remark}"
    if result.sha256 is None:
        yield f"Would write {result.output}: {format_count(result.files, 'record file')}, and reports"
    else:
        verb = "Unchanged, already written:" if result.unchanged else "Wrote"
        yield f"{verb} {result.output} ({format_count(result.files, 'file')}, {result.bytes:,} bytes)"
        yield f"sha256 {result.sha256}"
    yield from next_lines(result.next)
