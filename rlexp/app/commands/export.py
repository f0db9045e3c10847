"""`rlexp export`: records for other tools, written whole or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from rlexp.app.exporting.huggingface import make_huggingface
from rlexp.app.exporting.output import Export, ExportedFiles, ExportRequest, Output
from rlexp.app.exporting.scores import make_marl_eval, make_rliable, make_tables
from rlexp.app.exporting.script import make_script
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError

Maker: TypeAlias = Callable[[ExportRequest, Output, Workspace], Export]
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


def export(request: ExportRequest, workspace: Workspace) -> ExportedFiles:
    """Write records in a format of another tool.

    Raises:
        RlexpError: A format, target or option is unknown, the records do not fit the format, or
            the output is there already; nothing was written.
    """
    check_format(request)
    output = Output.of(request.output, workspace, force=request.force)
    output.check_free()
    workspace.make_allowed_importable()
    made = FORMATS[request.format](request, output, workspace)
    return replace(made.outcome, files=output.write(made))


def check_format(request: ExportRequest) -> None:
    """Refuse a format that there is none of, and options that are for others.

    Raises:
        ConfigError: Says which.
    """
    if request.format not in FORMATS:
        raise ConfigError.unknown(
            f"there is no format {request.format!r}", request.format, FORMATS, key="--format"
        )
    for option, formats in OPTIONS.items():
        if getattr(request, option) and request.format not in formats:
            word = WORDS.get(option, f"--{option}")
            raise ConfigError(f"{word} is for {', '.join(formats)}: leave it out")
