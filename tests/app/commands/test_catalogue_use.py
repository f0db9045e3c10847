"""The catalogue of an experiment makes commands faster and never changes their output."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, ended, evaluated, failed, stored, study

from rlexp.app.commands.list_runs import ListRequest, list_runs
from rlexp.app.commands.show import ShowPart, show
from rlexp.app.commands.status import status
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.summary import read_entries, summarise
from rlexp.app.results import Result, document
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Checkpointed, Continued, Ending, Failure, Refused
from rlexp.store import catalogue
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

SCORES = (10.0, 20.0, 30.0)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the catalogue hold few runs and trust files that were written just now."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))


@pytest.fixture
def experiment_with_all_endings(tmp_path: Path, eager: None) -> Stored:
    """Runs of every ending, one with two attempts, and one with a torn journal."""
    experiment_with_all_endings = stored(Layout(tmp_path / "runs"), test=9)
    for seed, score in enumerate(SCORES):
        experiment_with_all_endings.complete(seed, score)
    experiment_with_all_endings.attempt(3, failed())
    experiment_with_all_endings.attempt(4, failed(Failure.CRASHED, "the machine failed"))
    experiment_with_all_endings.attempt(
        5, [evaluated(50, 1.0, 2.0), ended(Ending.INTERRUPTED, 60)]
    )
    experiment_with_all_endings.attempt(
        6, [evaluated(50, 1.0, 2.0), ended(Ending.PRUNED, 50, reason="slow")]
    )
    experiment_with_all_endings.attempt(
        7, [evaluated(50, 1.0), Checkpointed(time=STARTED, step=50, name="50")]
    )
    experiment_with_all_endings.attempt(
        7,
        [
            Refused(time=STARTED, step=80, reason="it is damaged"),
            Continued(time=STARTED, step=50, attempt=1, drift="numpy"),
            evaluated(100, 5.0),
            evaluated(100, 5.0, final=True),
            ended(Ending.COMPLETED),
        ],
    )
    torn = experiment_with_all_endings.complete(8, 40.0).attempt(1).journal
    torn.write_bytes(torn.read_bytes() + b'{"event": "me')
    return experiment_with_all_endings


def results_of(experiment_with_all_endings: Stored) -> list[Any]:
    """The results of commands that read an experiment."""
    workspace = study(experiment_with_all_endings.paths.folder.parents[1])
    results: list[Result] = [
        list_runs(ListRequest("alpha"), workspace),
        list_runs(ListRequest(group=True), workspace),
        show("alpha", ShowPart.RESULT, workspace),
        status("alpha", workspace),
    ]
    entries = read_entries(
        experiment_with_all_endings.paths, experiment_with_all_endings.experiment, Phase.TEST
    )
    summary = summarise(
        experiment_with_all_endings.paths,
        experiment_with_all_endings.experiment,
        Phase.TEST,
        entries,
        HeadlineAggregate(),
    )
    return [*map(document, results), summary]


def without_catalogue(experiment_with_all_endings: Stored) -> list[Any]:
    """The same results after the catalogue was deleted."""
    experiment_with_all_endings.paths.catalogue.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "FEWEST", 10**9)
        return results_of(experiment_with_all_endings)


def catalogue_rows(experiment_with_all_endings: Stored) -> dict[str, Any]:
    """The content of a catalogue."""
    content: dict[str, Any] = json.loads(
        experiment_with_all_endings.paths.catalogue.read_bytes().split(b"\n")[1]
    )
    return content


def write(experiment_with_all_endings: Stored, plain: Any) -> None:
    """Write a catalogue with a correct checksum."""
    content = json.dumps(plain).encode()
    experiment_with_all_endings.paths.catalogue.write_bytes(
        sha256(content).hexdigest().encode() + b"\n" + content
    )


def test_ended_runs_are_catalogued_with_the_same_results(
    experiment_with_all_endings: Stored,
) -> None:
    """Reading writes a catalogue of the ended runs, and results read from it are the same."""
    expected = without_catalogue(experiment_with_all_endings)
    assert results_of(experiment_with_all_endings) == expected
    names = {experiment_with_all_endings.run(seed).folder.name for seed in (0, 1, 2, 3, 6, 7, 8)}
    assert set(catalogue_rows(experiment_with_all_endings)["runs"]["name"]) == names
    assert results_of(experiment_with_all_endings) == expected


def test_journals_of_catalogued_runs_are_not_opened(
    experiment_with_all_endings: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a catalogue, no journal of an ended run is opened."""
    results_of(experiment_with_all_endings)
    opened: list[str] = []
    reading = os.open

    def noting(path: Any, *arguments: Any, **more: Any) -> int:
        opened.append(str(path))
        return reading(path, *arguments, **more)

    monkeypatch.setattr(os, "open", noting)
    list_runs(ListRequest("alpha"), study(experiment_with_all_endings.paths.folder.parents[1]))
    journals = {Path(p).parents[2].name for p in opened if p.endswith("events.jsonl")}
    assert journals == {experiment_with_all_endings.run(seed).folder.name for seed in (4, 5)}


def change(experiment_with_all_endings: Stored, column: str, of: Callable[[Any], Any]) -> None:
    """Change a column of the catalogue."""
    content = catalogue_rows(experiment_with_all_endings)
    content["runs"][column] = [of(value) for value in content["runs"][column]]
    write(experiment_with_all_endings, content)


def link(experiment_with_all_endings: Stored) -> None:
    """Replace the catalogue by a link."""
    moved = experiment_with_all_endings.paths.folder / "elsewhere"
    experiment_with_all_endings.paths.catalogue.rename(moved)
    experiment_with_all_endings.paths.catalogue.symlink_to(moved)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda experiment_with_all_endings: experiment_with_all_endings.paths.catalogue.unlink(),
        lambda experiment_with_all_endings: (
            experiment_with_all_endings.paths.catalogue.write_bytes(b"")
        ),
        lambda experiment_with_all_endings: (
            experiment_with_all_endings.paths.catalogue.write_bytes(b"\x80\x04garbage\xff\n" * 99)
        ),
        lambda experiment_with_all_endings: os.truncate(
            experiment_with_all_endings.paths.catalogue,
            experiment_with_all_endings.paths.catalogue.stat().st_size // 2,
        ),
        lambda experiment_with_all_endings: write(experiment_with_all_endings, []),
        lambda experiment_with_all_endings: write(
            experiment_with_all_endings,
            {**catalogue_rows(experiment_with_all_endings), "schema": 3},
        ),
        lambda experiment_with_all_endings: write(
            experiment_with_all_endings,
            {**catalogue_rows(experiment_with_all_endings), "of": "1, rlexp 0.0"},
        ),
        lambda experiment_with_all_endings: write(
            experiment_with_all_endings,
            {**catalogue_rows(experiment_with_all_endings), "runs": {}},
        ),
        lambda experiment_with_all_endings: write(
            experiment_with_all_endings,
            {**catalogue_rows(experiment_with_all_endings), "configurations": []},
        ),
        lambda experiment_with_all_endings: write(
            experiment_with_all_endings,
            {**catalogue_rows(experiment_with_all_endings), "configurations": [{"agent": 1}]},
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "score", lambda _: "12"
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "state", lambda _: "\x1b[31mrunning"
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "seed", lambda seed: seed + 1
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "continuations", lambda _: [{"event": "ended"}]
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "attempts", lambda _: 10**18
        ),
        lambda experiment_with_all_endings: change(
            experiment_with_all_endings, "configuration", lambda _: 7
        ),
        link,
    ],
)
def test_a_damaged_catalogue_is_rebuilt(
    experiment_with_all_endings: Stored, spoil: Callable[[Stored], object]
) -> None:
    """A missing, truncated, invalid or outdated catalogue is written again."""
    expected = without_catalogue(experiment_with_all_endings)
    results_of(experiment_with_all_endings)
    whole = catalogue_rows(experiment_with_all_endings)
    spoil(experiment_with_all_endings)
    assert results_of(experiment_with_all_endings) == expected
    assert catalogue_rows(experiment_with_all_endings) == whole


@given(st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_of_a_catalogue_change_no_result(
    experiment_with_all_endings: Stored, data: st.DataObject
) -> None:
    """Results are the same whichever bytes of the catalogue are changed."""
    expected = without_catalogue(experiment_with_all_endings)
    results_of(experiment_with_all_endings)
    content = bytearray(experiment_with_all_endings.paths.catalogue.read_bytes())
    for location in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=9)):
        content[location] ^= data.draw(st.integers(1, 255))
    experiment_with_all_endings.paths.catalogue.write_bytes(content)
    assert results_of(experiment_with_all_endings) == expected


def edited(path: Path, before: bytes, after: bytes) -> None:
    """Change a file, and restore its size and its times."""
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(before, after))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    "touch",
    [
        lambda experiment_with_all_endings: edited(
            experiment_with_all_endings.run(1).attempt(1).journal, b"21.0", b"99.0"
        ),
        lambda experiment_with_all_endings: (
            experiment_with_all_endings.run(0).attempt(1).journal.write_bytes(b"")
        ),
        lambda experiment_with_all_endings: (
            experiment_with_all_endings.run(0).attempt(1).journal.unlink()
        ),
        lambda experiment_with_all_endings: os.truncate(
            experiment_with_all_endings.run(2).attempt(1).journal, 200
        ),
        lambda experiment_with_all_endings: edited(
            experiment_with_all_endings.run(1).spec, b'"seed": 1', b'"seed": 2'
        ),
        lambda experiment_with_all_endings: experiment_with_all_endings.run(1).spec.unlink(),
        lambda experiment_with_all_endings: experiment_with_all_endings.attempt(
            3, failed(reason="again")
        ),
        lambda experiment_with_all_endings: shutil.rmtree(
            experiment_with_all_endings.run(7).attempt(1).folder
        ),
        lambda experiment_with_all_endings: shutil.rmtree(
            experiment_with_all_endings.run(2).folder
        ),
        lambda experiment_with_all_endings: experiment_with_all_endings.run(2).folder.rename(
            experiment_with_all_endings.run(2).folder.with_name("other")
        ),
        lambda experiment_with_all_endings: os.utime(
            experiment_with_all_endings.run(0).attempt(1).journal
        ),
        lambda experiment_with_all_endings: shutil.copytree(
            experiment_with_all_endings.run(0).folder,
            experiment_with_all_endings.paths.folder / "copy",
        ),
        lambda experiment_with_all_endings: (
            experiment_with_all_endings.run(4).attempt(1).verdict.write_text("{}")
        ),
    ],
)
def test_a_change_of_a_catalogued_run_is_detected(
    experiment_with_all_endings: Stored, touch: Callable[[Stored], object]
) -> None:
    """A change after cataloguing shows in the results, even one that keeps size and times."""
    results_of(experiment_with_all_endings)
    touch(experiment_with_all_endings)
    now = results_of(experiment_with_all_endings)
    assert now == without_catalogue(experiment_with_all_endings)


def test_a_forged_catalogue_prints_no_escape_codes(experiment_with_all_endings: Stored) -> None:
    """A catalogue with forged texts for the right files prints no control characters."""
    results_of(experiment_with_all_endings)
    change(experiment_with_all_endings, "reason", lambda _: "\x1b[31mred\x07")
    folder = experiment_with_all_endings.paths.folder.parents[1]
    printed = rlexp(folder, "show", "alpha").out + rlexp(folder, "ls", "alpha").out
    assert "red" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_the_catalogue_is_in_the_cache_if_the_folder_is_read_only(
    experiment_with_all_endings: Stored, tmp_path: Path
) -> None:
    """If it cannot be written beside the runs, it is written to the user's cache and read there."""
    expected = without_catalogue(experiment_with_all_endings)
    experiment_with_all_endings.paths.catalogue.mkdir()
    assert results_of(experiment_with_all_endings) == expected
    (kept,) = (tmp_path / "home" / "rlexp" / "catalogues").iterdir()
    before = kept.stat().st_mtime_ns
    assert results_of(experiment_with_all_endings) == expected
    assert kept.stat().st_mtime_ns == before


def test_a_recently_changed_file_is_read_again(
    experiment_with_all_endings: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changed within one clock tick is read again, because its times may not change."""
    monkeypatch.setattr(catalogue, "SETTLED", 60.0)
    results_of(experiment_with_all_endings)
    assert not experiment_with_all_endings.paths.catalogue.exists()
