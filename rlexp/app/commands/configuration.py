"""`rlexp config`: shows, lists and validates configurations; starts nothing."""

from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import Any

from rlexp.app.fit import check_fit
from rlexp.app.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.compose import Composed, compose
from rlexp.config.options import DEFINITIONS, defaults, listed_groups, options
from rlexp.config.variables import has_variable
from rlexp.console import Console
from rlexp.store.secrets import mask_all
from rlexp.text import outline, printable

MIRRORS = "tracker"
"""The group of runs of which several options, or none, may be chosen."""


def show_configuration(overrides: Sequence[str], workspace: Workspace, console: Console) -> int:
    """Show every configuration that words lead to, resolved but for variables; returns 0.

    Raises:
        ConfigError: A word cannot be read, or names something unknown.
    """
    composed = compose(overrides, workspace.folder)
    plain = [_masked(one.plain) for one in composed]
    lines: list[str] = []
    for position, (one, shown) in enumerate(zip(composed, plain, strict=True)):
        lines += ["---"] if position else []
        lines += [f"# {_choices(one)}"] if len(composed) > 1 else []
        lines += [printable(line) for line in outline(shown).splitlines()]
    console.show(plain[0] if len(plain) == 1 else plain, lines)
    return 0


def list_options(group: str | None, workspace: Workspace, console: Console) -> int:
    """List the groups, or the options of one with what they are; returns 0.

    Raises:
        ConfigError: There is no such group.
    """
    if group is None:
        _list_groups(workspace, console)
    else:
        _list_group(group, workspace, console)
    return 0


def _list_groups(workspace: Workspace, console: Console) -> None:
    files = ("config.yaml", "report.yaml", "sweep.yaml")
    of_runs, of_reports, of_sweeps = (defaults(workspace.folder, file) for file in files)
    rows: list[dict[str, Any]] = [
        {
            "group": name,
            "default": {**of_sweeps, **of_reports, **of_runs}.get(name),
            "write": _written(name, of_runs, of_reports, of_sweeps),
            "options": [option.name for option in options(name, workspace.folder)],
        }
        for name in listed_groups(workspace.folder)
    ]
    if console.as_json:
        console.json(rows)
        return
    told = [
        {**row, "options": " ".join(row["options"]), "default": _shortened(row["default"])}
        for row in rows
    ]
    console.table(told, ["group", "default", "write", "options"])
    console.line("To see what they are: rlexp config list GROUP")


def _shortened(default: str | None) -> str | None:
    """A default, or how many there are: a list's are marked where its options are listed."""
    several = len((default or "").split())
    return f"{several} options" if several > 1 else default


def _written(
    group: str, of_runs: Container[str], of_reports: Container[str], of_sweeps: Container[str]
) -> str:
    """How a group is written on the command line."""
    if group == DEFINITIONS:
        return "sweep NAME"
    if group in of_sweeps:
        return f"sweep NAME {group}=…"
    if group in of_reports:
        return f"report --set {group}=[…]"
    if group == MIRRORS:
        return f"{group}=[…]"
    return f"{group}=…" if group in of_runs else f"+{group}=…"


def _list_group(group: str, workspace: Workspace, console: Console) -> None:
    found = options(group, workspace.folder)
    files = ("sweep.yaml", "report.yaml", "config.yaml")
    chosen = dict(chain.from_iterable(defaults(workspace.folder, file).items() for file in files))
    default = chosen.get(group, "").split()
    rows = [
        {
            group: option.name,
            "description": printable(option.description),
            "from": _origin(group) if option.own else "rlexp",
            "default": option.name in default,
            "file": str(option.path),
        }
        for option in found
    ]
    several = any(option.own for option in found)
    console.table(rows, [group, "description", *(["from"] if several else [])])


def _origin(group: str) -> str:
    return f"{DEFINITIONS}/" if group == DEFINITIONS else "conf/"


def validate_configuration(
    overrides: Sequence[str], workspace: Workspace, console: Console
) -> int:
    """Check values and fit, and say what would be run; returns 0.

    Raises:
        ConfigError: Something is unknown, mistyped, out of range or does not fit.
    """
    request = read_request(overrides, workspace)
    check_fit(request.experiment.configurations, workspace)
    told = [f"{c.label} on {c.task}" for c in request.experiment.configurations]
    runs = sum(1 for _ in request.experiment.specs(request.phase))
    console.line(f"ok: {', '.join(told)}; {runs} {request.phase} {'run' if runs == 1 else 'runs'}")
    return 0


def _choices(one: Composed) -> str:
    return " ".join(f"{key}={value}" for key, value in one.choices)


def _masked(plain: Any) -> Any:
    """Mask secrets that were typed; a reference to a variable is none."""
    if isinstance(plain, Mapping):
        return {
            key: _masked(item)
            if isinstance(item, Mapping) or has_variable(item)
            else mask_all({key: item})[key]
            for key, item in plain.items()
        }
    return plain
