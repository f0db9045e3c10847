"""Draws the pictures of the README from real commands: `make pictures`.

`rlexp demo` trains in a temporary folder. `rlexp compare` and `rlexp report` show its records. The charts show
numbers that `benchmarks/README.md` and `rlexp/stats/coverage.py` hold. Beside the pictures lie the scores of the
demonstration and the text of the page, so that a test can compare them with what the commands give.

`python .ci/pictures.py FOLDER` uses the demonstration in a folder and trains nothing if it has ended.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.terminal_theme import TerminalTheme

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
EXPERIMENT = "default-or-tuned"
COLUMNS = 80
"""Width of the terminal, in characters."""
TERMINAL = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="BACKGROUND"/>
<g transform="translate(9, 24)" class="{unique_id}-matrix">{backgrounds}{matrix}</g>
</svg>
"""
"""Rich's picture of a terminal without a window, and without fonts from the network."""


@dataclass(frozen=True)
class Colours:
    """The colours of a chart."""

    text: str
    others: str
    rlexp: str


SCHEMES = {
    "light": Colours("#1f2328", "#8c959f", "#0069AC"),
    "dark": Colours("#e6edf3", "#6e7681", "#4098EA"),
}

METHODS = {"percentile": "percentile bootstrap", "t": "rlexp: t, bootstrap std. error"}
"""Methods for intervals whose coverage is shown, rlexp's default last."""
BACKGROUNDS = {"light": "#f6f8fa", "dark": "#161b22"}
"""The colours behind the text of a terminal."""


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its name, its length in the unit of the chart, and its value as text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A chart of bars.

    Attributes:
        title: What the bars show.
        bars: The bars; rlexp's is the last.
        mark: A value at which a dotted line is drawn, and what it means; None for no line.
    """

    title: str
    bars: Sequence[Bar]
    mark: tuple[float, str] | None = None


def benchmark(row: str, column: int) -> str:
    """A cell of a row of `benchmarks/README.md`."""
    page = (ROOT / "benchmarks" / "README.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
    return lines[0].split("|")[column].strip()


def measured(name: str, text: str) -> Bar:
    """A bar for a measured number, or for a range (`29 to 30 s`), which ends at its middle."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
    return Bar(name, sum(numbers) / len(numbers), text)


def charts() -> Mapping[str, Chart]:
    """The three charts of the README, by the name of their files."""
    from rlexp.stats.coverage import LEVEL, TABLE

    stages = "two stages: one seed, then five for the best twelfth"
    speed = "IQM intervals, 50,000 resamples, 7 algorithms × 26 tasks × 5 runs"
    coverage = {method: 100 * TABLE[method, "interquartile mean"][1][3] for method in METHODS}
    return {
        "coverage": Chart(
            "Coverage of intervals of the IQM: one task, 3 runs",
            [Bar(METHODS[key], value, f"{value:.1f} %") for key, value in coverage.items()],
            (100 * LEVEL, f"{100 * LEVEL:.0f} % is declared"),
        ),
        "sweeps": Chart(
            "True score of the winner: random search, 96 runs, mean of 10 landscapes",
            [
                measured("five seeds for each trial", benchmark("five", 3)),
                measured("three seeds", benchmark("three", 3)),
                measured("one seed", benchmark("one", 3)),
                measured("rlexp: two stages", benchmark(stages, 3)),
            ],
            (1, "95th percentile of configurations"),
        ),
        "speed": Chart(
            "Time for 50,000 bootstrap resamples: 7 × 26 × 5 runs, 3 measurements",
            [
                measured("rliable", benchmark(speed, 2)),
                measured("rlexp", benchmark(speed, 3)),
            ],
        ),
    }


def chart_svg(chart: Chart, colours: Colours) -> str:
    """A chart as SVG."""
    row, left, length = 30, 250, 270
    top = 34 if chart.mark is None else 54
    longest = max(bar.value for bar in chart.bars)
    height = top + row * len(chart.bars)
    parts = [f'<text x="0" y="18" font-weight="600">{html.escape(chart.title)}</text>']
    for place, bar in enumerate(chart.bars):
        y = top + row * place
        last = place == len(chart.bars) - 1
        fill, weight = (colours.rlexp, "600") if last else (colours.others, "400")
        width = max(2.0, length * bar.value / longest)
        parts += [
            f'<text x="{left - 10}" y="{y + 15}" text-anchor="end" font-weight="{weight}">{html.escape(bar.name)}</text>',
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="20" rx="2" fill="{fill}"/>',
            # A column of its own: behind the bars, texts would stand on the dotted line.
            f'<text x="{left + length + 25}" y="{y + 15}" font-weight="{weight}">{html.escape(bar.text)}</text>',
        ]
    if chart.mark is not None:
        value, meaning = chart.mark
        x = left + length * value / longest
        parts += [
            f'<path d="M{x:.1f} {top - 8}V{height - 4}" stroke="{colours.text}" stroke-width="1.5" stroke-dasharray="2 3"/>',
            f'<text x="{x:.1f}" y="{top - 14}" text-anchor="middle" font-size="13">{html.escape(meaning)}</text>',
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 690 {height}" width="690" height="{height}"'
        f' font-family="system-ui, sans-serif" font-size="14" fill="{colours.text}">'
        f"{''.join(parts)}</svg>\n"
    )


def in_terminal(folder: Path, *words: str) -> str:
    """The output of a command of rlexp in a terminal, with its control sequences for colours."""
    import pexpect

    text: str
    text, code = pexpect.run(
        f"{Path(sys.executable).parent / 'rlexp'} {' '.join(words)}",
        cwd=str(folder),
        env={
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "RLEXP_HOME": str(folder / "home"),
        },
        dimensions=(100, COLUMNS),
        withexitstatus=True,
        timeout=300,
        encoding="utf-8",
    )
    if code:
        raise SystemExit(text)
    return text.replace("\r\n", "\n")


def theme(scheme: str) -> "TerminalTheme":
    """A theme of a terminal that gives every label the colour that it has on the page."""
    from rich.color import ANSI_COLOR_NAMES, parse_rgb_hex
    from rich.terminal_theme import TerminalTheme

    from rlexp.console.plots import COLOURS
    from rlexp.reports.drawing.palette import DARK, LIGHT

    text = SCHEMES[scheme].text
    # A number for each colour of ANSI: eight of them, then their bright forms.
    colours = [text] * 16
    for name, colour in zip(COLOURS, {"light": LIGHT, "dark": DARK}[scheme], strict=True):
        colours[ANSI_COLOR_NAMES[name]] = colour
    parts: list[tuple[int, int, int]] = [
        parse_rgb_hex(colour.removeprefix("#")) for colour in [BACKGROUNDS[scheme], text, *colours]
    ]
    return TerminalTheme(parts[0], parts[1], parts[2:10], parts[10:])


def terminal_svg(output: str, command: str, scheme: str) -> str:
    """The first part of a command's output, with the command above it, as a picture of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", "bold"))
    console.print(Text.from_ansi(output))
    svg = console.export_svg(theme=theme(scheme), code_format=TERMINAL, unique_id="terminal")
    return svg.replace("BACKGROUND", BACKGROUNDS[scheme])


def text_of(svg: str) -> str:
    """The words of an SVG picture, one text element a line."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    return "".join(f"{html.unescape(text).rstrip()}\n" for text in texts)


def train(folder: Path) -> None:
    """Bring the demonstration in a folder to its end, and store its scores beside the pictures."""
    run(folder, "demo", "--quiet")
    with TemporaryDirectory() as name:
        run(folder, "export", "csv", EXPERIMENT, "--level", "runs", "--output", f"{name}/tables")
        written = next(Path(name).rglob("*.csv")).read_text()
    (PICTURES / "scores.csv").write_text(written.replace("\r\n", "\n"))


def run(folder: Path, *words: str) -> None:
    """Run a command of rlexp in a folder."""
    program = Path(sys.executable).parent / "rlexp"
    subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


COMMAND = f"rlexp compare {EXPERIMENT}"
"""The command whose output is shown."""


def shown_output(folder: Path) -> str:
    """The beginning of the output of `COMMAND` in a terminal: the verdict and the scores."""
    output = in_terminal(folder, *COMMAND.split()[1:])
    # More tables follow.
    return "\n\n".join(output.strip().split("\n\n")[:3])


def svg_pictures(output: str) -> Iterator[tuple[str, str]]:
    """The name and the content of each SVG picture."""
    for scheme, colours in SCHEMES.items():
        yield f"terminal-{scheme}.svg", terminal_svg(output, COMMAND, scheme)
        for name, chart in charts().items():
            yield f"{name}-{scheme}.svg", chart_svg(chart, colours)


def answers(page_file: Path, schemes: Sequence[str], width: int) -> Iterator[tuple[bytes, str]]:
    """The picture and the text of the answer on a report's page, for each colour scheme.

    Args:
        page_file: The page of a report.
        schemes: Colour schemes: `light`, `dark`.
        width: Width of the window, in pixels.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for scheme in schemes:
            page = browser.new_page(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page.goto(page_file.as_uri())
            card = page.locator("#answer")
            yield card.screenshot(), f"{card.inner_text().rstrip()}\n"
        browser.close()


def page_pictures(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    """The name, the picture and the text of the answer on the page, for each colour scheme."""
    page_file = folder / "reports" / EXPERIMENT / "report.html"
    for scheme, (picture, text) in zip(
        SCHEMES, answers(page_file, list(SCHEMES), 960), strict=True
    ):
        yield f"page-{scheme}", picture, text


def draw(folder: Path) -> None:
    """Write every picture of the demonstration in a folder."""
    PICTURES.mkdir(exist_ok=True)
    train(folder)
    for name, svg in svg_pictures(shown_output(folder)):
        (PICTURES / name).write_text(svg)
    for stem, picture, text in page_pictures(folder):
        (PICTURES / f"{stem}.png").write_bytes(picture)
        (PICTURES / f"{stem}.txt").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]).absolute())
    else:
        with TemporaryDirectory() as temporary:
            draw(Path(temporary))
