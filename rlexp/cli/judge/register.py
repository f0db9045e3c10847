"""`rlexp register`: seals a study before its runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.judge.register import RegisteredProtocol

SETTINGS = ("alpha", "margin", "interval", "level")
"""The sealed settings that are shown; the others are in the JSON document."""


def register(
    name: Annotated[str, typer.Argument(help="The name of the protocol and of its experiment.")],
    study: Annotated[
        list[str],
        typer.Argument(help="A study file with its question; words behind it win over its own."),
    ],
    nonce: Annotated[
        str,
        typer.Option(
            "--nonce", help="A public text that nobody knew before: a beacon's value, a commit."
        ),
    ],
    nonce_source: Annotated[
        str | None, typer.Option("--nonce-source", help="Where the nonce comes from.")
    ] = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Seal a study before its runs, and derive its test seeds.

    Question, labels, budgets, metric, margin, test and number of seeds are frozen in
    runs/protocols.jsonl. The root of the test seeds is derived from their hash and the nonce.
    """
    from rlexp.app.commands.judge.register import RegisterRequest
    from rlexp.app.commands.judge.register import register as use_case

    request = RegisterRequest(
        protocol=name, overrides=tuple(study), nonce=nonce, nonce_source=nonce_source
    )
    result = use_case(request, current_workspace(allow_import))
    show_result(result, console_for(as_json=as_json), registered_lines)


def registered_lines(result: "RegisteredProtocol") -> "Iterator[str]":
    """What was sealed, its hash, and the next commands, as lines."""
    from rlexp.cli.summaries import next_lines

    verb = "was registered before" if result.unchanged else "is registered"
    yield f"{result.protocol} {verb} ({result.registered})"
    rows = dict(_rows(result))
    width = max(map(len, rows))
    for name, text in rows.items():
        yield f"  {name:<{width}}  {text}"
    if result.source_dropped:
        yield (
            "Warning: the source of the nonce was not recorded, because a registration is never changed."
        )
    if result.counted:
        yield f"This is {result.counted}: every registration is counted, and reports say so."
    if result.reach:
        yield f"Warning: {result.reach}."
    yield from next_lines(result.next)


def _rows(result: "RegisteredProtocol") -> "Iterator[tuple[str, str]]":
    from rlexp.protocol.units import unit_text
    from rlexp.records.deviations import setting_text
    from rlexp.records.integrity import SHORT
    from rlexp.text import format_count, format_ranges, join_first_names

    yield "question", result.question
    yield "labels", join_first_names(list(dict.fromkeys(row.label for row in result.labels)), 6)
    yield "tasks", join_first_names(sorted({row.task for row in result.labels}), 6)
    budgets = sorted({(row.steps, unit_text(row.unit), row.score) for row in result.labels})
    yield "budget", " or ".join(f"{s:,} {unit}, score {score}" for s, unit, score in budgets)
    seeds = format_count(len(result.seeds), "test seed")
    yield "seeds", f"{seeds} ({format_ranges(result.seeds)}) of root {result.root}"
    yield "metric", result.metric
    settings = (f"{key} {setting_text(result.settings[key])}" for key in SETTINGS)
    yield "test", ", ".join([result.test, *settings])
    yield "failed runs", result.failures
    source = f" ({result.nonce_source})" if result.nonce_source else ""
    yield "nonce", f"{result.nonce}{source}"
    yield "hash", result.hash
    yield "register", f"runs/protocols.jsonl, head {(result.head or '')[:SHORT]}"
