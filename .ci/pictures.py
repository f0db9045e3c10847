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


@dataclass(frozen=True)
class Chart:
    """A chart of bars.

    Attributes:
        title: What the bars show.
        bars: The name and the value of each bar; rlexp's is the last.
        form: How a value is written (`{:.2f}`).
        mark: A value at which a dotted line is drawn; None for no line.
    """

    title: str
    bars: Sequence[tuple[str, float]]
    form: str
    mark: float | None = None


def benchmark(row: str, column: int) -> float:
    """A number of a row of `benchmarks/README.md`; of a range, the middle."""
    page = (ROOT / "benchmarks" / "README.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
    cell = lines[0].split("|")[column]
    numbers = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", cell)]
    return sum(numbers) / len(numbers)


def charts() -> Mapping[str, Chart]:
    """The three charts of the README, by the name of their files."""
    from rlexp.stats.coverage import TABLE

    speed = "IQM intervals, 50,000 resamples, 7 algorithms × 26 tasks × 5 runs"
    coverage = {
        method: 100 * TABLE[method, "interquartile mean"][1][3] for method in ("percentile", "t")
    }
    return {
        "coverage": Chart(
            "Coverage of 95 % intervals of the IQM, one task, 3 runs",
            [("percentile bootstrap", coverage["percentile"]), ("rlexp", coverage["t"])],
            "{:.1f} %",
            95,
        ),
        "sweeps": Chart(
            "True score of the winner, random search, 48 runs",
            [
                ("five seeds for each trial", benchmark("five", 2)),
                ("three seeds", benchmark("three", 2)),
                ("one seed", benchmark("one", 2)),
                (
                    "rlexp: two stages",
                    benchmark("two stages: one seed, then five for the best twelfth", 2),
                ),
            ],
            "{:.2f}",
        ),
        "speed": Chart(
            "Seconds for 50,000 resamples, 7 × 26 × 5 runs",
            [("rliable", benchmark(speed, 2)), ("rlexp", benchmark(speed, 3))],
            "{:.3g} s",
        ),
    }


def chart_svg(chart: Chart, colours: Colours) -> str:
    """A chart as SVG."""
    row, left, width = 30, 200, 300
    most = max(value for _, value in chart.bars)
    height = 44 + row * len(chart.bars)
    parts = [f'<text x="0" y="18" font-weight="600">{html.escape(chart.title)}</text>']
    for place, (name, value) in enumerate(chart.bars):
        y = 34 + row * place
        gap = 8 if chart.mark is None else 16
        last = place == len(chart.bars) - 1
        fill, weight = (colours.rlexp, "600") if last else (colours.others, "400")
        length = max(2.0, width * value / most)
        parts += [
            f'<text x="{left - 10}" y="{y + 15}" text-anchor="end" font-weight="{weight}">{html.escape(name)}</text>',
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="20" rx="2" fill="{fill}"/>',
            f'<text x="{left + length + gap:.1f}" y="{y + 15}" font-weight="{weight}">{chart.form.format(value)}</text>',
        ]
    if chart.mark is not None:
        x = left + width * chart.mark / most
        parts.append(
            f'<path d="M{x:.1f} 30V{height - 10}" stroke="{colours.text}" stroke-dasharray="2 3"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 580 {height}" width="580" height="{height}"'
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


def terminal_svg(output: str, command: str, scheme: str) -> str:
    """The first part of a command's output, with the command above it, as a picture of a terminal."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", "bold"))
    console.print(Text.from_ansi(output))
    theme = {"light": DEFAULT_TERMINAL_THEME, "dark": MONOKAI}[scheme]
    svg = console.export_svg(theme=theme, code_format=TERMINAL, unique_id="terminal")
    background = {"light": "#f6f8fa", "dark": "#161b22"}[scheme]
    return svg.replace("BACKGROUND", background)


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
