"""The report as one HTML page that contains its styles, script and numbers and loads nothing.

A live page is the same page with a strip of states and a script that asks its server for news.
"""

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    EpisodeFilm,
    Figure,
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ParallelFigure,
    ReportDocument,
    ScatterFigure,
    SectionContent,
    SummaryCard,
    Table,
    Text,
    VerbatimText,
)
from rlexp.reports.drawing.palette import (
    DARK,
    DASHES,
    LIGHT,
    RISING_DARK,
    RISING_LIGHT,
    Style,
    legend_labels,
    styles,
)
from rlexp.reports.page.curves import LinePlot, line_plot
from rlexp.reports.page.grids import SHADES, heat_map_plot, shaded_matrix
from rlexp.reports.page.intervals import forest_plot
from rlexp.reports.page.point_plots import ParallelPlot, ScatterPlot, parallel_plot, scatter_plot
from rlexp.reports.page.tables import drawn_table
from rlexp.text import (
    DIRECTION_CONTROLS,
    first_sentence,
    format_bytes,
    format_count,
    format_score,
)

PATHS: Mapping[str, str] = {
    "disc": "M-3.6 0a3.6 3.6 0 1 1 7.2 0a3.6 3.6 0 1 1-7.2 0z",
    "cross": "M-3.2-3.2L3.2 3.2M-3.2 3.2L3.2-3.2",
    "triangle": "M-4.6-3.2L4.6-3.2L0 4.8z",
    "diamond": "M0-6.4L5.6 0L0 6.4L-5.6 0z",
    "star": "M0-7L1.8-2.5L6.7-2.2L2.9 1L4.1 5.7L0 3.1L-4.1 5.7L-2.9 1L-6.7-2.2L-1.8-2.5z",
    "square": "M-3.4-3.4H3.4V3.4H-3.4z",
    "plus": "M-4.2 0H4.2M0-4.2V4.2",
    "ring": "M-3.4 0a3.4 3.4 0 1 1 6.8 0a3.4 3.4 0 1 1-6.8 0z",
    "peak": "M-4.6 3.2L4.6 3.2L0-4.8z",
}
"""SVG paths of the point shapes, by their names in `rlexp.reports.drawing.palette`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGroup:
    """Consecutive blocks of one kind, prepared for the template of that kind."""

    kind: str
    blocks: Sequence[Any]

    @property
    def columns(self) -> int:
        """Number of figures in one row on a wide screen."""
        return {1: 1, 2: 2, 4: 2}.get(len(self.blocks), 3)

    @property
    def note(self) -> str:
        """The note that all figures share; empty if their notes differ."""
        notes = {block.figure.note for block in self.blocks}
        return notes.pop() if len(notes) == 1 else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its figures without repetition."""
        return tuple(dict.fromkeys(label for block in self.blocks for label in block.labels))

    @property
    def dotted(self) -> frozenset[str]:
        """Labels whose legend entry is a point instead of a line."""
        return frozenset(label for block in self.blocks for label in block.dotted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCard:
    """The summary card of the page, with its figures and tables prepared for the template."""

    card: SummaryCard
    intervals: Any
    curves: BlockGroup | None
    tables: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilm:
    """A film of the page, with its address."""

    film: EpisodeFilm
    address: str

    @property
    def kind(self) -> str:
        """How it is shown: `video`, `image`, or `link` for a film that the page does not contain."""
        if not self.address.startswith("data:"):
            return "link"
        return "video" if self.address.startswith("data:video/") else "image"

    @property
    def heading(self) -> str:
        """The label, the task and the result of the episode."""
        film = self.film
        shown, length = format_score(film.episode_return), format_count(film.length, "step")
        return f"{film.label} on {film.task}: return {shown} in {length}"

    @property
    def origin(self) -> str:
        """The run, its seed and the episode, as a sentence."""
        film = self.film
        acting = "deterministic" if film.deterministic else "sampled"
        return (
            f"Run {film.run}, seed {film.seed}, final policy, {acting} actions. "
            f"Fresh episode {film.episode} of seed set {film.draw}."
        )

    @property
    def size(self) -> str:
        """The size of the video file in a readable unit."""
        return format_bytes(self.film.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """A section of the page: its content, and its blocks in groups."""

    part: SectionContent
    groups: Sequence[BlockGroup]


def draw_sections(study: ReportDocument, styles: Mapping[str, Style]) -> list[PageSection]:
    """Prepare every section of a report, in their order."""
    return [PageSection(part=part, groups=list(_groups(part, styles))) for part in study.parts]


def draw_card(study: ReportDocument, styles: Mapping[str, Style]) -> PageCard | None:
    """Prepare the summary card; None for a report without one."""
    card = study.card
    if card is None:
        return None
    shown = _first_labels(card)
    curves = [line_plot(_only(figure, shown), styles) for figure in card.curves]
    intervals = None if card.intervals is None else _first_rows(card.intervals)
    return PageCard(
        card=card,
        intervals=None if intervals is None else forest_plot(intervals, styles),
        curves=BlockGroup(kind="lines", blocks=curves) if curves else None,
        tables=[drawn_table(table, styles) for table in card.tables],
    )


def _first_labels(card: SummaryCard) -> frozenset[str]:
    """The labels with a row on the card; none where every label fits."""
    marks = [m for panel in card.intervals.panels for m in panel.marks] if card.intervals else []
    return frozenset(m.label for m in marks[:MOST_ROWS]) if len(marks) > MOST_ROWS else frozenset()


def _first_rows(figure: IntervalFigure) -> IntervalFigure:
    """The interval figure of a card with as many labels as fit on a screen."""
    (panel,) = figure.panels
    if len(panel.marks) <= MOST_ROWS:
        return figure
    note = f"The first {MOST_ROWS} of {len(panel.marks)} labels; Aggregates has all. {figure.note}"
    return replace(figure, panels=(replace(panel, marks=panel.marks[:MOST_ROWS]),), note=note)


def _only(figure: LineFigure, labels: Collection[str]) -> LineFigure:
    """The figure with the lines of some labels; of all labels where none is named."""
    if not labels:
        return figure
    return replace(figure, lines=tuple(line for line in figure.lines if line.label in labels))


def draw_films(study: ReportDocument, addresses: Mapping[str, str]) -> list[PageFilm]:
    """Prepare the films that have an address."""
    return [
        PageFilm(film=film, address=addresses[film.file])
        for film in study.films
        if film.file in addresses
    ]


def script_data(groups: Iterable[BlockGroup], styles: Mapping[str, Style]) -> dict[str, Any]:
    """The data for the script: labels, names of trials, and the numbers of the figures."""
    plots = [
        block
        for group in groups
        for block in group.blocks
        if isinstance(block, LinePlot | ScatterPlot | ParallelPlot) and block.data is not None
    ]
    names: dict[str, int] = {}
    figures = {plot.figure.name: _numbered(plot.data, names) for plot in plots}
    return {"labels": list(styles), "names": list(names), "figures": figures}


def _numbered(data: Any, names: dict[str, int]) -> Any:
    """The data with numbers in place of names, because many figures name the same trials."""
    if isinstance(data, list):
        return [_numbered(item, names) for item in data]
    if not isinstance(data, Mapping):
        return data
    return {
        key: [names.setdefault(name, len(names)) for name in value]
        if key == "named"
        else _numbered(value, names)
        for key, value in data.items()
    }


def _groups(part: SectionContent, styles: Mapping[str, Style]) -> Iterator[BlockGroup]:
    for kind, blocks in groupby(part.blocks, key=_kind):
        yield BlockGroup(kind=kind, blocks=[_drawn(block, styles) for block in blocks])


def _kind(block: Block) -> str:
    return block.kind.replace("_", "")


def _drawn(block: Block, styles: Mapping[str, Style]) -> object:
    match block:
        case Table():
            return drawn_table(block, styles)
        case Text() | Callout() | VerbatimText():
            return block
        case _:
            return _drawn_figure(block, styles)


def _drawn_figure(block: Figure, styles: Mapping[str, Style]) -> object:
    match block:
        case LineFigure():
            return line_plot(block, styles)
        case IntervalFigure():
            return forest_plot(block, styles)
        case Matrix():
            return shaded_matrix(block, styles)
        case HeatMap():
            return heat_map_plot(block)
        case ScatterFigure():
            return scatter_plot(block, styles)
        case ParallelFigure():
            return parallel_plot(block)


HERE = Path(__file__).parent
MOST_ROWS = 8
"""Most labels on the card: it fits on the screen of a laptop."""
CSS = ("style.css", "card.css", "films.css", "points.css", "print.css")
LIVE_CSS = (*CSS, "heat_map.css", "live.css")
"""Style sheets of every live page. A live page cannot add one later, because of its policy."""
SCRIPTS = ("ticks.js", "tips.js", "plots.js", "parallel.js", "script.js")
"""Scripts in the order of their dependencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExperiment:
    """An experiment in the list of a live page.

    Attributes:
        name: Its name.
        address: The address of its page, relative to the list.
        state: Its state in words (`running`).
        done: Number of its runs that are done.
        planned: Number of its runs.
        counts: The number of runs in each state, in words.
        answer: Its result on one line; may be empty.
        changed: The time of its latest record, in words; None without a record.
    """

    name: str
    address: str
    state: str
    done: int
    planned: int
    counts: str
    answer: str
    changed: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveContent:
    """What a live page has besides the report.

    Attributes:
        version: A text that changes with the content of the page.
        home: The relative address of the list of experiments; None for the list itself.
        experiments: The experiments; None for the page of one experiment.
        is_running: Whether runs are running, so that missing scores are no failure yet.
    """

    version: str
    home: str | None = None
    experiments: tuple[ListedExperiment, ...] | None = None
    is_running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A page, and its content security policy, which a server also sends as a header."""

    html: str
    policy: str


def render_html(study: ReportDocument, films: Mapping[str, str] | None = None) -> str:
    """Render a report as a page that opens from disk, fits any screen width, and can be printed.

    The same report gives the same text, which is valid UTF-8. All content is escaped, and the
    content security policy of the page allows no script except the page's script.

    Args:
        study: The report.
        films: The address of each film by the name of its file; see `render_page`.
    """
    return render_page(study, films=films).html


def render_page(
    study: ReportDocument,
    live: LiveContent | None = None,
    films: Mapping[str, str] | None = None,
) -> RenderedPage:
    """Render a report as a page; see `render_html`.

    Args:
        study: The report.
        films: The address of each film by the name of its file. A film whose address does not
            contain it (`data:…`) is linked. A film without an address is left out.
        live: What a live page has besides; None for a page that opens from disk. The styles and
            the script of all live pages are the same.
    """
    looks = styles(study)
    drawn = draw_sections(study, looks)
    card = draw_card(study, looks)
    groups = [group for section in drawn for group in section.groups]
    if card is not None and card.curves is not None:
        groups.append(card.curves)
    css = "\n".join((_colour_rules(), *map(_file, LIVE_CSS if live else _sheets(study))))
    script = "\n".join(map(_file, (*SCRIPTS, "live.js") if live else SCRIPTS))
    policy = content_security_policy(css, script, live=live is not None)
    page: str = _template().render(
        study=study,
        sections=drawn,
        card=card,
        styles=looks,
        legend=legend_labels(study),
        dotted=frozenset(n for n, s in looks.items() if s.shape and n not in study.labels),
        shapes=PATHS,
        css=css,
        script=script,
        numbers=plain_json(script_data(groups, looks)),
        policy=policy,
        live=live,
        films=draw_films(study, films or {}),
    )
    html = (
        # Control characters that reverse text could disguise what the page says; lone surrogates
        # have no UTF-8.
        page.translate(dict.fromkeys(map(ord, DIRECTION_CONTROLS), "�"))
        .encode("utf-8", "replace")
        .decode()
    )
    return RenderedPage(html=html, policy=policy)


def _sheets(study: ReportDocument) -> tuple[str, ...]:
    """Style sheets of the page; that of heat maps only if there is one."""
    blocks = (block for part in study.parts for block in part.blocks)
    return (*CSS, "heat_map.css") if any(isinstance(b, HeatMap) for b in blocks) else CSS


def plain_json(data: Any) -> str:
    """JSON in which no text can close the surrounding `<script>` element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # HTML does not decode entities inside a script element, so JSON's own escapes are used.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def content_security_policy(css: str, script: str, *, live: bool = False) -> str:
    """The content security policy: allows this style and this script by hash, and nothing else.

    A live page may also fetch from its own server.
    """
    connections = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        f"{connections}img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


@cache
def _template() -> Any:
    """The page's template, cached because compiling it takes longer than rendering most pages."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        # A misspelt name in a template must fail, not print nothing.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pieces"] = line_break_pieces
    environment.filters["is_long"] = is_long
    environment.filters["first_sentence"] = first_sentence
    return environment.get_template("page.jinja")


def line_break_pieces(name: str) -> list[str]:
    """The pieces of a name; a line may break after dots, slashes and underscores."""
    return re.findall(r"[^._/]+[._/]*|[._/]+", name)


LONG_TEXT = 180
"""Characters of a text above which its first sentence stands for it until it is opened."""


def is_long(text: str) -> bool:
    """Whether only the beginning of a text is shown at first."""
    return len(text) > LONG_TEXT


def _colour_rules() -> str:
    hues = (
        f".{kind}{k}{{--hue:light-dark({light},{dark})}}"
        for kind, lights, darks in (("c", LIGHT, DARK), ("v", RISING_LIGHT, RISING_DARK))
        for k, (light, dark) in enumerate(zip(lights, darks, strict=True))
    )
    dashes = (f".d{k}{{--dash:{' '.join(map(str, d)) or 'none'}}}" for k, d in enumerate(DASHES))
    shades = (
        f".q{s}{{--shade:color-mix(in oklab,var(--{'above' if s > 0 else 'below'}) "
        f"{round(55 * abs(s) / SHADES)}%,var(--surface))}}"
        for s in range(-SHADES, SHADES + 1)
    )
    return "\n".join((*hues, *dashes, *shades))
