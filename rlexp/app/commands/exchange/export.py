"""`rlexp export`: writes records in formats of other tools, all files or none."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from rlexp.app.exporting.dataset import export_minari
from rlexp.app.exporting.huggingface import make_huggingface
from rlexp.app.exporting.output import Export, ExportedFiles, ExportRequest, ExportTarget
from rlexp.app.exporting.scores import make_marl_eval, make_rliable, make_tables
from rlexp.app.exporting.script import make_script
from rlexp.app.observer import Observer, SilentObserver
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError

Maker: TypeAlias = Callable[[ExportRequest, ExportTarget, Workspace], Export]
"""Makes the contents of files."""
Exporter: TypeAlias = Callable[[ExportRequest, Workspace, Observer], ExportedFiles]
"""Writes one format."""


def _to_files(make: Maker) -> Exporter:
    """An exporter that writes the files that `make` makes, all or none."""

    def write(request: ExportRequest, workspace: Workspace, _: Observer) -> ExportedFiles:
        output = ExportTarget.of(request.output, workspace, force=request.force)
        output.check_free()
        workspace.make_allowed_importable()
        made = make(request, output, workspace)
        return replace(made.outcome, files=output.write(made))

    return write


FORMATS: Mapping[str, Exporter] = {
    "rliable": _to_files(make_rliable),
    "marl-eval": _to_files(make_marl_eval),
    "csv": _to_files(make_tables),
    "parquet": _to_files(make_tables),
    "script": _to_files(make_script),
    "huggingface": _to_files(make_huggingface),
    "minari": export_minari,
}
FORMATS_OF_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "phase": ("rliable", "marl-eval", "csv", "parquet", "minari"),
    "tasks": ("rliable", "marl-eval", "csv", "parquet", "huggingface", "minari"),
    "common_seeds": ("rliable", "marl-eval"),
    "normalised": ("rliable",),
    "level": ("csv", "parquet"),
    "metric": ("huggingface",),
    "episodes": ("minari",),
    "checkpoint": ("minari",),
    "stochastic": ("minari",),
    # A dataset has its version in its name, and is never replaced.
    "force": ("rliable", "marl-eval", "csv", "parquet", "script", "huggingface"),
}
"""The formats that accept an option, for options that only some formats accept."""
FLAGS = {"tasks": "--task", "common_seeds": "--common-seeds"}


def export(
    request: ExportRequest, workspace: Workspace, observer: Observer | None = None
) -> ExportedFiles:
    """Write records in a format of another tool.

    Args:
        request: The format, the targets and the options.
        workspace: The workspace.
        observer: Receives notes of progress; None shows nothing.

    Raises:
        RlexpError: A format, target or option is unknown, the format cannot hold the records, or
            the output already exists; nothing was written.
    """
    check_format(request)
    return FORMATS[request.format](request, workspace, observer or SilentObserver())


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
        given = getattr(request, option)
        # The step of a checkpoint may be 0.
        absent = given is None or given is False or given == ()
        if not absent and request.format not in formats:
            flag = FLAGS.get(option, f"--{option}")
            kinds = "format" if len(formats) == 1 else "formats"
            raise ConfigError(
                f"{flag} is for the {kinds} {', '.join(formats)}: leave it out for {request.format}"
            )
