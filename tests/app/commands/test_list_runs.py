"""`rlexp ls` lists every experiment and every run, in any state of its folder."""

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import (
    STARTED,
    Stored,
    configuration,
    failed,
    stored,
    study,
)

from rlexp.app.commands.look.list_runs import ListRequest, list_runs
from rlexp.cli.look.list_runs import show_listing
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

Rows = list[dict[str, Any]]


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Three test seeds: one completed, one failed, one never started."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.complete(0, 100.0)
    alpha.attempt(1, failed())
    return alpha


def rows(folder: Path, *words: str) -> Rows:
    """The rows of the JSON document."""
    listed: Rows = rlexp(folder, "ls", *words, "--json").document("listing")["rows"]
    return listed


def text_output(folder: Path, *words: str) -> str:
    """The text output of `rlexp ls`."""
    return rlexp(folder, "ls", *words).out


def test_an_experiment_is_one_row(alpha: Stored, tmp_path: Path) -> None:
    """The row of an experiment has its counts of runs and the IQM of the scores."""
    (row,) = rows(tmp_path)
    expected = {
        "experiment": "alpha",
        "task": "CartPole-v1",
        "label": "ppo",
        "phase": "test",
        "planned": 3,
        "done": 1,
        "running": 0,
        "failed": 1,
        "missing": 1,
        "continued": 0,
        "restarted": 0,
        "damaged": 0,
        "metric": "iqm",
        "estimate": 100.0,
        "last": STARTED + 200.0,
        "problem": None,
        "tags": [],
        "note": None,
        "columns": {},
    }
    interval = row.pop("interval")
    assert (100.0, None) == (interval["estimate"], interval["low"])
    assert expected == row


def test_a_failure_counts_as_the_declared_worst_score(tmp_path: Path) -> None:
    """With failures as worst scores, the IQM includes the declared minimum of a failed run."""
    beta = stored(Layout(tmp_path / "runs"), "beta", failures="worst")
    beta.complete(0, 100.0)
    beta.attempt(1, failed())
    (row,) = rows(tmp_path)
    assert row["estimate"] == 45.0


def test_test_scores_are_never_mixed_with_tuning_scores(alpha: Stored, tmp_path: Path) -> None:
    """An experiment with runs of two phases shows the IQM of the test phase."""
    alpha.complete(0, 1000.0, phase=Phase.TUNING)
    (row,) = rows(tmp_path)
    assert ("tuning, test", 5, 100.0) == (row["phase"], row["planned"], row["estimate"])


def test_a_run_is_one_row(alpha: Stored, tmp_path: Path) -> None:
    """Runs are listed in order of their seeds, including runs that never started."""
    listed = rows(tmp_path, "alpha")
    assert [(0, "completed", 100.0), (1, "failed", None), (2, "planned", None)] == [
        (r["seed"], r["state"], r["score"]) for r in listed
    ]
    assert ("nan", "a loss is NaN") == (listed[1]["failure"], listed[1]["reason"])


def test_shared_values_are_printed_above_the_table(alpha: Stored, tmp_path: Path) -> None:
    """Label, task and phase are printed once if all runs share them."""
    lines = text_output(tmp_path, "alpha").splitlines()
    assert lines[0] == "ppo · CartPole-v1 · test"
    assert lines[1].split() == ["run", "seed", "state", "failure", "score", "step", "last"]
    assert lines[2].split()[:5] == [alpha.run(0).folder.name, "0", "completed", "—", "100.00"]


@pytest.mark.parametrize(
    ("conditions", "seeds"),
    [
        (("state=failed",), [1]),
        (("state!=failed",), [0, 2]),
        (("task~CARTPOLE",), [0, 1, 2]),
        (("score>99",), [0]),
        (("score>=100", "score<=100"), [0]),
        (("score<100",), []),
        (("score=100",), [0]),
        (("score=none",), [1, 2]),
        (("seed>=1", "state=planned"), [2]),
        (("step < 60",), [2]),
    ],
)
def test_conditions_select_rows(
    alpha: Stored,
    tmp_path: Path,
    conditions: tuple[str, ...],
    seeds: list[int],
) -> None:
    """A row is listed if it fulfils all conditions; a missing number fulfils neither < nor >."""
    result = rows(
        tmp_path, "alpha", *(word for condition in conditions for word in ("--where", condition))
    )
    assert seeds == [row["seed"] for row in result]


@pytest.mark.parametrize(
    ("sort", "seeds"),
    [("score", [2, 0, 1]), ("-score", [0, 2, 1]), ("-seed", [2, 1, 0]), ("failure", [1, 0, 2])],
)
def test_missing_values_are_sorted_last(
    alpha: Stored,
    tmp_path: Path,
    sort: str,
    seeds: list[int],
) -> None:
    """Rows without a value come last in both sort directions."""
    alpha.complete(2, 50.0)
    assert seeds == [r["seed"] for r in rows(tmp_path, "alpha", "--sort", sort)]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (ListRequest("alpha", where=("scor>1",)), "no column 'scor'; did you mean 'score'"),
        (ListRequest("alpha", sort="-scor"), "no column 'scor'; did you mean 'score'"),
        (ListRequest("alpha", where=("score",)), "'score' is not a condition; write NAME=VALUE"),
        (ListRequest("alpha", where=("score>much",)), "'much' is not a number"),
        (ListRequest("alpha", where=("state>1",)), "state holds text"),
        (ListRequest(where=("sed=1",)), "did you mean 'seed'.*rlexp ls --list-columns"),
    ],
)
def test_a_wrong_condition_is_refused(
    alpha: Stored, tmp_path: Path, selection: ListRequest, message: str
) -> None:
    """The error about a wrong condition names the mistake or the allowed form."""
    with pytest.raises(ConfigError, match=message):
        list_runs(selection, study(tmp_path))


def test_an_unknown_experiment_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """The error about an unknown experiment suggests the most similar name."""
    with pytest.raises(RecordError, match=r"no experiment 'alpa'.*did you mean 'alpha'"):
        list_runs(ListRequest("alpa"), study(tmp_path))


def test_groups_are_configurations_with_intervals(tmp_path: Path) -> None:
    """Each configuration is one row with n, the IQM, its interval, and failed and missing runs."""
    grid = stored(Layout(tmp_path / "runs"), "grid", configuration(), configuration("a2c"))
    for seed, score in enumerate((10.0, 20.0, 30.0)):
        grid.complete(seed, score)
    grid.complete(0, 5.0, label="a2c")
    grid.attempt(1, failed(), label="a2c")
    ppo, a2c = rows(tmp_path, "grid", "--group")
    assert ("ppo", 3, 20.0) == tuple(ppo[k] for k in ("label", "n", "estimate"))
    # The IQM of three is (lowest + 4 · middle + highest) / 6. Over all 27 resamples its standard
    # deviation is √(900/27), and t with two degrees of freedom gives 20 ± 4.303 · √(900/27 · 3/2).
    # The task's lowest return is −10.
    assert (ppo["low"], ppo["high"]) == pytest.approx((-10.0, 50.42), abs=0.5)
    assert ("a2c", 1, 5.0, None, 1, 1) == tuple(
        a2c[k] for k in ("label", "n", "estimate", "low", "failed", "missing")
    )
    output = text_output(tmp_path, "--group")
    method = "95 % interval, method t with bootstrap standard error, 50,000 repetitions, seed 0"
    assert f"low and high: {method}, of the IQM" in output
    assert "20 (n = 3: 10, 20, 30)" in output
    assert "too few runs for an interval (n = 1)" in output


@pytest.mark.parametrize("exists", [False, True])
def test_an_empty_runs_folder_is_no_error(tmp_path: Path, exists: bool) -> None:
    """Without runs, the output is one line with the command that starts some."""
    if exists:
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "README.md").touch()
    output = text_output(tmp_path)
    assert f"{tmp_path / 'runs'} holds no runs yet; to start some, use 'rlexp run'\n" == output
    assert rows(tmp_path) == []


def test_no_matching_row_differs_from_no_runs(alpha: Stored, tmp_path: Path) -> None:
    """If no row matches, the output names the conditions and the number of rows."""
    output = text_output(tmp_path, "alpha", "--where", "seed>7", "--where", "state=failed")
    assert output == "no row of 3 matches seed>7 and state=failed\n"


def damage_spec(alpha: Stored) -> str:
    """Truncate the specification."""
    alpha.run(0).spec.write_text('{"schema": 1')
    return "spec.json cannot be read"


def lose_spec(alpha: Stored) -> str:
    """Delete the specification."""
    alpha.run(0).spec.unlink()
    return "spec.json is missing"


def change_spec(alpha: Stored) -> str:
    """Edit the specification."""
    path = alpha.run(0).spec
    path.write_text(path.read_text().replace("CartPole", "CartPull"))
    return "its content no longer has its id"


def fill_journal_with_a_folder(alpha: Stored) -> str:
    """Put a folder in place of the journal."""
    journal = alpha.run(0).attempt(1).journal
    journal.unlink()
    journal.mkdir()
    return "events.jsonl cannot be read"


def make_spec_a_pipe(alpha: Stored) -> str:
    """Put a pipe without a writer in place of the specification."""
    alpha.run(0).spec.unlink()
    os.mkfifo(alpha.run(0).spec)
    return "it is not a regular file"


def replace_attempts_by_a_file(alpha: Stored) -> str:
    """Put a file in place of the folder of attempts."""
    folder = alpha.run(0).folder / "attempts"
    folder.rename(alpha.run(0).folder / "elsewhere")
    folder.touch()
    return "attempts cannot be read"


def exchange_runs(alpha: Stored) -> str:
    """Replace the folder of the run by that of another run."""
    first, second = alpha.run(0).folder, alpha.run(1).folder
    first.rename(first.with_name("old"))
    second.rename(first)
    return "it was copied or renamed"


@pytest.mark.parametrize(
    "damage",
    [
        damage_spec,
        lose_spec,
        change_spec,
        fill_journal_with_a_folder,
        make_spec_a_pipe,
        replace_attempts_by_a_file,
        exchange_runs,
    ],
)
def test_a_damaged_run_is_listed_with_its_problem(
    alpha: Stored, tmp_path: Path, damage: Any
) -> None:
    """A damaged run stays in the listing and has no score."""
    problem = damage(alpha)
    name = alpha.run(0).folder.name
    (row,) = [r for r in rows(tmp_path, "alpha") if r["run"] == name]
    assert ("damaged", None) == (row["state"], row["score"])
    assert problem in row["problem"]
    (experiment,) = rows(tmp_path)
    assert experiment["damaged"] >= 1
    assert experiment["planned"] == 3
    assert problem in text_output(tmp_path, "alpha")


def test_unreadable_journal_lines_are_counted(alpha: Stored, tmp_path: Path) -> None:
    """A journal with an unreadable line still has its score, and the line is counted."""
    journal = alpha.run(0).attempt(1).journal
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    row = rows(tmp_path, "alpha")[0]
    assert ("completed", 100.0) == (row["state"], row["score"])
    assert row["problem"] == "1 line of its journal cannot be read"


@pytest.mark.parametrize("content", [None, "{", '{"schema": 9}', '{"schema": 1, "name": 3}'])
def test_an_experiment_without_its_definition_is_listed(
    alpha: Stored, tmp_path: Path, content: str | None
) -> None:
    """An experiment without a readable definition is listed by the specifications of its runs."""
    if content is None:
        alpha.paths.definition.unlink()
    else:
        alpha.paths.definition.write_text(content)
    (row,) = rows(tmp_path)
    assert ("alpha", "ppo", 0) == (row["experiment"], row["label"], row["planned"])
    assert "experiment.json" in row["problem"]
    result = rows(tmp_path, "alpha")
    assert {(0, "completed"), (1, "failed")} == {(r["seed"], r["state"]) for r in result}


def test_hostile_entries_do_no_harm(alpha: Stored, tmp_path: Path) -> None:
    """Links, pipes and names with escape codes are listed without harm."""
    root = tmp_path / "runs"
    (root / "nowhere").symlink_to("gone")
    (root / "circle").symlink_to("circle")
    (root / "linked").symlink_to(root / "alpha")
    os.mkfifo(root / "pipe")
    (root / ".hidden").mkdir()
    (root / "notes").mkdir()
    for name in ("[link=file:___etc_passwd]x", os.fsdecode(b"\x1b[31mred\n\xff")):
        (root / name / "run" / "attempts").mkdir(parents=True)
    output = text_output(tmp_path)
    names = [line.split()[0] for line in output.splitlines()[1:]]
    red = "\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    expected = {"alpha", "circle", "linked", "nowhere", red, "[link=file:___etc_passwd]x"}
    assert expected == set(names)
    assert "\x1b" not in output
    assert len(rows(tmp_path)) == 6


def test_a_nan_score_is_shown_as_nan(alpha: Stored, tmp_path: Path) -> None:
    """A NaN score is null in JSON, nan in text, and sorted last."""
    alpha.complete(2, float("nan"))
    result = rows(tmp_path, "alpha", "--sort", "-score")
    assert [100.0, None, None] == [r["score"] for r in result]
    assert "nan" in text_output(tmp_path, "alpha")


def test_an_unplanned_run_is_listed(alpha: Stored, tmp_path: Path) -> None:
    """A run outside the definition is listed but not counted."""
    other = stored(Layout(tmp_path / "runs"), "other", configuration(steps=200))
    run = other.complete(0, 7.0)
    run.folder.rename(alpha.paths.folder / run.folder.name)
    last = rows(tmp_path, "alpha")[-1]
    assert (7.0, "the experiment's definition does not include it") == (
        last["score"],
        last["problem"],
    )
    row = rows(tmp_path, "--where", "experiment=alpha")[0]
    assert (3, 1, 100.0) == (row["planned"], row["done"], row["estimate"])


def test_a_file_in_place_of_runs_is_a_one_line_error(tmp_path: Path) -> None:
    """A file in place of the folder `runs/` gives a one-line error."""
    (tmp_path / "runs").touch()
    with pytest.raises(RecordError, match="runs cannot be read: Not a directory"):
        list_runs(ListRequest(), study(tmp_path))


def test_long_labels_and_many_columns_fit_eighty_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Experiments have one line each, names are whole, and a command shows what is cut."""
    labels = [f"ppo learning_rate=0.000{number}" for number in range(8)]
    stored(Layout(tmp_path / "runs"), "many_labels", *map(configuration, labels))
    stored(Layout(tmp_path / "runs"), "one_label").complete(0, 100.0)
    listing = list_runs(ListRequest(), study(tmp_path))
    console = Console()
    console.out.width = 80
    show_listing(listing, console)
    *lines, last = capsys.readouterr().out.splitlines()
    assert ["experiment", "many_labels", "one_label"] == [line.split()[0] for line in lines]
    assert max(map(len, lines)) <= 80
    command = last.partition("Left out or cut at this width: ")[2].partition("; to see them: ")[2]
    shown = rlexp(tmp_path, *shlex.split(command)[1:]).out
    assert labels[0] in shown
    console.out.width = 300
    show_listing(listing, console)
    assert "at this width" not in capsys.readouterr().out


def test_labels_that_would_look_the_same_are_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long labels of runs are cut where they stay different, and whole where they would not."""
    ends, middles = (
        [f"{'x' * 60}{end}" for end in "ab"],
        [f"{'x' * 40}{end}{'y' * 40}" for end in "ab"],
    )
    for name, labels in (("ends", ends), ("middles", middles)):
        stored(Layout(tmp_path / "runs"), name, *map(configuration, labels))
    console = Console()
    console.out.width = 80
    show_listing(list_runs(ListRequest("ends"), study(tmp_path)), console)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert all(any(f"…{'x' * 4}" in line and f"x{end} " in line for line in lines) for end in "ab")
    assert "--columns run,last,label" in lines[-1]
    show_listing(list_runs(ListRequest("middles"), study(tmp_path)), console)
    assert "…" not in capsys.readouterr().out
