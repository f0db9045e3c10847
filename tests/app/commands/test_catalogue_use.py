"""The catalogue of an experiment changes how fast commands are, and nothing that they say."""

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
from rlexp.app.reading.leading import Leading
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
    """A catalogue of few runs, which counts files as settled that were written just now."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))


@pytest.fixture
def made(tmp_path: Path, eager: None) -> Stored:
    """Runs of every ending, one that went on twice, and one whose journal is torn."""
    made = stored(Layout(tmp_path / "runs"), test=9)
    for seed, score in enumerate(SCORES):
        made.complete(seed, score)
    made.attempt(3, failed())
    made.attempt(4, failed(Failure.CRASHED, "the machine failed"))
    made.attempt(5, [evaluated(50, 1.0, 2.0), ended(Ending.INTERRUPTED, 60)])
    made.attempt(6, [evaluated(50, 1.0, 2.0), ended(Ending.PRUNED, 50, reason="slow")])
    made.attempt(7, [evaluated(50, 1.0), Checkpointed(time=STARTED, step=50, name="50")])
    made.attempt(
        7,
        [
            Refused(time=STARTED, step=80, reason="it is damaged"),
            Continued(time=STARTED, step=50, attempt=1, drift="numpy"),
            evaluated(100, 5.0),
            evaluated(100, 5.0, final=True),
            ended(Ending.COMPLETED),
        ],
    )
    torn = made.complete(8, 40.0).attempt(1).journal
    torn.write_bytes(torn.read_bytes() + b'{"event": "me')
    return made


def said(made: Stored) -> list[Any]:
    """What commands that look return of an experiment."""
    workspace = study(made.paths.folder.parents[1])
    results: list[Result] = [
        list_runs(ListRequest("alpha"), workspace),
        list_runs(ListRequest(group=True), workspace),
        show("alpha", ShowPart.RESULT, workspace),
        status("alpha", workspace),
    ]
    entries = read_entries(made.paths, made.experiment, Phase.TEST)
    summary = summarise(made.paths, made.experiment, Phase.TEST, entries, Leading())
    return [*map(document, results), summary]


def without_catalogue(made: Stored) -> list[Any]:
    """The same, where no catalogue is."""
    made.paths.catalogue.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "FEWEST", 10**9)
        return said(made)


def read(made: Stored) -> dict[str, Any]:
    """What a catalogue holds."""
    plain: dict[str, Any] = json.loads(made.paths.catalogue.read_bytes().split(b"\n")[1])
    return plain


def write(made: Stored, plain: Any) -> None:
    """Write a catalogue whose sum is right."""
    content = json.dumps(plain).encode()
    made.paths.catalogue.write_bytes(sha256(content).hexdigest().encode() + b"\n" + content)


def test_what_is_over_is_catalogued_and_says_the_same(made: Stored) -> None:
    """Looking writes a catalogue of the runs that are over; read from it, nothing is different."""
    expected = without_catalogue(made)
    assert said(made) == expected
    names = {made.run(seed).folder.name for seed in (0, 1, 2, 3, 6, 7, 8)}
    assert set(read(made)["runs"]["name"]) == names
    assert said(made) == expected


def test_a_catalogue_spares_the_journals(made: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a catalogue, no journal of a run that is over is opened."""
    said(made)
    opened: list[str] = []
    reading = os.open

    def noting(path: Any, *arguments: Any, **more: Any) -> int:
        opened.append(str(path))
        return reading(path, *arguments, **more)

    monkeypatch.setattr(os, "open", noting)
    list_runs(ListRequest("alpha"), study(made.paths.folder.parents[1]))
    journals = {Path(p).parents[2].name for p in opened if p.endswith("events.jsonl")}
    assert journals == {made.run(seed).folder.name for seed in (4, 5)}


def change(made: Stored, column: str, of: Callable[[Any], Any]) -> None:
    """Change a column of the catalogue."""
    plain = read(made)
    plain["runs"][column] = [of(value) for value in plain["runs"][column]]
    write(made, plain)


def link(made: Stored) -> None:
    """Put a link in the catalogue's place."""
    moved = made.paths.folder / "elsewhere"
    made.paths.catalogue.rename(moved)
    made.paths.catalogue.symlink_to(moved)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made.paths.catalogue.unlink(),
        lambda made: made.paths.catalogue.write_bytes(b""),
        lambda made: made.paths.catalogue.write_bytes(b"\x80\x04garbage\xff\n" * 99),
        lambda made: os.truncate(made.paths.catalogue, made.paths.catalogue.stat().st_size // 2),
        lambda made: write(made, []),
        lambda made: write(made, {**read(made), "schema": 3}),
        lambda made: write(made, {**read(made), "of": "1, rlexp 0.0"}),
        lambda made: write(made, {**read(made), "runs": {}}),
        lambda made: write(made, {**read(made), "configurations": []}),
        lambda made: write(made, {**read(made), "configurations": [{"agent": 1}]}),
        lambda made: change(made, "score", lambda _: "12"),
        lambda made: change(made, "state", lambda _: "\x1b[31mrunning"),
        lambda made: change(made, "seed", lambda seed: seed + 1),
        lambda made: change(made, "continuations", lambda _: [{"event": "ended"}]),
        lambda made: change(made, "attempts", lambda _: 10**18),
        lambda made: change(made, "configuration", lambda _: 7),
        link,
    ],
)
def test_a_catalogue_that_is_spoilt_changes_nothing(
    made: Stored, spoil: Callable[[Stored], object]
) -> None:
    """Missing, cut, of garbage, of another version or of nonsense: it is made again."""
    expected = without_catalogue(made)
    said(made)
    whole = read(made)
    spoil(made)
    assert said(made) == expected
    assert read(made) == whole


@given(st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flipped_bytes_of_a_catalogue_are_believed(made: Stored, data: st.DataObject) -> None:
    """Whatever bytes of it are different, commands say the same."""
    expected = without_catalogue(made)
    said(made)
    content = bytearray(made.paths.catalogue.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=9)):
        content[place] ^= data.draw(st.integers(1, 255))
    made.paths.catalogue.write_bytes(content)
    assert said(made) == expected


def edited(path: Path, before: bytes, after: bytes) -> None:
    """Change a file, and put its size and its times back to what they were."""
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(before, after))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    "touch",
    [
        lambda made: edited(made.run(1).attempt(1).journal, b"21.0", b"99.0"),
        lambda made: made.run(0).attempt(1).journal.write_bytes(b""),
        lambda made: made.run(0).attempt(1).journal.unlink(),
        lambda made: os.truncate(made.run(2).attempt(1).journal, 200),
        lambda made: edited(made.run(1).spec, b'"seed": 1', b'"seed": 2'),
        lambda made: made.run(1).spec.unlink(),
        lambda made: made.attempt(3, failed(reason="again")),
        lambda made: shutil.rmtree(made.run(7).attempt(1).folder),
        lambda made: shutil.rmtree(made.run(2).folder),
        lambda made: made.run(2).folder.rename(made.run(2).folder.with_name("other")),
        lambda made: os.utime(made.run(0).attempt(1).journal),
        lambda made: shutil.copytree(made.run(0).folder, made.paths.folder / "copy"),
        lambda made: made.run(4).attempt(1).verdict.write_text("{}"),
    ],
)
def test_a_change_of_a_run_is_seen(made: Stored, touch: Callable[[Stored], object]) -> None:
    """What changes after it was catalogued is told as it is, an edit that hides itself too."""
    said(made)
    touch(made)
    now = said(made)
    assert now == without_catalogue(made)


def test_a_foreign_catalogue_shows_no_escapes(made: Stored) -> None:
    """Even one that was made on purpose, of the right files, has no control of a terminal."""
    said(made)
    change(made, "reason", lambda _: "\x1b[31mred\x07")
    folder = made.paths.folder.parents[1]
    printed = rlexp(folder, "show", "alpha").out + rlexp(folder, "ls", "alpha").out
    assert "red" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_it_is_in_the_users_cache_where_the_folder_takes_none(
    made: Stored, tmp_path: Path
) -> None:
    """Where it cannot be written beside the runs, it is in the cache, and is used from there."""
    expected = without_catalogue(made)
    made.paths.catalogue.mkdir()
    assert said(made) == expected
    (kept,) = (tmp_path / "home" / "rlexp" / "catalogues").iterdir()
    before = kept.stat().st_mtime_ns
    assert said(made) == expected
    assert kept.stat().st_mtime_ns == before


def test_a_new_file_is_not_yet_believed(made: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changed within its clock's tick is read again, for a change may not show."""
    monkeypatch.setattr(catalogue, "SETTLED", 60.0)
    said(made)
    assert not made.paths.catalogue.exists()
