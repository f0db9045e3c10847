"""`rlexp tag` and `rlexp note` keep words beside the records and change nothing else."""

import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, rlexp, typed
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, stored, study

from rlexp.app.commands.order.note import note
from rlexp.app.commands.order.tag import tag
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """An experiment with two completed runs and one that has not begun."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.complete(0, 100.0)
    alpha.complete(1, 50.0)
    return alpha


def contents(folder: Path) -> dict[str, str]:
    """The sums of all files of a folder, without locks."""
    files = (p for p in folder.rglob("*") if p.is_file() and ".lock" not in p.name)
    return {str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest() for p in files}


def test_tags_are_added_shown_and_removed(alpha: Stored, tmp_path: Path) -> None:
    """Each tag is stored once, in the order of adding, until it is removed."""
    assert give(tmp_path, "tag", "alpha") == "alpha has no tags\n"
    give(tmp_path, "tag", "alpha", "paper", "baseline")
    again = give_json(tmp_path, "tagging", "tag", "alpha", "baseline", "über:1/2")
    assert {
        "name": "alpha",
        "tags": ["paper", "baseline", "über:1/2"],
        "added": ["über:1/2"],
        "removed": [],
    } == again
    output = give(tmp_path, "tag", "alpha", "paper", "--remove")
    assert "removed from alpha: paper\n" in output
    assert "tags of alpha: baseline, über:1/2\n" in output


def test_notes_are_numbered(alpha: Stored, tmp_path: Path) -> None:
    """Notes keep their order and their time, and removing one renumbers the later ones."""
    for text in ("first thought", "second\nthought", "third"):
        give(tmp_path, "note", "alpha", text)
    removed = give_json(tmp_path, "notes", "note", "alpha", "--remove", "1")
    assert ("first thought", 1) == (removed["removed"]["text"], removed["removed"]["number"])
    notes = give_json(tmp_path, "notes", "note", "alpha")["notes"]
    assert [(1, "second\nthought"), (2, "third")] == [(n["number"], n["text"]) for n in notes]
    assert notes[0]["time"] > STARTED
    assert "second\n      thought" in give(tmp_path, "note", "alpha")


def test_a_run_has_its_own_tags_and_notes(alpha: Stored, tmp_path: Path) -> None:
    """The tags of a run are not those of its experiment; a part of the run's name is enough."""
    run = alpha.run(1).folder.name
    give(tmp_path, "tag", f"alpha/{run}", "odd")
    give(tmp_path, "note", run[:-3], "a strange curve")
    give(tmp_path, "tag", "alpha", "paper")
    (row,) = give_json(tmp_path, "listing", "ls", "alpha", "--where", "tag=odd")["rows"]
    assert (run, ["odd"], "a strange curve") == (row["run"], row["tags"], row["note"])
    (row,) = give_json(tmp_path, "listing", "ls", "--where", "tag=paper")["rows"]
    assert (["paper"], None) == (row["tags"], row["note"])
    assert [] == give_json(tmp_path, "listing", "ls", "--where", "tag=odd")["rows"]
    assert [] == give_json(tmp_path, "listing", "ls", "--where", "tag!=paper")["rows"]


def test_show_has_tags_and_notes(alpha: Stored, tmp_path: Path) -> None:
    """`rlexp show` has the tags and notes of an experiment and of a run, as text and as JSON."""
    name = f"alpha/{alpha.run(0).folder.name}"
    for target, schema in (("alpha", "experiment-details"), (name, "run-details")):
        give(tmp_path, "tag", target, "paper")
        give(tmp_path, "note", target, "the best so far")
        document = give_json(tmp_path, schema, "show", target)
        assert ["paper"] == document["tags"]
        assert ["the best so far"] == [n["text"] for n in document["notes"]]
        output = give(tmp_path, "show", target)
        assert "tags: paper" in output
        assert "the best so far" in output


def test_a_long_note_is_shortened_in_the_table(alpha: Stored, tmp_path: Path) -> None:
    """The table has the beginning of the newest note on one line; JSON has the whole text."""
    give(tmp_path, "note", "alpha", "word \n" * 30)
    assert len(give(tmp_path, "ls").splitlines()) == 2
    (row,) = give_json(tmp_path, "listing", "ls")["rows"]
    assert ("word \n" * 30).strip() == row["note"]


def test_records_and_numbers_do_not_change(alpha: Stored, tmp_path: Path) -> None:
    """Tags and notes change no record and no number; the page shows them."""
    before = contents(alpha.paths.folder)
    give(tmp_path, "report", "alpha", "--format", "csv", "--output", "first")
    verified = give_json(tmp_path, "verification", "verify")
    alpha_catalogue = alpha.paths.catalogue
    give(tmp_path, "tag", "alpha", "paper")
    give(tmp_path, "note", f"alpha/{alpha.run(0).folder.name}", "strange")
    alpha_catalogue.unlink(missing_ok=True)
    after = contents(alpha.paths.folder)
    assert {"annotations.json"} == {name for name in after if after[name] != before.get(name)}
    assert verified == give_json(tmp_path, "verification", "verify")
    give(tmp_path, "report", "alpha", "--format", "csv", "--output", "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    give(tmp_path, "report", "alpha", "--output", "page")
    page = (tmp_path / "page" / "report.html").read_text()
    assert "paper</li>" in page
    assert "strange</dd>" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tag", "alpha", "two words"), "tag 'two words' is not allowed"),
        (("tag", "alpha", "good", ""), "tag '' is not allowed"),
        (("tag", "alpha", "a,b"), "tag 'a,b' is not allowed"),
        (("tag", "alpha", "x" * 51), "is not allowed: use up to 50"),
        (("tag", "alpha", "\x1b[31m"), "is not allowed"),
        (("tag", "alpha", "--remove"), "--remove needs the tags to remove"),
        (("tag", "alpha", "papr", "--remove"), "has no tag 'papr'; did you mean 'paper'"),
        (("tag", "alpa", "x"), "did you mean 'alpha'"),
        (("tag", "alpha/nosuch", "x"), "no run under"),
        (("note", "alpha", "  "), "the text of the note is empty"),
        (("note", "alpha", "x" * 10_001), "at most 10,000 are allowed"),
        (("note", "alpha", "text", "--remove", "1"), "not both"),
        (("note", "alpha", "--remove", "2"), "its notes have the numbers 1 to 1"),
        (("note", "alpha", "--remove", "0"), "its notes have the numbers 1 to 1"),
        (("note", "ppo-test-0", "--remove", "1"), "it has no notes"),
        (("note", "alpha", "--remove", "one"), "'--remove'"),
    ],
)
def test_a_mistake_changes_nothing(
    alpha: Stored, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """A mistake is one line and leaves every file as it was."""
    give(tmp_path, "tag", "alpha", "paper")
    give(tmp_path, "note", "alpha", "a note")
    before = contents(tmp_path / "runs")
    printed = typed(tmp_path, *words)
    assert (2, "", 1) == (printed.code, printed.out, printed.err.count("\n"))
    assert message in printed.err
    assert before == contents(tmp_path / "runs")


def test_secrets_are_masked_before_they_are_stored(
    alpha: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of a secret variable never reaches the file with notes."""
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2hunter2")
    give(tmp_path, "note", "alpha", "sent with hunter2hunter2")
    assert "hunter2" not in alpha.paths.annotations.read_text()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"schema": 9}', '{"schema": 1}', '{"schema": 1, "experiment": 3}']
)
def test_a_damaged_file_hides_no_scores(alpha: Stored, tmp_path: Path, content: str) -> None:
    """A damaged file is named, `ls` and `show` go on without it, and a change is refused."""
    alpha.paths.annotations.write_text(content)
    for read in ("ls", "ls alpha", "show alpha"):
        printed = rlexp(tmp_path, *read.split())
        assert 0 == printed.code
        assert "annotations.json" in printed.out + printed.err
    for command in ("tag", "note"):
        printed = typed(tmp_path, command, "alpha", "x")
        assert (2, 1) == (printed.code, printed.err.count("\n"))
        assert "annotations.json" in printed.err
    assert content == alpha.paths.annotations.read_text()


def test_a_link_in_place_of_the_file_is_not_followed(alpha: Stored, tmp_path: Path) -> None:
    """A link in place of the file is neither read nor written through."""
    outside = tmp_path / "outside.json"
    outside.write_text("mine")
    alpha.paths.annotations.symlink_to(outside)
    assert 2 == typed(tmp_path, "tag", "alpha", "x").code
    assert "mine" == outside.read_text()


def test_tags_are_changed_while_the_experiment_runs(alpha: Stored, tmp_path: Path) -> None:
    """A command that drives the experiment does not keep others from tagging it."""
    with hold(alpha.paths.lock, "it", now=STARTED):
        give(tmp_path, "tag", "alpha", "paper")
    assert "paper" in give(tmp_path, "tag", "alpha")


def test_changes_at_once_all_count(alpha: Stored, tmp_path: Path) -> None:
    """Of several processes that add tags at the same time, no tag is lost."""
    workspace = study(tmp_path)
    threads = [
        threading.Thread(target=tag, args=("alpha", [f"tag{number}"], workspace))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"tag{n}" for n in range(8)} == set(tag("alpha", (), workspace).tags)


def test_a_removed_run_takes_its_tags_along(alpha: Stored, tmp_path: Path) -> None:
    """A run that is made again after its removal begins without tags and notes."""
    run = f"alpha/{alpha.run(0).folder.name}"
    give(tmp_path, "tag", run, "odd")
    give(tmp_path, "tag", "alpha", "paper")
    give(tmp_path, "rm", run, "--yes")
    alpha.complete(0, 100.0)
    assert () == tag(run, (), study(tmp_path)).tags
    assert ("paper",) == tag("alpha", (), study(tmp_path)).tags


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_line(alpha: Stored, tmp_path: Path) -> None:
    """Without the right to write, the command ends with one line."""
    alpha.paths.folder.chmod(0o500)
    try:
        printed = typed(tmp_path, "tag", "alpha", "x")
    finally:
        alpha.paths.folder.chmod(0o700)
    assert (2, 1) == (printed.code, printed.err.count("\n"))


def test_nothing_is_written_where_nothing_changes(alpha: Stored, tmp_path: Path) -> None:
    """A tag that is there already is no reason to write the file again."""
    give(tmp_path, "tag", "alpha", "paper")
    before = alpha.paths.annotations.stat().st_ino
    give(tmp_path, "tag", "alpha", "paper")
    assert before == alpha.paths.annotations.stat().st_ino


def test_the_functions_return_what_the_commands_show(alpha: Stored, tmp_path: Path) -> None:
    """The use cases return the tags and notes as values."""
    workspace = study(tmp_path)
    assert ("a",) == tag("alpha", ["a"], workspace).added
    result: Any = note("alpha", "text", workspace)
    assert (1, "text") == (result.added, result.notes[0].text)
