"""`rlexp export`: records for other tools, written whole or not at all."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from rlexp.app.export_huggingface import make_huggingface
from rlexp.app.export_output import Made, Output
from rlexp.app.export_request import Wanted
from rlexp.app.export_scores import make_marl_eval, make_rliable, make_tables
from rlexp.app.export_script import make_script
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError

MOST_NAMED = 12
"""Files that are named one by one."""
Maker: TypeAlias = Callable[[Sequence[str], Wanted, Output, Workspace], Made]
FORMATS: Mapping[str, Maker] = {
    "rliable": make_rliable,
    "marl-eval": make_marl_eval,
    "csv": make_tables,
    "parquet": make_tables,
    "script": make_script,
    "huggingface": make_huggingface,
}
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "phase": ("rliable", "marl-eval", "csv", "parquet"),
    "tasks": ("rliable", "marl-eval", "csv", "parquet", "huggingface"),
    "common_seeds": ("rliable", "marl-eval"),
    "normalised": ("rliable",),
    "level": ("csv", "parquet"),
    "metric": ("huggingface",),
}
"""Which formats an option is for, where it is not for all."""
WORDS = {"tasks": "--task", "common_seeds": "--common-seeds"}


def export(targets: Sequence[str], wanted: Wanted, place: Workspace, console: Console) -> int:
    """Write records in a format of another tool; returns the exit code.

    Raises:
        RlexpError: A format, target or option is unknown, the records do not fit the format, or
            the output is there already; nothing was written.
    """
    check_format(wanted)
    output = Output.of(wanted.output, place, force=wanted.force)
    output.check_free()
    place.make_allowed_importable()
    made = FORMATS[wanted.format](targets, wanted, output, place)
    files = [str(path) for path in output.write(made)]
    following = shlex.join(made.following) if made.following else None
    numbers = {"format": wanted.format, "files": files, **made.numbers, "next": following}
    lines = [*made.told, *(f"Wrote {name}" for name in files[:MOST_NAMED])]
    if len(files) > MOST_NAMED:
        lines.append(f"Wrote {len(files) - MOST_NAMED} further files in {output.path}")
    if following:
        lines.append(f"To try it: {following}")
    console.show(numbers, lines)
    return 0


def check_format(wanted: Wanted) -> None:
    """Refuse a format that there is none of, and options that are for others.

    Raises:
        ConfigError: Says which.
    """
    if wanted.format not in FORMATS:
        raise ConfigError.unknown(
            f"there is no format {wanted.format!r}", wanted.format, FORMATS, key="--format"
        )
    for option, formats in OPTIONS.items():
        if getattr(wanted, option) and wanted.format not in formats:
            word = WORDS.get(option, f"--{option}")
            raise ConfigError(f"{word} is for {', '.join(formats)}: leave it out")
