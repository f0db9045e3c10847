"""Writes curves as one picture."""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from rlexp.errors import ConfigError
from rlexp.reports.drawing.blocks import LineFigure
from rlexp.store.files import publish

PICTURE_FORMATS = (".png", ".svg", ".pdf")
"""Ends of the names of pictures."""


def check_picture(output: str) -> Path:
    """The file of a picture.

    Raises:
        ConfigError: The name has another end, or is that of a folder.
    """
    path = Path(output)
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise ConfigError(
            f"--output={output} must end in {', '.join(PICTURE_FORMATS[:-1])} or "
            f"{PICTURE_FORMATS[-1]}: --output curves{PICTURE_FORMATS[0]}",
            code="unknown_value",
            key="--output",
            allowed=PICTURE_FORMATS,
        )
    if path.is_dir():
        raise ConfigError(
            f"--output={output} is a folder: name a file in it", code="unwritable", key="--output"
        )
    return path


def write_picture(
    path: Path, figures: Sequence[LineFigure], labels: Sequence[str], sentences: Sequence[str]
) -> None:
    """Write a picture; a file of this name is replaced.

    Raises:
        ConfigError: Matplotlib is not installed, or the file cannot be written.
    """
    # Matplotlib takes longer to import than all other parts of the command together.
    draw = import_module("rlexp.reports.figures").draw_picture
    kind = path.suffix.lower().removeprefix(".")
    content: bytes = draw(figures, labels, sentences, kind, version("rlexp"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another file with --output",
            code="unwritable",
            key="--output",
        ) from error
