"""The page of a report shows a film of an episode, which no return has chosen."""

import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import give, typed
from stored_runs import Stored, configuration, ended, evaluated, stored, study
from viewing import served

from rlexp.app.commands.judge import report as reporting
from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.reporting import films
from rlexp.app.reporting.films import MOST_FILMS
from rlexp.records.events import Ending
from rlexp.records.film import FilmRecord
from rlexp.store.films import read_films, write_description
from rlexp.store.registers.ledger import sum_of_file

WEIGHTS = "5" * 64
QUICK = ("repetitions=200", "section=[verdicts]")


@pytest.fixture(autouse=True)
def trusted_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A separate cache, and files that count as old as soon as they are written."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(reporting, "SETTLED", -3600.0)


def experiment(folder: Path, *labels: str) -> Stored:
    """An experiment whose labels have two completed runs with known weights."""
    made = stored(study(folder).layout, "alpha", *map(configuration, labels), test=2)
    for label in labels:
        for seed in range(2):
            end = replace(ended(Ending.COMPLETED), weights=WEIGHTS)
            made.attempt(seed, [evaluated(100, 9.0, 11.0, final=True), end], label=label)
    return made


def film(
    made: Stored,
    seed: int,
    episode: int = 0,
    label: str = "ppo",
    ending: str = ".mp4",
    **changes: object,
) -> Path:
    """A film of a run, whose content is its name; its return is ten times its episode."""
    run = made.run(seed, label)
    video = (
        made.paths.folder.parent.parent / "videos" / run.folder.name / f"film-{episode}{ending}"
    )
    video.parent.mkdir(parents=True, exist_ok=True)
    video.write_bytes(f"{label} {seed} {episode}".encode())
    description = FilmRecord(
        sum=sum_of_file(video) or "",
        weights=WEIGHTS,
        step=100,
        checkpoint=False,
        draw=0,
        episode=episode,
        deterministic=True,
        episode_return=10.0 * episode,
        length=7,
    )
    write_description(video, replace(description, **changes))  # type: ignore[arg-type]
    return video


def page(folder: Path) -> str:
    """The page of the experiment."""
    report(ReportRequest(targets=("alpha",), overrides=QUICK), study(folder))
    return (folder / "reports" / "alpha" / "report.html").read_text()


def shown(folder: Path) -> list[str]:
    """The origins of the films on the page: runs with their seeds, and episodes."""
    return re.findall(r"seed \d+, final.*?episode \d+", page(folder))


def test_the_page_contains_the_film_with_its_run_seed_and_return(tmp_path: Path) -> None:
    """The film is in the page, folded, beside its run, seed and return."""
    video = film(experiment(tmp_path, "ppo"), 1, 3)
    text = page(tmp_path)
    assert f"data:video/mp4;base64,{b64encode(video.read_bytes()).decode()}" in text
    assert "ppo on CartPole-v1: return 30.00 in 7 steps" in text
    assert "seed 1, final policy, deterministic actions. Fresh episode 3 of seed set 0." in text
    assert "media-src data:;" in text
    assert '<details class="fold">\n    <summary><h2>Film of an episode' in text


def test_a_page_without_films_says_nothing_of_them(tmp_path: Path) -> None:
    """Where no film exists, the page has no section about films."""
    experiment(tmp_path, "ppo")
    assert 'id="films"' not in page(tmp_path)


def test_the_first_film_is_shown_and_not_the_best(tmp_path: Path) -> None:
    """The lowest seed and the lowest episode count, whatever the returns."""
    made = experiment(tmp_path, "ppo")
    for seed, episode in ((1, 0), (0, 2), (0, 1)):
        film(made, seed, episode)
    assert 1 == len(shown(tmp_path))
    assert "seed 0" in shown(tmp_path)[0]
    assert shown(tmp_path)[0].endswith("episode 1")


def test_each_label_has_one_film_up_to_a_limit(tmp_path: Path) -> None:
    """A report of many labels has the films of the first ones."""
    labels = [f"label{k}" for k in range(MOST_FILMS + 1)]
    made = experiment(tmp_path, *labels)
    for label in labels:
        film(made, 0, 0, label)
        film(made, 0, 1, label)
    assert MOST_FILMS == len(shown(tmp_path))


def test_films_of_other_weights_or_contents_are_left_out(tmp_path: Path) -> None:
    """A film of a run that was removed, of a checkpoint, and a changed file are not shown."""
    made = experiment(tmp_path, "ppo")
    film(made, 0, 0, weights="6" * 64)
    film(made, 0, 1, weights=None, checkpoint=True)
    film(made, 0, 2).write_bytes(b"changed")
    film(made, 0, 3).with_suffix(".json").write_text("{")
    film(made, 0, 4, length=True)
    assert [] == shown(tmp_path)
    film(made, 0, 5)
    assert 1 == len(shown(tmp_path))


def test_a_large_film_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page links a file above the limit by its relative path, which leads to the file."""
    monkeypatch.setattr(films, "LARGEST_EMBEDDED", 1)
    video = film(experiment(tmp_path, "ppo"), 0)
    [link] = re.findall(r'<a href="([^"]*)">Open the film', page(tmp_path))
    assert video == (tmp_path / "reports" / "alpha" / link).resolve()
    assert "base64,cH" not in page(tmp_path)


def test_a_new_film_makes_a_new_report(tmp_path: Path) -> None:
    """A kept report is written again when a film is there that was not, and only then."""
    made = experiment(tmp_path, "ppo")
    film(made, 1)
    before = page(tmp_path)
    request = ReportRequest(targets=("alpha",), overrides=QUICK)
    assert report(request, study(tmp_path)).unchanged
    film(made, 0)
    assert before != page(tmp_path)


def test_the_live_page_serves_a_large_film_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link of the live page leads to the file; it is refused when the file has changed."""
    monkeypatch.setattr(films, "LARGEST_EMBEDDED", 1)
    video = film(experiment(tmp_path, "ppo"), 0, ending=".gif")
    with served(study(tmp_path)) as client:
        [link] = re.findall(r'<a href="([^"]*)">Open the film', client.page("alpha"))
        answer = client.get(f"alpha/{link}")
        assert (200, video.read_bytes()) == (answer.status, answer.content)
        assert "image/gif" == answer.headers["Content-Type"]
        assert 404 == client.get("alpha/film-0.gif").status
        video.write_bytes(b"changed")
        assert 404 == client.get(f"alpha/{link}").status


def test_films_are_read_in_order_of_seed_set_and_episode(tmp_path: Path) -> None:
    """The order of names on disk does not matter, and a folder that is not there has no films."""
    made = experiment(tmp_path, "ppo")
    for episode, draw in ((2, 0), (10, 0), (1, 1)):
        folder = film(made, 0, episode, draw=draw).parent
    assert [2, 10, 1] == [found.episode for found, _ in read_films(folder)]
    assert [] == list(read_films(tmp_path / "nowhere"))


def test_the_numbers_of_a_report_do_not_depend_on_films(tmp_path: Path) -> None:
    """The tables of a report with and without a film are the same."""
    made = experiment(tmp_path, "ppo", "a2c")
    words = ("report", "alpha", "--format", "csv", "--output", "out", *QUICK_OPTIONS)
    give(tmp_path, *words)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.csv")}
    film(made, 0)
    assert 0 == typed(tmp_path, *words).code
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.csv")}


QUICK_OPTIONS = tuple(word for override in QUICK for word in ("--set", override))
