"""The card in a browser: it fits the screen of a laptop."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from comparisons import FAR
from evidence_samples import CARTPOLE, inquiry, of_scores, tuning_phase
from playwright.sync_api import Browser
from sweep_samples import swept

from rlexp.reports.analysis.summary_card import MOST_PARAMETERS, summary_card
from rlexp.reports.drawing.blocks import ReportDocument, SuggestedCommand, SummaryCard
from rlexp.reports.page.html import MOST_ROWS, render_html

pytest_plugins = ("browser_pages",)

LONG = "two labels: undecided, and 3 seeds cannot decide; 4 seeds could find a difference of 220"
COMMANDS = tuple(
    SuggestedCommand(why=why, command=f"rlexp {words}")
    for why, words in (
        ("copy the hyperparameters", "best tuned --format args"),
        ("train the winner again", "run --from-sweep tuned"),
        ("add seeds until every pair is decided", "compare tuned --adaptive"),
    )
)


def of_comparison() -> SummaryCard:
    """The card of a comparison of two labels."""
    return summary_card(inquiry(of_scores({(name, CARTPOLE): s for name, s in FAR.items()})))


def of_many_labels() -> SummaryCard:
    """The card of as many labels as it has rows."""
    names = [f"ppo learning_rate={number}" for number in range(MOST_ROWS)]
    scores = {(n, CARTPOLE): [10.0 * k + 1, 10.0 * k + 2] for k, n in enumerate(names)}
    return summary_card(inquiry(of_scores(scores)))


def of_sweep() -> SummaryCard:
    """The card of a sweep with as many hyperparameters as it shows."""
    card = summary_card(inquiry(swept()))
    phases, parameters = card.tables
    rows = (parameters.rows * MOST_PARAMETERS)[:MOST_PARAMETERS]
    return replace(card, tables=(phases, replace(parameters, rows=rows)))


def of_tuning_runs() -> SummaryCard:
    """The card of tuning runs."""
    return summary_card(inquiry(tuning_phase()))


@pytest.mark.parametrize("make", [of_comparison, of_many_labels, of_sweep, of_tuning_runs])
def test_the_card_ends_on_the_screen_of_a_laptop(
    browser: Browser, tmp_path: Path, make: Callable[[], SummaryCard]
) -> None:
    """The whole card is visible at 1440 × 900 pixels, and nothing in it is cut off."""
    card = replace(make(), text=LONG, commands=COMMANDS)
    marks = () if card.intervals is None else card.intervals.panels[0].marks
    study = ReportDocument(
        title="x",
        subtitle="2 labels, 1 task",
        labels=tuple(mark.label for mark in marks),
        parts=(),
        version="1",
        card=card,
    )
    file = tmp_path / "report.html"
    file.write_text(render_html(study), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(file.as_uri())
    box = page.locator(".card").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900
    assert 1440 == page.evaluate("document.documentElement.scrollWidth")
    page.close()
