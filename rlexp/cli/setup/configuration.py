"""`rlexp config`: shows, lists and validates configurations."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_group
from rlexp.cli.options import (
    AllowImport,
    FromSweep,
    Json,
    Overrides,
    TrialNumber,
    console_for,
    current_workspace,
    render_result,
    show_result,
)
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.setup.configuration import (
        GroupListing,
        OptionListing,
        ResolvedConfiguration,
        ResolvedConfigurations,
        SettingListing,
        StudyText,
        ValidConfigurations,
    )
    from rlexp.console import Console


MOST_OPTIONS = 3
"""Largest number of options that a row of a search names."""
NARROWEST_TABLE = 76
"""Width in columns from which a table of groups holds every name on one line."""


def config_show(
    overrides: Overrides = None,
    from_sweep: FromSweep = None,
    trial: TrialNumber = None,
    as_study: Annotated[
        bool, typer.Option("--study", help="Write the overrides as a study file instead.")
    ] = False,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Show the resolved configuration for the given overrides."""
    from rlexp.app.commands.setup.configuration import show_configuration, show_study
    from rlexp.app.sweeps.retrain import read_sweep_trial

    workspace, origin = current_workspace(allow_import), read_sweep_trial(from_sweep, trial)
    if as_study:
        if origin is not None:
            raise ConfigError("--study writes typed words; leave out --from-sweep, or --study")
        study = show_study(overrides or [], workspace)
        show_result(study, console_for(as_json=as_json), study_lines)
        return
    resolutions = show_configuration(overrides or [], workspace, origin)
    show_result(resolutions, console_for(as_json=as_json), configuration_lines)


def config_list(
    group: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_group, help="A group: algorithm, environment, agent …"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List configuration groups, or the options of one group."""
    from rlexp.app.commands.setup.configuration import list_groups, list_options

    console = console_for(as_json=as_json)
    if group is None:
        render_result(list_groups(current_workspace()), console, show_groups)
    else:
        render_result(list_options(group, current_workspace()), console, show_options)


def config_search(
    word: Annotated[str, typer.Argument(help="A part of a name or of a meaning: lr, steps …")],
    as_json: Json = False,
) -> None:
    """Search settings and options by a part of a name or meaning."""
    from rlexp.app.commands.setup.configuration import search_configuration

    listing = search_configuration(word, current_workspace())
    render_result(listing, console_for(as_json=as_json), show_settings)


def config_validate(
    overrides: Overrides = None, allow_import: AllowImport = None, as_json: Json = False
) -> None:
    """Check that a configuration is valid; start nothing.

    Every value is checked, and that algorithm, agent and environment are compatible.
    """
    from rlexp.app.commands.setup.configuration import validate_configuration

    valid = validate_configuration(overrides or [], current_workspace(allow_import))
    show_result(valid, console_for(as_json=as_json), valid_lines)


def configuration_lines(resolutions: "ResolvedConfigurations") -> "Iterator[str]":
    """Every configuration as a YAML document; in a grid, a comment names the choices of each."""
    from rlexp.text import as_yaml, safe_for_terminal

    several = len(resolutions.configurations) > 1
    for position, resolved in enumerate(resolutions.configurations):
        if position:
            yield "---"
        if several:
            yield f"# {_choices(resolved)}"
        for line in as_yaml(resolved.configuration).splitlines():
            yield safe_for_terminal(line)


def study_lines(study: "StudyText") -> "Iterator[str]":
    """The study file, line by line."""
    from rlexp.text import safe_for_terminal

    for line in study.text.splitlines():
        yield safe_for_terminal(line)


def _choices(resolved: "ResolvedConfiguration") -> str:
    return " ".join(f"{key}={value}" for key, value in resolved.choices.items())


def show_groups(listing: "GroupListing", console: "Console") -> None:
    """Show the groups as a table, or as text on a narrow terminal; in a pipe, a line without options."""
    from rlexp.text import format_count

    if not console.out.is_terminal:
        for row in listing.rows:
            default = _shortened(row.default) or "none"
            options = format_count(len(row.options), "option")
            console.line(f"{row.group}  {row.write}, default {default}, {options}")
        return
    rows = [
        {
            "group": row.group,
            "default": _shortened(row.default),
            "write": row.write,
            "options": " ".join(row.options),
        }
        for row in listing.rows
    ]
    if console.out.width < NARROWEST_TABLE:
        for each in rows:
            console.line(
                f"{each['group']} ({each['write']}, default {each['default'] or 'none'}):"
            )
            console.line(f"  {each['options']}")
    else:
        console.table(rows, ["group", "default", "write", "options"])
    console.line("To see the options of a group: rlexp config list GROUP")


def _shortened(default: str | None) -> str | None:
    """The default of a group, or the number of defaults where the group has several."""
    several = len((default or "").split())
    return f"{several} options" if several > 1 else default


def show_options(listing: "OptionListing", console: "Console") -> None:
    """Show the options as a table; where some belong to the workspace, with their source.

    In a pipe, show a line for each option, with the first sentence of its description.
    """
    from rlexp.text import first_sentence, safe_for_terminal

    if not console.out.is_terminal:
        for row in listing.rows:
            source = "" if row.source == "rlexp" else f"(from {row.source})"
            words = (first_sentence(row.description)[0], source)
            console.line(f"{row.option}  {' '.join(filter(None, words))}".rstrip())
        return
    rows = [
        {
            listing.group: row.option,
            "description": safe_for_terminal(row.description),
            "from": row.source,
        }
        for row in listing.rows
    ]
    mixed = any(row.source != "rlexp" for row in listing.rows)
    console.table(rows, [listing.group, "description", *(["from"] if mixed else [])])


def show_settings(listing: "SettingListing", console: "Console") -> None:
    """Show the settings and options as a table: what to type, the default and the meaning."""
    from rlexp.text import join_first_names, safe_for_terminal

    rows = [
        {
            "write": row.write,
            "default": ""
            if row.default is None
            else safe_for_terminal(json.dumps(row.default, default=str)),
            "in": join_first_names(row.options, MOST_OPTIONS) if row.options else "",
            "meaning": safe_for_terminal(row.meaning),
        }
        for row in listing.rows
    ]
    console.table(rows, ["write", "default", "in", "meaning"])


def valid_lines(valid: "ValidConfigurations") -> "Iterator[str]":
    """One line with the labels, tasks and number of runs."""
    labels = ", ".join(f"{c.label} on {c.task}" for c in valid.configurations)
    runs = "run" if valid.runs == 1 else "runs"
    yield f"ok: {labels}; {valid.runs} {valid.phase} {runs}"
