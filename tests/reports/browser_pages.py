"""Pages of sample studies, opened from disk in the system's own browser."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser_questions import Open
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from study_samples import SAMPLES

from rlexp.reports.page.html import render_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module; root may not use its sandbox."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a sample's page from disk; at the end nothing was fetched, said or thrown."""
    problems: list[str] = []
    fetched: list[str] = []

    def open_(name: str, *, touch: bool = False, **media: Any) -> Page:
        path = tmp_path / f"{name}.html"
        path.write_text(render_html(SAMPLES[name]()), encoding="utf-8")
        size: ViewportSize = (
            {"width": 390, "height": 844} if touch else {"width": 1440, "height": 900}
        )
        context = stack.enter_context(browser.new_context(viewport=size, has_touch=touch))
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda request: fetched.append(request.url))
        page.emulate_media(reduced_motion="reduce", **media)
        page.goto(path.as_uri())
        return page

    with ExitStack() as stack:
        yield open_
    assert [] == problems
    assert [] == [url for url in fetched if not url.startswith(("file://", "data:"))]
    assert 1 == len([url for url in fetched if url.startswith("file://")])
