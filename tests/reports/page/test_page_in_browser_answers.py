"""The page in a browser: reactions to pointer, touch and keyboard."""

from typing import Any

import pytest
from browser_questions import TICKS, Open, point
from playwright.sync_api import Page
from study_samples import LABELS

from rlexp.reports.drawing.axes import AxisScale

pytest_plugins = ("browser_pages",)


def test_a_label_hides_everywhere(open_page: Open) -> None:
    """A click in any legend hides the label in every figure; a second click shows it."""
    page = open_page("typical")
    parts = page.locator("[data-of='1']")
    keys = page.locator(".key[data-label='1']")
    before = parts.count()
    assert before == page.locator("[data-of='1']:visible").count() > 20
    keys.nth(1).click()
    assert 0 == page.locator("[data-of='1']:visible").count()
    assert {"false"} == {key.get_attribute("aria-pressed") for key in keys.all()}
    assert page.locator("[data-of='0']:visible").count() > 20
    keys.nth(0).click()
    assert before == page.locator("[data-of='1']:visible").count()


def drag(page: Page, figure: str, start: float, end: float) -> None:
    """Drag the pointer over a share of a figure's width."""
    area = page.locator(f"{figure} .area")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], height, steps=3)
    page.mouse.up()


def ticks(page: Page, figure: str) -> Any:
    """Positions and texts of a figure's ticks."""
    return page.evaluate(TICKS, figure)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("typical", ("#figure-curves-1", "#figure-profiles")),
        ("logarithmic", ("#figure-log", "#figure-flat")),
    ],
)
def test_zoom_and_back(open_page: Open, name: str, figures: tuple[str, ...]) -> None:
    """A zoom changes the ticks, and a reset restores the ticks of the page."""
    page = open_page(name)
    for figure in figures:
        _zooms_and_comes_back(page, figure)


def _zooms_and_comes_back(page: Page, figure: str) -> None:
    initial_ticks = ticks(page, figure)
    drag(page, figure, 0.1, 0.4)
    zoomed_ticks = ticks(page, figure)
    assert initial_ticks["x"] != zoomed_ticks["x"]
    assert len(zoomed_ticks["x"]) > 1
    view = page.locator(f"{figure} .curves").get_attribute("viewBox") or ""
    left, _, width, _ = map(float, view.split())
    assert (1000, 3000) == pytest.approx((left, width), abs=60)
    page.locator(f"{figure} .reset").click()
    assert initial_ticks == ticks(page, figure)
    drag(page, figure, 0.5, 0.9)
    page.locator(f"{figure} .area").dblclick()
    assert initial_ticks == ticks(page, figure)
    assert not page.locator(f"{figure} .reset").is_visible()


SPANS = [0.3 * 1.07**k for k in range(400)]
AXES = [
    *(
        AxisScale(start * span, (start + 1) * span)
        for span in SPANS
        for start in (-2.3, -0.4, 0.0, 7.1)
    ),
    *(AxisScale(0.02 * span, span * span, log=True) for span in SPANS[5:200]),
]


def test_the_script_draws_the_same_ticks(open_page: Open) -> None:
    """The script computes the same ticks as Python, on linear and logarithmic axes."""
    page = open_page("one_run")
    axes = [{"low": a.low, "high": a.high, "log": a.log} for a in AXES]
    script_ticks = page.evaluate("(axes) => axes.map((a) => axis(a).ticks(0, 1, 5))", axes)
    for scale, actual in zip(AXES, script_ticks, strict=True):
        expected = scale.ticks(5)
        assert [tick.text for tick in expected] == [tick["text"] for tick in actual]
        places = [100 * tick["at"] for tick in actual]
        assert [tick.at for tick in expected] == pytest.approx(places, abs=1e-3)


def test_a_zoom_fits_the_height(open_page: Open) -> None:
    """A zoom fits the vertical axis to the visible values, without hidden labels."""
    page = open_page("typical")
    drag(page, "#figure-curves-1", 0.5, 0.95)
    all_labels = [
        float(t.replace("−", "-")) for t in ticks(page, "#figure-curves-1")["y"].values()
    ]
    assert min(all_labels) >= 250
    for label in (1, 2):
        page.locator(f".key[data-label='{label}']").first.click()
    page.locator("#figure-curves-1 .reset").click()
    drag(page, "#figure-curves-1", 0.5, 0.95)
    first_label = [float(t) for t in ticks(page, "#figure-curves-1")["y"].values()]
    assert min(first_label) > min(all_labels)


def test_the_pointer_shows_the_values(open_page: Open) -> None:
    """The tooltip has the value and band of every visible label at the nearest x."""
    page = open_page("typical")
    area = page.locator("#figure-curves-1 .area")
    point(area)
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert "50,000 environment steps" in tip.inner_text()
    rows = tip.locator(".row")
    assert list(LABELS) == [row.locator("bdi").inner_text() for row in rows.all()]
    assert ["ppo", "474.8", "[451.2, 498.4]"] == rows.first.inner_text().split("\n")
    page.locator(".key[data-label='0']").first.click()
    point(area)
    assert 2 == rows.count()
    page.mouse.move(5, 5)
    assert not tip.is_visible()


@pytest.mark.parametrize("name", ["logarithmic", "one_run", "many_labels"])
def test_every_position_shows_a_value(open_page: Open, name: str) -> None:
    """Every x has a tooltip, also near gaps and values without a logarithm."""
    page = open_page(name)
    for area in page.locator(".area").all():
        point(area)
        box = area.bounding_box()
        assert box is not None
        for share in (0.01, 0.5, 0.99):
            page.mouse.move(5, 5)
            assert not page.locator("#tip").is_visible()
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 9)
            assert page.locator("#tip").is_visible()
            assert page.locator("#tip .row").count() > 0


def test_the_keyboard_shows_the_values(open_page: Open) -> None:
    """Arrow keys move along a curve; plus and escape zoom in and out."""
    page = open_page("typical")
    page.locator("#figure-curves-0 .area").focus()
    page.keyboard.press("ArrowRight")
    first_position = page.locator("#tip strong").inner_text()
    page.keyboard.press("ArrowRight")
    assert first_position != page.locator("#tip strong").inner_text()
    initial_ticks = ticks(page, "#figure-curves-0")
    page.keyboard.press("+")
    assert initial_ticks != ticks(page, "#figure-curves-0")
    page.keyboard.press("Escape")
    assert initial_ticks == ticks(page, "#figure-curves-0")


def test_a_tooltip_explains_the_interval(open_page: Open) -> None:
    """Tooltips in tables, forest plots and matrices have the method of the interval."""
    page = open_page("typical")
    for place in ("td.interval", ".rows li", ".cells td[class^=q]"):
        point(page.locator(place).first)
        assert "50,000 repetitions, seed 0" in page.locator("#tip").inner_text()
        assert "expected coverage" in page.locator("#tip").inner_text()


def test_a_missing_interval_is_explained(open_page: Open) -> None:
    """The reason of a missing interval is visible in tables and in tooltips of figures."""
    page = open_page("all_impossible")
    assert "one run has no spread" in page.locator("td.estimate").first.inner_text()
    point(page.locator(".rows li").first)
    assert "one run has no spread" in page.locator("#tip").inner_text()
    assert page.locator(".strip.open").count() == page.locator(".strip").count()


def test_a_tap_shows_the_values(open_page: Open) -> None:
    """A tap shows the tooltip, in figures and in tables."""
    page = open_page("typical", touch=True)
    page.locator("#figure-curves-1 .area").tap()
    assert "environment steps" in page.locator("#tip").inner_text()
    page.locator(".rows li").first.tap()
    assert "50,000 repetitions" in page.locator("#tip").inner_text()
    page.locator("h1").tap()
    assert not page.locator("#tip").is_visible()
