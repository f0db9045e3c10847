"""The pictures of the README show what the commands print now."""

import csv
import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_line import typed as rlexp
from stored_runs import ended, evaluated, stored, study

from rlexp.app.commands.setup.demo import STUDY
from rlexp.app.execution.request import read_request
from rlexp.records.events import Ending
from rlexp.reports.drawing.palette import DARK, LIGHT

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
ANSWER = re.compile(r'<(?:h2 class="answer"|p class="basis")[^>]*>(.*?)</(?:h2|p)>', re.DOTALL)

TIME = re.compile(r"(in\s\d+\sruns),.*")
"""The number of runs in the line of costs, and the time after it."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that draws the pictures, as a module."""
    place = ROOT / ".ci" / "pictures.py"
    specification = importlib.util.spec_from_file_location("pictures", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up.
    sys.modules["pictures"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the experiment of the demonstration, and the scores of the pictures."""
    place = tmp_path_factory.mktemp("demonstration")
    rows = list(csv.DictReader((PICTURES / "scores.csv").read_text().splitlines()))
    workspace = study(place)
    experiment = read_request([str(STUDY)], workspace).experiment
    records = stored(
        workspace.layout,
        experiment.name,
        *experiment.configurations,
        test=len(rows) // 2,
    )
    for row in rows:
        step, score = int(row["steps"]), float(row["score"])
        events: list[Any] = [
            evaluated(step, *[score] * 20, final=True),
            ended(Ending.COMPLETED, step),
        ]
        records.attempt(int(row["seed"]), events, label=row["label"])
    return place


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_show_present_numbers(script: ModuleType, scheme: str) -> None:
    """The words and numbers of each chart are those that the benchmarks and the code hold."""
    for name, chart in script.charts().items():
        drawn = script.chart_svg(chart, script.SCHEMES[scheme])
        committed = (PICTURES / f"{name}-{scheme}.svg").read_text()
        assert script.text_of(drawn) == script.text_of(committed)


def test_terminal_shows_present_output(script: ModuleType, folder: Path) -> None:
    """The picture of the terminal has the words that the command prints for the same scores."""
    output = script.shown_output(folder)
    for scheme in ("light", "dark"):
        drawn = script.text_of(script.terminal_svg(output, script.COMMAND, scheme))
        committed = script.text_of((PICTURES / f"terminal-{scheme}.svg").read_text())
        # The time of training depends on the machine.
        assert TIME.sub(r"\1", drawn) == TIME.sub(r"\1", committed)
    assert "ppo tuned is better than ppo default" in output


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_a_label_has_the_colour_that_it_has_on_the_page(
    scheme: str, palette: tuple[str, ...]
) -> None:
    """The intervals of the labels in the terminal have the first colours of the page's palette."""
    picture = (PICTURES / f"terminal-{scheme}.svg").read_text()
    colours = dict(re.findall(r"\.(terminal-r\d+) \{ fill: (#\w+)", picture))
    marked = re.findall(r'<text class="(terminal-r\d+)"[^>]*>(?:&#160;)*━', picture)
    assert [colour.lower() for colour in palette[:2]] == [colours[name] for name in marked]


def test_page_shows_present_answer(script: ModuleType, folder: Path) -> None:
    """The pictures of the page begin with the answer that the report gives for the same scores."""
    assert 0 == rlexp(folder, "report", script.EXPERIMENT).code
    page = (folder / "reports" / script.EXPERIMENT / "report.html").read_text()
    answer = [html.unescape(text).strip() for text in ANSWER.findall(page)]
    assert 2 == len(answer)
    for scheme in ("light", "dark"):
        committed = (PICTURES / f"page-{scheme}.txt").read_text().splitlines()
        assert answer == [line for line in committed if line][:2]


def test_pictures_are_small() -> None:
    """No picture is larger than 150 kB."""
    assert [] == [path.name for path in PICTURES.iterdir() if path.stat().st_size > 150_000]


def test_the_readme_shows_each_picture() -> None:
    """Each picture that the README names exists, in light and in dark, and each one is shown."""
    named = set(re.findall(r'docs/pictures/([^"]+)"', (ROOT / "README.md").read_text()))
    assert {path.name for path in PICTURES.iterdir() if path.suffix in {".svg", ".png"}} == named
    assert {name.replace("light", "dark") for name in named if "light" in name} < named
