"""`rlexp export`: writes records in formats of other tools, all files or none."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from rlexp.app.exporting.huggingface import make_huggingface
from rlexp.app.exporting.output import Export, ExportedFiles, ExportRequest, ExportTarget
from rlexp.app.exporting.scores import make_marl_eval, make_rliable, make_tables
from rlexp.app.exporting.script import make_script
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError

Maker: TypeAlias = Callable[[ExportRequest, ExportTarget, Workspace], Export]
FORMATS: Mapping[str, Maker] = {
    "rliable": make_rliable,
    "marl-eval": make_marl_eval,
    "csv": make_tables,
    "parquet": make_tables,
    "script": make_script,
    "huggingface": make_huggingface,
}
FORMATS_OF_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "phase": ("rliable", "marl-eval", "csv", "parquet"),
    "tasks": ("rliable", "marl-eval", "csv", "parquet", "huggingface"),
    "common_seeds": ("rliable", "marl-eval"),
    "normalised": ("rliable",),
    "level": ("csv", "parquet"),
    "metric": ("huggingface",),
}
"""The formats that accept an option, for options that only some formats accept."""
FLAGS = {"tasks": "--task", "common_seeds": "--common-seeds"}


def export(request: ExportRequest, workspace: Workspace) -> ExportedFiles:
    """Write records in a format of another tool.

    Raises:
        RlexpError: A format, target or option is unknown, the format cannot hold the records, or
            the output already exists; nothing was written.
    """
    check_format(request)
    output = ExportTarget.of(request.output, workspace, force=request.force)
    output.check_free()
    workspace.make_allowed_importable()
    made = FORMATS[request.format](request, output, workspace)
    return replace(made.outcome, files=output.write(made))


def check_format(request: ExportRequest) -> None:
    """Refuse an unknown format, and options of other formats.

    Raises:
        ConfigError: The format is unknown, or an option is for other formats.
    """
    if request.format not in FORMATS:
        raise ConfigError.unknown(
            f"there is no format {request.format!r}", request.format, FORMATS, key="--format"
        )
    for option, formats in FORMATS_OF_OPTIONS.items():
        if getattr(request, option) and request.format not in formats:
            flag = FLAGS.get(option, f"--{option}")
            raise ConfigError(
                f"{flag} is for the formats {', '.join(formats)}: leave it out for {request.format}"
            )
