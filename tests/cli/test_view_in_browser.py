"""The live page in a browser: it moves while runs go on, and keeps what its reader has set."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from in_full import long
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from stored_runs import configuration, ended, evaluated, stored, study
from viewing import served

from rlexp.records.events import Ending
from rlexp.records.film import FilmRecord
from rlexp.store.films import write_description
from rlexp.store.registers.ledger import sum_of_file

pytest_plugins = ("browser_pages",)

PATIENCE = 120_000
"""Milliseconds that a busy machine may take until something shows on the page."""
SMALL = (
    *("environment=cartpole", "algorithm.n_steps=64", "algorithm.batch_size=32"),
    *("budget.evaluation_every=512", "budget.evaluation_episodes=2", "budget.final_episodes=2"),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of the user is a folder of the test."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """A page of the browser; it must report no problem and ask nobody but its server."""
    problems: list[str] = []
    requests: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    root = "/".join(address.split("/")[:4])
    page.goto(address)
    yield page
    assert [] == problems
    assert [] == [url for url in requests if not url.startswith((root, "data:"))]
    context.close()


@contextmanager
def command(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that trains in the background; it is ended if it has not ended itself."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rlexp", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def version(page: Page) -> str:
    """The version of the content that a page shows."""
    return str(page.locator("#live").get_attribute("data-version"))


def renewed(page: Page, former: str) -> None:
    """Wait until a page shows another version."""
    expect(page.locator("#live")).not_to_have_attribute("data-version", former, timeout=PATIENCE)


def test_a_new_content_keeps_what_the_reader_has_set(browser: Browser, tmp_path: Path) -> None:
    """Position, open folds, hidden labels and the theme stay when a finished run changes the page."""
    experiment = stored(
        study(tmp_path).layout, "duel", *map(configuration, ("ppo", "a2c")), test=4
    )
    for seed in range(3):
        experiment.complete(seed, 10.0 + seed, label="ppo")
        experiment.complete(seed, 20.0 + seed, label="a2c")
    with served(study(tmp_path)) as client:
        client.page("duel")
        with opened(browser, f"{client.server.address}duel/") as page:
            page.get_by_label("Switch between light and dark").click()
            page.locator(".all-labels .key", has_text="a2c").click()
            page.locator("#provenance > details").evaluate("fold => { fold.open = true }")
            page.locator("#cost").evaluate("part => part.scrollIntoView()")
            place = "document.querySelector('#cost').getBoundingClientRect().top"
            before, former = page.evaluate(place), version(page)
            assert page.get_by_text("ppo: 1 of 4 runs").count()
            experiment.complete(3, 13.0, label="ppo")
            renewed(page, former)
            assert not page.get_by_text("ppo: 1 of 4 runs").count()
            assert "dark" == page.evaluate("document.documentElement.dataset.theme")
            key = page.locator(".all-labels .key", has_text="a2c")
            assert "false" == key.get_attribute("aria-pressed")
            number = key.get_attribute("data-label")
            assert 0 == page.locator(f"[data-of='{number}']:not([hidden])").count()
            assert page.locator("#provenance > details").evaluate("fold => fold.open")
            assert abs(before - page.evaluate(place)) < 3


def test_a_zoomed_figure_is_not_replaced(browser: Browser, tmp_path: Path) -> None:
    """While a figure is zoomed, the content waits; the strip says so."""
    experiment = stored(study(tmp_path).layout, "alpha")
    experiment.complete(0, 10.0)
    with served(study(tmp_path)) as client:
        client.page("alpha")
        with opened(browser, f"{client.server.address}alpha/") as page:
            former = version(page)
            area = page.locator("#curves .area").first
            area.focus()
            page.keyboard.press("+")
            experiment.complete(1, 20.0)
            page.get_by_text("There are newer records").wait_for(timeout=PATIENCE)
            assert former == version(page)
            area.focus()
            page.keyboard.press("-")
            renewed(page, former)


def test_a_hidden_tab_asks_nothing(browser: Browser, tmp_path: Path) -> None:
    """While the tab is hidden no request is sent; when it is shown again, it asks at once."""
    stored(study(tmp_path).layout, "alpha").complete(0, 10.0)
    with served(study(tmp_path)) as client, opened(browser, client.server.address) as page:
        expect(page.locator("#live .lines")).to_have_text("Nothing is running")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        show = "hides => { Object.defineProperty(document, 'hidden', { value: hides, configurable: true }); document.dispatchEvent(new Event('visibilitychange')) }"
        page.evaluate(show, True)
        page.wait_for_timeout(500)
        asked.clear()
        page.wait_for_timeout(5000)
        assert [] == asked
        with page.expect_request("**/state.json"):
            page.evaluate(show, False)


def test_the_page_says_when_the_server_has_ended(browser: Browser, tmp_path: Path) -> None:
    """The last state stays on the page, with a sentence that it is the last."""
    stored(study(tmp_path).layout, "alpha").complete(0, 10.0)
    context = browser.new_context()
    page = context.new_page()
    with served(study(tmp_path)) as client:
        client.page("alpha")
        page.goto(f"{client.server.address}alpha/")
        expect(page.locator("#live .lines")).to_contain_text("Not running")
    page.get_by_text("rlexp view has ended").wait_for(timeout=PATIENCE)
    assert page.get_by_text("1 of 3 runs").count()
    context.close()


@long
def test_a_real_run_moves_on_the_page(browser: Browser, tmp_path: Path) -> None:
    """From the empty list: the run appears, its bar and its curve grow, and it ends."""
    with served(study(tmp_path)) as client, opened(browser, client.server.address) as page:
        page.get_by_text("holds no runs yet").wait_for()
        words = ("run", *SMALL, "experiment=real", "seeds.test=1", "budget.steps=12288")
        with command(tmp_path, *words) as process:
            page.get_by_role("link", name="real").click(timeout=PATIENCE)
            bar = page.locator("#live progress")
            expect(bar).to_have_count(1, timeout=PATIENCE)
            share = float(bar.get_attribute("value") or 0)
            page.wait_for_function(
                "share => document.querySelector('#live progress')?.value > share",
                arg=share,
                timeout=PATIENCE,
            )
            expect(page.locator("#live .lines")).to_contain_text("Running", timeout=PATIENCE)
            line = page.locator("#curves .curves path").first
            line.wait_for(state="attached", timeout=PATIENCE)
            first = line.get_attribute("d")
            page.wait_for_function(
                "first => document.querySelector('#curves .curves path')?.getAttribute('d') !== first",
                arg=first,
                timeout=PATIENCE,
            )
            assert 0 == process.wait(300)
        done = page.locator("#live .lines", has_text="Not running: 1 run (1 completed)")
        done.wait_for(timeout=PATIENCE)
        page.get_by_text("1 of 1 runs").first.wait_for(timeout=PATIENCE)


@long
def test_a_real_sweep_moves_on_the_page(browser: Browser, tmp_path: Path) -> None:
    """The trials are counted, the best is marked as a tuning score, and the winner is named."""
    words = (
        *("sweep", "quick", *SMALL, "experiment=real", "budget.steps=1024", "sweep.trials=5"),
        *("seeds.tuning=2", "seeds.selection=1", "seeds.test=1", "sweep.finalists=1"),
    )
    with served(study(tmp_path)) as client, command(tmp_path, *words) as process:
        client.until("", lambda _: client.get("real/").status == 200)
        with opened(browser, f"{client.server.address}real/") as page:
            strip = page.locator("#live")
            expect(strip).to_contain_text(re.compile("[1-4] of 5 trials ended"), timeout=PATIENCE)
            expect(strip).to_contain_text("tuning score", timeout=PATIENCE)
            assert 0 == process.wait(300)
            expect(strip).to_contain_text("Chosen by selection seeds", timeout=PATIENCE)
            expect(page.locator("#answer")).to_contain_text("tuned (trial", timeout=PATIENCE)


def test_a_film_of_the_page_is_shown(browser: Browser, tmp_path: Path) -> None:
    """The policy of the page allows the film that the page contains, and nothing else is loaded."""
    experiment = stored(study(tmp_path).layout, "alpha")
    weights = "5" * 64
    end = replace(ended(Ending.COMPLETED), weights=weights)
    run = experiment.attempt(0, [evaluated(100, 9.0, 11.0, final=True), end])
    video = tmp_path / "videos" / run.folder.name / "film.gif"
    video.parent.mkdir(parents=True)
    Image.new("P", (4, 3)).save(video)
    film = FilmRecord(
        sum=sum_of_file(video) or "",
        weights=weights,
        step=100,
        checkpoint=False,
        draw=0,
        episode=0,
        deterministic=True,
        episode_return=10.0,
        length=7,
    )
    write_description(video, film)
    with served(study(tmp_path)) as client:
        client.page("alpha")
        with opened(browser, f"{client.server.address}alpha/") as page:
            page.locator("#films summary").click()
            shown = page.locator("#films img")
            expect(shown).to_be_visible()
            assert [4, 3] == shown.evaluate("image => [image.naturalWidth, image.naturalHeight]")
