"""Builds the pages of the gallery and draws their pictures: `make gallery`.

The blocks `bash gallery` of `docs/gallery.md` are executed one after the other in a new folder. The last page that
a block writes is copied to `build/gallery/NAME.html`, from where `make docs` takes it into the site. The picture of
its answer is written to `docs/pictures/gallery/NAME-light.png` and `NAME-dark.png`. NAME is that of the picture which
the section shows.

`python .ci/gallery.py FOLDER` works in a folder, and trains nothing that it already holds.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pictures import SCHEMES, answers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures" / "gallery"
BUILT = ROOT / "build" / "gallery"
WIDTH = 800
"""Width of the window of which a picture shows a part, in pixels."""
COLOURS = 64
"""Colours of a picture: few keep its file small."""
SECTION = re.compile(
    r'^  <img alt="[^"]*" src="pictures/gallery/(?P<name>\w+)-light\.png">$'
    r".*?^```bash gallery\n(?P<commands>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A page of the gallery.

    Attributes:
        name: The name of its files, without an ending.
        commands: The commands that make it, as they are pasted.
    """

    name: str
    commands: str


def entries() -> Iterator[Entry]:
    """The entries of the gallery in the order of the page."""
    for match in SECTION.finditer(PAGE.read_text()):
        yield Entry(match["name"], match["commands"])


def execute(commands: str, folder: Path) -> Path:
    """Execute commands in a folder; returns the page that was written last.

    Raises:
        SystemExit: A command fails.
    """
    programs = Path(sys.executable).parent
    variables = {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "RLEXP_HOME": str(folder / "home"),
        "COLUMNS": "100",
    }
    code = subprocess.call(
        ["bash", "-euxo", "pipefail", "-c", commands], cwd=folder, env=variables
    )
    if code:
        raise SystemExit(code)
    return max(folder.glob("reports/**/*.html"), key=lambda page: page.stat().st_mtime_ns)


def small(picture: bytes) -> bytes:
    """A PNG picture with few colours."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


def build(folder: Path) -> None:
    """Build every page of the gallery in a folder, and draw its picture."""
    shutil.rmtree(BUILT, ignore_errors=True)
    BUILT.mkdir(parents=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for entry in entries():
        page = shutil.copy(execute(entry.commands, folder), BUILT / f"{entry.name}.html")
        for scheme, (picture, _) in zip(
            SCHEMES, answers(Path(page), list(SCHEMES), WIDTH), strict=True
        ):
            (PICTURES / f"{entry.name}-{scheme}.png").write_bytes(small(picture))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build(Path(sys.argv[1]).absolute())
    else:
        with TemporaryDirectory() as temporary:
            build(Path(temporary))
