"""Points and trials of the page in a browser: tooltips by pointer, touch and keyboard."""

import pytest
from browser_questions import TICKS, Open, point
from playwright.sync_api import Locator, Page
from study_samples import HOSTILE

pytest_plugins = ("browser_pages",)

HISTORY, SLICE, THREADS = "#figure-history", "#figure-slice-3", "#figure-threads"


def move(page: Page, figure: str, share: float, height: float) -> None:
    """Move the pointer to a share of a figure's width and height."""
    area = page.locator(f"{figure} .area")
    point(area)
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + share * box["width"], box["y"] + height * box["height"])


def hover_over(page: Page, element: Locator) -> tuple[float, float]:
    """Move the pointer onto an element, and return its position in pixels."""
    element.scroll_into_view_if_needed()
    settle(page)
    box = element.bounding_box()
    assert box is not None
    position = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*position)
    return position


def settle(page: Page) -> None:
    """Wait until the page is still, because scrolling closes the tooltip."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")


def focus(page: Page, figure: str) -> None:
    """Give a figure the keyboard focus."""
    page.locator(f"{figure} .area").focus()
    settle(page)


def tip(page: Page) -> Locator:
    """The tooltip of the page."""
    return page.locator("#tip")


def test_the_nearest_point_is_shown(open_page: Open) -> None:
    """The tooltip has the name, kind and values; the first trial is the default."""
    page = open_page("sweep")
    hover_over(page, page.locator(f"{HISTORY} .cloud.diamond use"))
    assert ["trial 0", "default"] == tip(page).inner_text().split("\n")[:2]
    assert "environment steps of the search\n20,000" in tip(page).inner_text()
    assert page.locator(f"{HISTORY} .halo").is_visible()
    page.mouse.move(5, 5)
    assert not tip(page).is_visible()
    assert not page.locator(f"{HISTORY} .halo").is_visible()


def test_a_hidden_kind_is_not_shown(open_page: Open) -> None:
    """Hidden points are removed, and the nearest other point is shown."""
    page = open_page("sweep")
    default = page.locator(f"{HISTORY} .cloud.diamond use")
    position = hover_over(page, default)
    default_text = tip(page).inner_text()
    page.locator(".key").filter(has_text="default").first.evaluate("(key) => key.click()")
    page.mouse.move(5, 5)
    page.mouse.move(*position)
    assert default_text.startswith("trial 0")
    assert tip(page).locator("strong").inner_text() not in {"trial 0", ""}
    assert 0 == page.locator(f"{HISTORY} .cloud.diamond:visible").count()


def test_a_choice_is_shown_by_its_name(open_page: Open) -> None:
    """The tooltip has the name of the choice, not its position or its offset."""
    page = open_page("sweep")
    move(page, SLICE, 0.5, 0.5)
    assert "agent.activation\nrelu" in tip(page).inner_text()
    assert ["tanh", "relu", "leaky_relu"] == page.locator(f"{SLICE} .names li").all_inner_texts()


def test_points_follow_a_zoom(open_page: Open) -> None:
    """A point keeps its value on the zoomed axis; escape resets the zoom."""
    page = open_page("sweep")
    initial_ticks = page.evaluate(TICKS, HISTORY)
    points = page.locator(f"{HISTORY} .points")
    initial_width = points.get_attribute("width")
    focus(page, HISTORY)
    page.keyboard.press("+")
    assert initial_ticks != page.evaluate(TICKS, HISTORY)
    assert ("100%", "200%") == (initial_width, points.get_attribute("width"))
    point_box = page.locator(f"{HISTORY} .cloud.disc use").nth(14).bounding_box()
    area = page.locator(f"{HISTORY} .area").bounding_box()
    assert point_box is not None
    assert area is not None
    page.mouse.move(
        point_box["x"] + point_box["width"] / 2, point_box["y"] + point_box["height"] / 2
    )
    halo = page.locator(f"{HISTORY} .halo").bounding_box()
    assert halo is not None
    assert point_box["x"] + point_box["width"] / 2 == pytest.approx(
        halo["x"] + halo["width"] / 2, abs=2
    )
    assert point_box["y"] + point_box["height"] / 2 == pytest.approx(
        halo["y"] + halo["height"] / 2, abs=2
    )
    page.keyboard.press("Escape")
    assert initial_ticks == page.evaluate(TICKS, HISTORY)
    assert "100%" == points.get_attribute("width")


def test_a_trial_is_shown_with_all_its_values(open_page: Open) -> None:
    """The tooltip of a trial begins with its value, followed by its parameters."""
    page = open_page("sweep")
    focus(page, THREADS)
    page.keyboard.press("ArrowRight")
    best_trial = tip(page).inner_text().split("\n")
    assert (["mean return"], "algorithm.learning_rate") == (best_trial[1:2], best_trial[3])
    page.keyboard.press("ArrowLeft")
    assert best_trial == tip(page).inner_text().split("\n")
    for _ in range(39):
        page.keyboard.press("ArrowRight")
    last_trial = tip(page).inner_text()
    assert "mean return\n—" in last_trial
    assert page.locator(f"{THREADS} .hover .marked").is_visible()
    page.keyboard.press("Escape")
    assert not tip(page).is_visible()


def test_the_pointer_finds_a_trial(open_page: Open) -> None:
    """The pointer shows a trial on and between coordinates."""
    page = open_page("sweep")
    for share in (0.08, 0.21, 0.5, 0.75, 0.98):
        move(page, THREADS, share, 0.4)
        assert tip(page).inner_text().startswith("trial ")


def test_a_single_trial_is_found_from_everywhere(open_page: Open) -> None:
    """A single trial is found on either side of the coordinates too."""
    page = open_page("one_trial")
    for share in (0.02, 0.3, 0.5, 0.98):
        move(page, THREADS, share, 0.5)
        assert tip(page).inner_text().startswith("trial 0\nmean return\n")


def test_a_tap_shows_points_and_trials(open_page: Open) -> None:
    """A tap shows the tooltip; many coordinates scroll in their box."""
    page = open_page("sweep", touch=True)
    for figure in (HISTORY, THREADS):
        page.locator(f"{figure} .area").tap()
        assert "trial " in tip(page).inner_text()
    assert 390 == page.evaluate("document.documentElement.scrollWidth")


def test_hostile_names_stay_words(open_page: Open) -> None:
    """Hostile names are plain text in the tooltips."""
    page = open_page("hostile_sweep")
    focus(page, THREADS)
    tooltips = ""
    for _ in range(24):
        page.keyboard.press("ArrowRight")
        tooltips += tip(page).inner_text()
    assert all(f"{name} " in tooltips for name in (HOSTILE[0], HOSTILE[1], HOSTILE[5]))
    assert 0 == page.locator("img").count()


def test_a_trial_has_other_colours_in_dark_mode(open_page: Open) -> None:
    """Higher values are brighter in dark mode, and darker in light mode."""
    page = open_page("sweep", color_scheme="light")
    stroke = "getComputedStyle(document.querySelector('.thread.v11')).stroke"
    assert "rgb(66, 39, 127)" == page.evaluate(stroke)
    page.emulate_media(color_scheme="dark")
    assert "rgb(249, 235, 128)" == page.evaluate(stroke)
