"""The page in a browser: it is drawn, readable and printable, and executes no content."""

from pathlib import Path

import pytest
from browser_questions import CONTRAST, SCHEMES, SMALLEST, Open, point
from evidence_samples import inquiry, one_seed, worst
from part_blocks import part_of
from playwright.sync_api import Browser, Page
from study_pages import text_of
from study_samples import LABELS, SAMPLES

from rlexp.reports.analysis.summary_card import summary_card
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.page.html import render_html
from rlexp.reports.sections.missing import MissingRunsSection

pytest_plugins = ("browser_pages",)
NAMELESS_ROWS = """[...document.querySelectorAll(".rows .name bdi")].filter(
    name => name.offsetParent && name.getBoundingClientRect().width < 8
).map(name => name.textContent)"""
"""Rows of a figure that is shown whose label has no room."""


@pytest.mark.parametrize("name", SAMPLES)
def test_every_figure_is_drawn_and_the_page_does_not_scroll_sideways(
    open_page: Open, name: str
) -> None:
    """Empty figures say so, wide tables scroll in their boxes, and letters and labels keep their size."""
    page = open_page(name)
    for figure in page.locator("figure.figure").all():
        marks = figure.locator(
            ".curves path, .strip .estimate, td[class^=q], .points use, .threads path"
        ).count()
        assert marks or figure.get_by_text("There is no").count()
        box = figure.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 40
    for area in page.locator(".area").all():
        area_box = area.bounding_box()
        assert area_box is not None
        assert area_box["height"] > 150
    for width in (360, 768, 1024, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert width == page.evaluate("document.documentElement.scrollWidth")
        assert [] == page.evaluate(NAMELESS_ROWS)
        assert page.evaluate(SMALLEST) >= 10


@pytest.mark.parametrize("name", ["typical", "hostile", "one_run", "sweep"])
def test_every_word_can_be_read(open_page: Open, name: str) -> None:
    """The contrast of text is at least 4.5 : 1, in light and in dark mode."""
    page = open_page(name)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert [] == page.evaluate(CONTRAST), scheme


def test_runs_are_not_hidden_by_the_interval(open_page: Open) -> None:
    """The dots of the runs are drawn below the bar of the interval, within their strip."""
    page = open_page("typical")
    assert page.locator(".strip .dot").count() > 0
    assert [] == page.evaluate(
        """[...document.querySelectorAll(".strip .dot")].filter(dot => {
            const strip = dot.closest(".strip"), bar = strip.querySelector(".bar");
            const box = dot.getBoundingClientRect(), room = strip.getBoundingClientRect();
            const width = bar ? parseFloat(getComputedStyle(bar).strokeWidth) : 0;
            const below = bar ? bar.getBoundingClientRect().top + width / 2 : room.top;
            return box.top < below || box.bottom > room.bottom + 1;
        }).map(dot => dot.outerHTML)"""
    )


def test_hostile_names_stay_words(open_page: Open) -> None:
    """Hostile names are plain text in the tooltip."""
    page = open_page("hostile")
    point(page.locator("#figure-curves-0 .area"))
    tooltip = page.locator("#tip").inner_text()
    assert "</script><script>alert(1)</script>" in tooltip
    assert '"><img src=x onerror=alert(1)>' in tooltip
    assert 0 == page.locator("img").count()
    assert 2 == page.locator("script").count()


def test_the_policy_stops_other_scripts(browser: Browser, tmp_path: Path) -> None:
    """The policy blocks a script that was inserted into the page."""
    path = tmp_path / "page.html"
    path.write_text(text_of("typical").replace("</body>", "<script>intruder = 1</script></body>"))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert "undefined" == page.evaluate("typeof intruder")
    path.write_text(path.read_text().replace("Content-Security-Policy", "No-Policy"))
    page.reload()
    assert "number" == page.evaluate("typeof intruder")
    page.close()


def background(page: Page) -> str:
    """The background colour of the page."""
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_and_light(open_page: Open) -> None:
    """The mode follows the system or the reader's choice; labels have colours for each."""
    light, dark = "rgb(250, 250, 248)", "rgb(16, 18, 22)"
    page = open_page("typical", color_scheme="light")
    curve = "getComputedStyle(document.querySelector('.line')).stroke"
    on_light = page.evaluate(curve)
    assert light == background(page)
    page.emulate_media(color_scheme="dark")
    assert dark == background(page)
    assert on_light != page.evaluate(curve)
    page.get_by_label("Switch between light and dark").click()
    assert (light, on_light) == (background(page), page.evaluate(curve))
    page.get_by_label("Switch between light and dark").click()
    assert dark == background(page)


def test_a_link_opens_a_folded_part(open_page: Open) -> None:
    """A link to a folded section opens the section and scrolls to it."""
    page = open_page("typical")
    assert not page.get_by_text("diff --git").is_visible()
    page.locator(".contents a[href='#provenance']").click()
    page.get_by_text("diff --git").wait_for(state="visible")
    assert page.get_by_text("diff --git").is_visible()


def test_paper_is_light_open_and_without_controls(open_page: Open) -> None:
    """Print is light, unfolded and complete, for any state of the page."""
    page = open_page("typical", color_scheme="dark")
    page.get_by_label("Switch between light and dark").focus()
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert "rgb(255, 255, 255)" == background(page)
    for selector in (".theme", ".side", ".reset", "#tip"):
        assert 0 == page.locator(f"{selector}:visible").count()
    assert page.get_by_text("diff --git").is_visible()
    assert b"%PDF" == page.pdf(format="A4")[:4]
    assert not page.locator("details[open]").count()


def test_the_page_is_whole_without_its_script(browser: Browser, tmp_path: Path) -> None:
    """Curves, ticks and texts exist before the script runs."""
    path = tmp_path / "page.html"
    path.write_text(text_of("typical"), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator(".curves .line:visible").count() == 4 * len(LABELS)
    assert page.locator(".x-axis text:visible").count() > 20
    assert not page.locator(".theme").is_visible()
    context.close()


def test_a_label_keeps_its_room_beside_a_reason(browser: Browser, tmp_path: Path) -> None:
    """On a phone, the reason for a missing interval breaks, and the label stays readable."""
    file = tmp_path / "report.html"
    card = summary_card(inquiry(one_seed()), curves=False)
    study = ReportDocument(
        title="x", subtitle="", labels=("ppo", "a2c", "dqn"), parts=(), version="1", card=card
    )
    file.write_text(render_html(study))
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(file.as_uri())
    assert [] == page.evaluate(NAMELESS_ROWS)
    assert "too few runs for an interval" in page.locator(".value").first.inner_text()
    page.close()


def test_titles_of_columns_take_several_lines_before_a_table_scrolls(
    browser: Browser, tmp_path: Path
) -> None:
    """The bounds on the aggregates fit into the page on a laptop, with all their columns."""
    file = tmp_path / "bounds.html"
    missing = part_of(MissingRunsSection(), worst())
    study = ReportDocument(
        title="x", subtitle="", labels=("ppo", "a2c"), parts=(missing,), version="1"
    )
    file.write_text(render_html(study))
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto(file.as_uri())
    box = page.locator("#table-bounds .scroll")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.close()
