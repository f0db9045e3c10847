"""Pages of sample studies, opened from disk in the system's own browser."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_questions import Open
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from study_pages import text_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module, without a sandbox if the user is root."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


class Window:
    """A page of the browser, with the messages and requests of the file that it shows."""

    def __init__(self, browser: Browser, *, touch: bool) -> None:
        self.problems: list[str] = []
        self.fetched: list[str] = []
        self.size: ViewportSize = (
            {"width": 390, "height": 844} if touch else {"width": 1440, "height": 900}
        )
        self.context = browser.new_context(viewport=self.size, has_touch=touch)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.page.on("request", lambda request: self.fetched.append(request.url))

    def show(self, path: Path, **media: Any) -> Page:
        """Open a file with the state of a new window."""
        self.page.mouse.move(0, 0)
        self.page.set_viewport_size(self.size)
        settings = {"media": "null", "color_scheme": "null", **media}
        self.page.emulate_media(reduced_motion="reduce", **settings)
        self.problems.clear()
        self.fetched.clear()
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Iterator[dict[bool, Window]]:
    """Windows by touch or mouse, shared because a new window takes half a second."""
    windows_by_touch: dict[bool, Window] = {}
    yield windows_by_touch
    for window in windows_by_touch.values():
        window.context.close()


@pytest.fixture
def open_page(
    browser: Browser, windows: dict[bool, Window], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Open]:
    """Opens the page of a sample; the test fails if the page fetches or reports anything."""
    used_windows: list[Window] = []

    def open_(name: str, *, touch: bool = False, **media: Any) -> Page:
        path = tmp_path_factory.mktemp("page") / f"{name}.html"
        path.write_text(text_of(name), encoding="utf-8")
        if touch not in windows:
            windows[touch] = Window(browser, touch=touch)
        used_windows.append(windows[touch])
        return windows[touch].show(path, **media)

    yield open_
    for window in used_windows:
        assert [] == window.problems
        assert [] == [u for u in window.fetched if not u.startswith(("file://", "data:"))]
        assert 1 == len([u for u in window.fetched if u.startswith("file://")])
