"""Heat maps in every format: the page, CSV, JSON, Markdown and figures for print."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from browser_questions import CONTRAST, SCHEMES
from evidence_samples import inquiry
from figure_blocks import draw, texts
from measured_samples import sampled
from part_blocks import of_kind
from playwright.sync_api import Browser
from study_blocks import impossible, interval
from study_samples import HOSTILE, typical

from rlexp.reports.drawing.blocks import Axis, HeatMap, ReportDocument, SectionContent
from rlexp.reports.drawing.palette import RISING_DARK, RISING_LIGHT
from rlexp.reports.figures.canvas import publication_style
from rlexp.reports.formats import as_csv, as_json, markdown
from rlexp.reports.page.grids import heat_map_plot
from rlexp.reports.page.html import render_html
from rlexp.reports.sections.generalisation import GeneralisationSection

pytest_plugins = ("browser_pages",)

MAP = HeatMap(
    name="map",
    title="ppo on CartPole-v1",
    label="ppo",
    x="gravity",
    y="length",
    columns=("8", "9", "10"),
    rows=("0.5", "1"),
    values=(
        (interval(100.0, 5.0), None, interval(200.0, 5.0)),
        (impossible(150.0), interval(110.0, 5.0), None),
    ),
    colour=Axis(title="mean return", low=100.0, high=200.0),
    note="Mean over runs.",
)


def study(*figures: HeatMap) -> ReportDocument:
    """A study of these maps."""
    part = SectionContent(name="maps", title="Maps", blocks=figures)
    labels = tuple(dict.fromkeys(figure.label for figure in figures))
    return ReportDocument(title="s", subtitle="", labels=labels, parts=(part,), version="0.1.0")


def test_the_lowest_row_is_at_the_bottom() -> None:
    """The first row is at the bottom and the first column at the left, as on axes."""
    plot = heat_map_plot(MAP)
    places = {cell.estimate: (cell.left, cell.top) for cell in plot.cells}
    assert {
        "100": (0.0, 50.0),
        "200": (66.6667, 50.0),
        "150": (0.0, 0.0),
        "110": (33.3333, 0.0),
    } == places
    assert [(33.3333, 50.0), (66.6667, 0.0)] == plot.blank
    assert (("8", "9", "10"), ("1", "0.5")) == (tuple(plot.columns), tuple(plot.rows))


def test_shades_rise_with_the_values() -> None:
    """Shades rise from the low end to the high end; equal values get the middle shade."""
    shades = {cell.estimate: cell.shade for cell in heat_map_plot(MAP).cells}
    assert {"100": 0, "110": 1, "150": 6, "200": 11} == shades
    constant_map = replace(MAP, colour=Axis(title="mean return", low=100.0, high=100.0))
    assert {6} == {cell.shade for cell in heat_map_plot(constant_map).cells}


def test_a_tooltip_names_the_cell_and_its_interval() -> None:
    """The tooltip of a cell has its label, both values, the interval, its method and n."""
    tooltip = heat_map_plot(MAP).cells[0].tooltip
    assert tooltip.startswith("ppo\ngravity 8, length 0.5\n100 [95, 105]\n95 % interval")
    assert "10 runs" in tooltip


def test_names_that_have_no_room_are_left_out() -> None:
    """A narrow map keeps every n-th name, and small cells have no numbers."""
    columns = tuple(f"{k} to {k + 1}" for k in range(13))
    row = tuple(interval(1000.0 + k, 1.0) for k in range(13))
    wide_map = replace(MAP, columns=columns, rows=("1",), values=(row,))
    plot = heat_map_plot(wide_map)
    assert columns[0] == plot.columns[0]
    assert 2 <= sum(map(bool, plot.columns)) < 6
    narrower = replace(wide_map, columns=columns[:12], values=(row[:12],))
    number_modes = [heat_map_plot(figure).written for figure in (wide_map, narrower, MAP)]
    assert ["never", "wide", "always"] == number_modes


def luminance(colour: str) -> float:
    """The relative luminance of a colour, as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [RISING_LIGHT, RISING_DARK])
def test_numbers_can_be_read_on_every_shade(colours: tuple[str, ...]) -> None:
    """The contrast of numbers is at least 4.5 : 1 on every shade, on light and dark pages."""
    row = tuple(interval(float(k), 1.0) for k in range(12))
    scale = Axis(title="mean return", low=-0.5, high=11.5)
    figure = replace(MAP, columns=("x",) * 12, rows=("1",), values=(row,), colour=scale)
    for cell in heat_map_plot(figure).cells:
        pale = {"deep": colours is RISING_LIGHT, "dim": colours is RISING_DARK}
        ink = 1.0 if pale.get(cell.look) else luminance("#000000")
        low, high = sorted((ink, luminance(colours[cell.shade])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, cell


def test_pages_without_a_map_have_none_of_its_styles() -> None:
    """A page without a heat map contains no style sheet of heat maps."""
    assert "heat-cells" not in render_html(typical())
    assert ".heat-cells" in render_html(study(MAP))


def test_an_empty_heat_map_says_so() -> None:
    """A heat map without values says so, on the page and in print."""
    empty = replace(MAP, values=((None,) * 3, (None,) * 3))
    assert "There is no value to draw." in render_html(study(empty))
    pytest.importorskip("matplotlib")
    with publication_style():
        assert "nothing to show" in texts(draw(empty))


def test_notes_that_maps_share_stand_once() -> None:
    """A note shared by all heat maps is written once; other notes stay with their map."""
    other_map = replace(MAP, name="other", label="a2c")
    assert 1 == render_html(study(MAP, other_map)).count("Mean over runs.")
    with_other_note = replace(other_map, note="Averaged over wind.")
    page = render_html(study(MAP, with_other_note))
    assert (1, 1) == (page.count("Mean over runs."), page.count("Averaged over wind."))


def test_csv_has_a_row_for_each_cell_with_a_value() -> None:
    """The CSV has a row with the interval for each cell, and a column for each parameter."""
    text = as_csv.render(study(MAP))["map.csv"].decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert ["label", "gravity", "length", "estimate", "low", "high"] == rows[0][:6]
    assert [
        ["ppo", "8", "0.5", "100.0", "95.0", "105.0"],
        ["ppo", "10", "0.5", "200.0", "195.0", "205.0"],
        ["ppo", "8", "1", "150.0", "", ""],
        ["ppo", "9", "1", "110.0", "105.0", "115.0"],
    ] == [row[:6] for row in rows[1:]]


def test_json_has_all_of_it() -> None:
    """The JSON contains the heat map under its kind, and null for an empty cell."""
    block = json.loads(as_json.render(study(MAP))["report.json"])["parts"][0]["blocks"][0]
    assert ("heat_map", "gravity", None) == (block["kind"], block["x"], block["values"][0][1])
    assert 105.0 == block["values"][0][0]["high"]


def test_markdown_has_a_table_of_the_estimates() -> None:
    """The highest row of the map is the first row of the table."""
    text = markdown.render(study(MAP))["report.md"].decode()
    assert "| 1 | 150 | 110 | — |\n| 0.5 | 100 | — | 200 |" in text


def test_the_figure_for_print_has_every_number_and_an_outline_where_there_is_none() -> None:
    """The printed cells have the colours of the page; empty cells have an outline."""
    pytest.importorskip("matplotlib")
    with publication_style():
        figure = draw(MAP)
    assert {"100", "110", "150", "200", "gravity", "length", "mean return"} <= set(texts(figure))
    faces = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert (6, 2) == (len(faces), sum(face[3] == 0 for face in faces))


def test_a_browser_draws_it(browser: Browser, tmp_path: Path) -> None:
    """A tap on a cell shows its value, texts are readable, and the page fits a phone."""
    part = GeneralisationSection(tail=0.1, mastery=None, parameters=None, bins=6).part(
        inquiry(sampled())
    )
    assert part is not None
    path = tmp_path / "page.html"
    path.write_text(render_html(study(*of_kind(part, HeatMap), replace(MAP, label=HOSTILE[1]))))
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert 390 == page.evaluate("document.documentElement.scrollWidth")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        # The contrast of numbers in cells is tested above: shades are no CSS background.
        assert [] == [text for text in page.evaluate(CONTRAST) if text[1] != "text"], scheme
    cell = page.locator("#figure-generalisation-map-1 .heat-cells g").first
    cell.click()
    assert page.locator("#tip").inner_text().startswith("ppo\ngravity 8")
    page.locator("#figure-map .heat-cells g").first.click()
    assert page.locator("#tip").inner_text().startswith(HOSTILE[1])
    assert 0 == page.locator("img").count()
    page.close()
