"""Results as HTML: the words of the command line, escaped, with figures."""

import ast
import html
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_runs import configuration, stored

import rlexp
from rlexp import api
from rlexp.app.commands.look.listing_rows import ListedRun
from rlexp.app.results import Displayed
from rlexp.notebook.html_console import HtmlConsole
from rlexp.notebook.results import SHOWN
from rlexp.store.layout import Layout

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with an experiment of two labels, one of which is a script."""
    folder = tmp_path_factory.mktemp("workspace")
    labels = ("ppo", EVIL)
    duel = stored(Layout(folder / "runs"), "duel", *map(configuration, labels), test=5)
    for label, score in zip(labels, (100.0, 50.0), strict=True):
        for seed in range(5):
            duel.complete(seed, score + seed, label=label)
    return folder


@pytest.fixture(autouse=True)
def current(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace is the current folder."""
    monkeypatch.chdir(folder)


def text_of(result: Displayed) -> str:
    """The text of a result's HTML, without styles and tags."""
    body = re.sub(r"<style>.*?</style>", "", result._repr_html_(), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def returned_classes() -> Iterator[str]:
    """Names of the classes that the annotations of the API return."""
    for name in rlexp.__all__:
        annotation = inspect.signature(getattr(api, name)).return_annotation
        if isinstance(annotation, str):
            yield from (n.id for n in ast.walk(ast.parse(annotation)) if isinstance(n, ast.Name))


def test_every_result_of_the_api_shows_itself() -> None:
    """Each class that a function of the API returns has a function that shows it."""
    names = set(returned_classes())
    assert {"RunOutcome", "Comparison", "Plot"} < names
    # `ShowResult` is a union of these classes.
    shows = {"ExperimentDetails", "RunDetails", "RecordedConfiguration", "RecordedProvenance"}
    # A study is asked and told, and is no result.
    assert set() == (names - {"ShowResult", "SweepStudy"} | shows) - {*SHOWN}


def test_no_result_holds_a_script() -> None:
    """A label, a note or a tag that is a script is shown as text."""
    rlexp.note("duel", EVIL)
    row = rlexp.ls("duel").rows[-1]
    assert isinstance(row, ListedRun)
    results: list[Displayed] = [
        *(rlexp.ls(), rlexp.ls("duel"), rlexp.show("duel"), rlexp.compare("duel")),
        *(rlexp.plot("duel"), rlexp.note("duel"), rlexp.load("runs/duel")),
        *(rlexp.show(f"duel/{row.run}"), rlexp.show(f"duel/{row.run}", part="config")),
    ]
    for result in results:
        assert "<script" not in result._repr_html_(), type(result)
    assert EVIL in text_of(rlexp.show("duel"))


def test_lines_are_those_of_the_command() -> None:
    """A comparison has the verdict, the interval and the next command of the terminal."""
    from rlexp.reports.drawing.blocks import Callout

    comparison = rlexp.compare("duel")
    text = text_of(comparison)
    verdicts = [b.text for p in comparison.parts for b in p.blocks if isinstance(b, Callout)]
    assert verdicts
    assert [] == [verdict for verdict in verdicts if verdict not in text]
    # The answer comes first, the next command last.
    assert text.strip().startswith(verdicts[0][:20])
    assert text.strip().endswith(comparison.next[-1].command)


def test_scores_have_their_interval_number_method_and_seed() -> None:
    """The table of an experiment names the estimate, its interval, n, method and seed."""
    from rlexp.metrics.estimate_text import ends, method_text

    details = rlexp.show("duel")
    estimate = details.phases[0].cells[0].estimate  # type: ignore[union-attr]
    assert estimate is not None
    text = text_of(details)
    assert ends(estimate, 2) in text
    assert "5 of 5 runs" in text
    assert method_text(estimate) in text


def test_figures_are_repeatable_and_have_the_colour_of_the_text() -> None:
    """A plot is the same each time; its axes have the colour of the text around them."""
    plot = rlexp.plot("duel")
    drawn = plot._repr_html_()
    assert drawn == rlexp.plot("duel")._repr_html_()
    assert drawn.count('stroke="currentColor"') > 4
    assert set(re.findall(r'fill="([^"#][^"]*)"', drawn)) <= {"currentColor", "none"}
    assert {"0069AC", "C34A15"} <= set(re.findall(r"color-mix\(in oklab,#(\w+)", drawn))


def test_long_tables_are_cut() -> None:
    """A table of thousands of rows shows the first ones, and says how many are left out."""
    console = HtmlConsole()
    console.table([{"run": k} for k in range(5000)], ("run",))
    assert 201 == console.html.count("<tr>")
    assert "4,800 more rows are not shown here" in console.html


def test_secrets_are_masked_in_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret variable is not shown in a remark or a failure."""
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    console = HtmlConsole()
    console.note("key 0123456789abcdef0123456789abcdef01234567")
    console.error("key 0123456789abcdef0123456789abcdef01234567")
    assert "0123456789abcdef" not in console.html
