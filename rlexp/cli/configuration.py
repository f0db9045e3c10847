"""`rlexp config`: shows, lists and validates configurations."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Json, Words, console_for, here, render_result, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.configuration import (
        GroupListing,
        OptionListing,
        ResolvedConfiguration,
        ResolvedConfigurations,
        ValidConfigurations,
    )
    from rlexp.console import Console


def config_show(words: Words = None, allow_import: Allow = None, as_json: Json = False) -> None:
    """Show the resolved configuration that words lead to."""
    from rlexp.app.commands.configuration import show_configuration

    shown = show_configuration(words or [], here(allow_import))
    show_result(shown, console_for(as_json=as_json), configuration_lines)


def config_list(
    group: Annotated[str | None, typer.Argument(help="algorithm, environment, agent …")] = None,
    as_json: Json = False,
) -> None:
    """List the groups, or the options of one."""
    from rlexp.app.commands.configuration import list_groups, list_options

    console = console_for(as_json=as_json)
    if group is None:
        render_result(list_groups(here()), console, show_groups)
    else:
        render_result(list_options(group, here()), console, show_options)


def config_validate(
    words: Words = None, allow_import: Allow = None, as_json: Json = False
) -> None:
    """Check that words lead to a valid configuration whose parts fit; start nothing."""
    from rlexp.app.commands.configuration import validate_configuration

    valid = validate_configuration(words or [], here(allow_import))
    show_result(valid, console_for(as_json=as_json), valid_lines)


def configuration_lines(shown: "ResolvedConfigurations") -> "Iterator[str]":
    """Every configuration as a YAML document; each of a grid is preceded by its choices."""
    from rlexp.text import outline, printable

    several = len(shown.configurations) > 1
    for position, resolved in enumerate(shown.configurations):
        if position:
            yield "---"
        if several:
            yield f"# {_choices(resolved)}"
        for line in outline(resolved.configuration).splitlines():
            yield printable(line)


def _choices(resolved: "ResolvedConfiguration") -> str:
    return " ".join(f"{key}={value}" for key, value in resolved.choices.items())


def show_groups(listing: "GroupListing", console: "Console") -> None:
    """A table of the groups."""
    rows = [
        {
            "group": row.group,
            "default": _shortened(row.default),
            "write": row.write,
            "options": " ".join(row.options),
        }
        for row in listing.rows
    ]
    console.table(rows, ["group", "default", "write", "options"])
    console.line("To see what they are: rlexp config list GROUP")


def _shortened(default: str | None) -> str | None:
    """A default, or how many there are: a list's are marked where its options are listed."""
    several = len((default or "").split())
    return f"{several} options" if several > 1 else default


def show_options(listing: "OptionListing", console: "Console") -> None:
    """A table of the options; where some are the workspace's, with their source."""
    from rlexp.text import printable

    rows = [
        {
            listing.group: row.option,
            "description": printable(row.description),
            "from": row.source,
        }
        for row in listing.rows
    ]
    mixed = any(row.source != "rlexp" for row in listing.rows)
    console.table(rows, [listing.group, "description", *(["from"] if mixed else [])])


def valid_lines(valid: "ValidConfigurations") -> "Iterator[str]":
    """One line that says what would be run."""
    labels = ", ".join(f"{c.label} on {c.task}" for c in valid.configurations)
    runs = "run" if valid.runs == 1 else "runs"
    yield f"ok: {labels}; {valid.runs} {valid.phase} {runs}"
