"""Points and trials of the page in a browser: tooltips by pointer, touch and keyboard."""

import pytest
from browser_questions import TICKS, Open, point
from playwright.sync_api import Locator, Page
from study_samples import HOSTILE

pytest_plugins = ("browser_pages",)

HISTORY, SLICE, THREADS = "#figure-history", "#figure-slice-3", "#figure-threads"


def move(page: Page, figure: str, share: float, height: float) -> None:
    """Bring the pointer to a share of a figure's width and height."""
    area = page.locator(f"{figure} .area")
    point(area)
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + share * box["width"], box["y"] + height * box["height"])


def onto(page: Page, drawn: Locator) -> tuple[float, float]:
    """Bring the pointer onto something that is drawn; where that is, in pixels."""
    drawn.scroll_into_view_if_needed()
    settle(page)
    box = drawn.bounding_box()
    assert box is not None
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*place)
    return place


def settle(page: Page) -> None:
    """Wait until the page has come to rest: what it tells goes when it scrolls."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")


def focus(page: Page, figure: str) -> None:
    """Come to a figure by the keyboard."""
    page.locator(f"{figure} .area").focus()
    settle(page)


def tip(page: Page) -> Locator:
    """The box that tells values."""
    return page.locator("#tip")


def test_the_nearest_point_is_shown(opened: Open) -> None:
    """The tooltip has the name, kind and values; the first trial is the default."""
    page = opened("sweep")
    onto(page, page.locator(f"{HISTORY} .cloud.diamond use"))
    assert ["trial 0", "default"] == tip(page).inner_text().split("\n")[:2]
    assert "environment steps of the search\n20,000" in tip(page).inner_text()
    assert page.locator(f"{HISTORY} .halo").is_visible()
    page.mouse.move(5, 5)
    assert not tip(page).is_visible()
    assert not page.locator(f"{HISTORY} .halo").is_visible()


def test_a_hidden_kind_is_not_shown(opened: Open) -> None:
    """Hidden points are removed, and the nearest other point is shown."""
    page = opened("sweep")
    default = page.locator(f"{HISTORY} .cloud.diamond use")
    place = onto(page, default)
    told = tip(page).inner_text()
    page.locator(".key").filter(has_text="default").first.evaluate("(key) => key.click()")
    page.mouse.move(5, 5)
    page.mouse.move(*place)
    assert told.startswith("trial 0")
    assert tip(page).locator("strong").inner_text() not in {"trial 0", ""}
    assert 0 == page.locator(f"{HISTORY} .cloud.diamond:visible").count()


def test_a_choice_is_shown_by_its_name(opened: Open) -> None:
    """The tooltip has the name of the choice, not its position or its offset."""
    page = opened("sweep")
    move(page, SLICE, 0.5, 0.5)
    assert "agent.activation\nrelu" in tip(page).inner_text()
    assert ["tanh", "relu", "leaky_relu"] == page.locator(f"{SLICE} .names li").all_inner_texts()


def test_points_follow_a_zoom(opened: Open) -> None:
    """A point keeps its value on the zoomed axis; escape resets the zoom."""
    page = opened("sweep")
    came = page.evaluate(TICKS, HISTORY)
    first = page.locator(f"{HISTORY} .points")
    before = first.get_attribute("width")
    focus(page, HISTORY)
    page.keyboard.press("+")
    assert came != page.evaluate(TICKS, HISTORY)
    assert ("100%", "200%") == (before, first.get_attribute("width"))
    drawn = page.locator(f"{HISTORY} .cloud.disc use").nth(14).bounding_box()
    area = page.locator(f"{HISTORY} .area").bounding_box()
    assert drawn is not None
    assert area is not None
    page.mouse.move(drawn["x"] + drawn["width"] / 2, drawn["y"] + drawn["height"] / 2)
    halo = page.locator(f"{HISTORY} .halo").bounding_box()
    assert halo is not None
    assert drawn["x"] + drawn["width"] / 2 == pytest.approx(halo["x"] + halo["width"] / 2, abs=2)
    assert drawn["y"] + drawn["height"] / 2 == pytest.approx(halo["y"] + halo["height"] / 2, abs=2)
    page.keyboard.press("Escape")
    assert came == page.evaluate(TICKS, HISTORY)
    assert "100%" == first.get_attribute("width")


def test_a_trial_is_shown_with_all_its_values(opened: Open) -> None:
    """The tooltip begins with the result, and leaves out inactive parameters."""
    page = opened("sweep")
    focus(page, THREADS)
    page.keyboard.press("ArrowRight")
    best = tip(page).inner_text().split("\n")
    assert (["mean return"], "algorithm.learning_rate") == (best[1:2], best[3])
    page.keyboard.press("ArrowLeft")
    assert best == tip(page).inner_text().split("\n")
    for _ in range(39):
        page.keyboard.press("ArrowRight")
    last = tip(page).inner_text()
    assert "mean return\n—" in last
    assert page.locator(f"{THREADS} .hover .marked").is_visible()
    page.keyboard.press("Escape")
    assert not tip(page).is_visible()


def test_the_pointer_finds_a_trial(opened: Open) -> None:
    """Trials are found on and between coordinates; one without a value there is not."""
    page = opened("sweep")
    for share in (0.08, 0.21, 0.5, 0.75, 0.98):
        move(page, THREADS, share, 0.4)
        assert tip(page).inner_text().startswith("trial ")


def test_a_single_trial_is_found_from_everywhere(opened: Open) -> None:
    """A single trial is found on either side of the coordinates too."""
    page = opened("one_trial")
    for share in (0.02, 0.3, 0.5, 0.98):
        move(page, THREADS, share, 0.5)
        assert tip(page).inner_text().startswith("trial 0\nmean return\n")


def test_a_tap_shows_points_and_trials(opened: Open) -> None:
    """A tap shows the tooltip; many coordinates scroll in their box."""
    page = opened("sweep", touch=True)
    for figure in (HISTORY, THREADS):
        page.locator(f"{figure} .area").tap()
        assert "trial " in tip(page).inner_text()
    assert 390 == page.evaluate("document.documentElement.scrollWidth")


def test_hostile_names_stay_words(opened: Open) -> None:
    """Hostile names stay text where the script shows them too."""
    page = opened("hostile_sweep")
    focus(page, THREADS)
    seen = ""
    for _ in range(24):
        page.keyboard.press("ArrowRight")
        seen += tip(page).inner_text()
    assert all(f"{name} " in seen for name in (HOSTILE[0], HOSTILE[1], HOSTILE[5]))
    assert 0 == page.locator("img").count()


def test_a_trial_has_other_colours_in_dark_mode(opened: Open) -> None:
    """Higher values are brighter in dark mode, and darker in light mode."""
    page = opened("sweep", color_scheme="light")
    stroke = "getComputedStyle(document.querySelector('.thread.v11')).stroke"
    assert "rgb(66, 39, 127)" == page.evaluate(stroke)
    page.emulate_media(color_scheme="dark")
    assert "rgb(249, 235, 128)" == page.evaluate(stroke)
