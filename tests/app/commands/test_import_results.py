"""`rlexp import`: whole or not at all, marked for ever, and a result like any other afterwards."""

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import command_line
import pytest
from command_line import give_json
from import_sources import RECORDED, write_evaluations, write_monitors
from quick_parts import quick_parts
from stored_runs import stored
from typer.testing import CliRunner

from rlexp.app.commands import import_results as import_command
from rlexp.app.importing import store
from rlexp.cli import app
from rlexp.errors import RlexpError
from rlexp.exchange.importers import settled as settled_runs
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

HEADER = "label,task,seed,step,return"
UNIT = ("--steps-unit", "environment")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The study's folder, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    return tmp_path


def give(*words: str, code: int = 0) -> str:
    """Give a command that ends with this code; what it prints."""
    return command_line.give(Path.cwd(), *words, code=code)


def refused(*words: str) -> str:
    """Give a command that is refused in one line; that line."""
    with pytest.raises(RlexpError) as error:
        give(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


def rows(label: str, task: str, seeds: Sequence[int], *, height: float = 0.0) -> list[str]:
    """Curves of a hundred steps, with two episodes at each of ten evaluations."""
    return [
        f"{label},{task},{seed},{10 * number},{height + number + episode + seed / 10}"
        for seed in seeds
        for number in range(1, 11)
        for episode in range(2)
    ]


def table(*lines: str, name: str = "scores.csv", header: str = HEADER) -> str:
    """Write a table; its name."""
    Path(name).write_text("\n".join((header, *lines, "")))
    return name


def two_labels() -> str:
    """Two labels on two tasks with known scores, five seeds each."""
    return table(
        *rows("ppo", "CartPole-v1", range(5), height=100),
        *rows("a2c", "CartPole-v1", range(5), height=50),
        *rows("ppo", "Acrobot-v1", range(5), height=-90),
        *rows("a2c", "Acrobot-v1", range(5), height=-200),
    )


def files() -> dict[str, bytes]:
    """Every file below `runs/` with its content."""
    return {str(p): p.read_bytes() for p in Path("runs").rglob("*") if p.is_file()}


def test_from_a_table_to_a_report() -> None:
    """Everything that looks at runs looks at imported ones, and says what they are."""
    told = give("import", "csv", two_labels(), "--experiment", "alpha", *UNIT)
    assert "imported 20 runs from csv into experiment alpha" in told
    following = told.strip().splitlines()[-1].partition(": ")[2]
    assert "rlexp report alpha" == following
    give(*shlex.split(following)[1:], "--format", "md,json", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "20 runs of 20 were imported from other tools (csv: evaluations)" in page
    assert "The score of an imported run was chosen at its import" in page
    assert "differ by construction" not in page
    assert "Imported runs" in page
    assert "rlexp import csv scores.csv --experiment alpha" in page
    assert "a2c is worse than ppo" in give("compare", "alpha")
    assert "20 of 20 attempts match the ledger" in give("verify")
    assert "by the spread of" in give("power", "alpha", "--difference", "5")
    listed = json.loads(give("ls", "alpha", "--json"))["rows"]
    assert {"completed"} == {row["state"] for row in listed}
    assert {0, 1, 2, 3, 4} == {row["seed"] for row in listed}


def test_training_is_said_to_be_training() -> None:
    """Returns of training are no evaluations: the import, `show` and the report say so."""
    path = table(*rows("ppo", "Toy-v0", [0, 1]))
    told = give("import", path, "--experiment", "alpha", "--returns", "training", *UNIT)
    assert "during which the policy changed" in told
    assert "2 runs imported from csv: training episodes" in give("show", "alpha")
    assert "imported from csv: training episodes" in give("show", "alpha/ppo-test-0")
    give("report", "alpha", "--format", "md", "-o", "out")
    assert "Returns of ppo are those of training" in Path("out/report.md").read_text()


def test_what_is_recorded() -> None:
    """Names and sums of the files, the original name, the unit, and the command."""
    path = table(*rows("ppo", "Toy-v0", [7]))
    frames = ("--steps-unit", "frames", "--frame-skip", "4")
    give("import", "csv", path, "--experiment", "alpha", *frames)
    plain = json.loads(give("show", "alpha/ppo-test-7", "--provenance", "--json"))["content"]
    imported = plain["imported"]
    assert [path] == [file["name"] for file in imported["files"]]
    assert ("ppo/Toy-v0/7", 7, "csv") == (imported["name"], imported["seed"], imported["kind"])
    assert {"unit": "frames", "per": 4, "environment_steps": 1} == imported["steps"]
    assert ["rlexp", "import", "csv", path] == plain["command"][:4]
    shown = json.loads(give("show", "alpha/ppo-test-7", "--json"))
    assert (25, 25) == (shown["step"], shown["steps"])


def test_the_same_again() -> None:
    """Importing what is there changes no byte, and says so."""
    path = two_labels()
    give("import", path, "--experiment", "alpha", *UNIT)
    before = files()
    told = give("import", path, "--experiment", "alpha", *UNIT)
    assert "nothing new: experiment alpha already holds these 20 runs" in told
    assert before == files()


def test_more_seeds_and_labels() -> None:
    """What is new is added, and what is there stays as it is."""
    first = table(*rows("ppo", "Toy-v0", [0, 1]))
    give("import", first, "--experiment", "alpha", *UNIT)
    before = files()
    more = table(*rows("ppo", "Toy-v0", [1, 2]), *rows("a2c", "Toy-v0", [9]), name="more.csv")
    told = give("import", more, "--experiment", "alpha", *UNIT)
    assert (
        "imported 2 runs from csv into experiment alpha; 1 further ones were imported before"
        in told
    )
    kept = [path for path in before if path.endswith(("spec.json", "events.jsonl"))]
    after = files()
    assert {path: before[path] for path in kept} == {path: after[path] for path in kept}
    summary = json.loads(give("show", "alpha", "--json"))["phases"][0]
    told_of = {(c["label"], c["planned"], c["n"]) for c in summary["cells"]}
    assert {("ppo", 3, 3), ("a2c", 1, 1)} == told_of
    assert "4 of 4 attempts match the ledger" in give("verify")


def test_other_content_is_refused() -> None:
    """A run that is there is neither overwritten nor doubled, and nothing else is imported."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    before = files()
    other = table(*rows("ppo", "Toy-v0", [1]), *rows("ppo", "Toy-v0", [0], height=9))
    told = refused("import", other, "--experiment", "alpha", *UNIT)
    assert "imported before with other content" in told
    assert before == files()
    again = shlex.split(told.partition("'rlexp ")[2].partition("'")[0])
    give(*again)
    give("import", other, "--experiment", "alpha", *UNIT)
    assert "alpha: 2 of 2 attempts match the ledger" in give("verify")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--experiment", "../alpha"), "cannot be a folder name"),
        (("--experiment", "alpha", "--score", "best"), "--score 'best' is unknown"),
        (("--experiment", "alpha", "--returns", "trainin"), "did you mean 'training'"),
        (("--experiment", "alpha", "--steps-unit", "frame"), "did you mean 'frames'"),
        (("--experiment", "alpha", "--steps-unit", "frames"), "needs --frame-skip N"),
        (("--experiment", "alpha", *UNIT, "--frame-skip", "4"), "needs --steps-unit frames"),
        (("--experiment", "alpha"), "csv does not say what a step is"),
        (("--experiment", "alpha", *UNIT, "--label", " "), "--label ' ' is not allowed"),
        (("--experiment", "alpha", *UNIT, "--metric", "x"), "--metric is for tensorboard, mlflow"),
        (("--experiment", "alpha", *UNIT, "--mlflow-experiment", "x"), "and the source is csv"),
    ],
)
def test_odd_options(words: Sequence[str], what: str) -> None:
    """What makes no sense is refused in a line that says what does."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    assert what in refused("import", "csv", path, *words)
    assert {} == files()


def our_runs(folder: Path) -> None:
    """An experiment of rlexp's own."""
    made = stored(Layout(folder / "runs"))
    for seed in range(3):
        made.complete(seed, 1.0)


def test_names_that_are_taken(folder: Path) -> None:
    """Nothing is put among runs of ours, nor into a folder that is something else."""
    our_runs(folder)
    path = table(*rows("ppo", "Toy-v0", [0]))
    before = files()
    assert "holds runs of rlexp" in refused("import", path, "--experiment", "alpha", *UNIT)
    (folder / "runs" / "other").mkdir()
    assert "holds no experiment" in refused("import", path, "--experiment", "other", *UNIT)
    assert before == files()


def test_a_rehearsal_writes_nothing() -> None:
    """With --dry-run everything is read and said, and nothing is there afterwards."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    told = give("import", path, "--experiment", "alpha", "--dry-run", *UNIT)
    assert "would import 1 run from csv into experiment alpha" in told
    assert not Path("runs").exists()


def test_json_says_everything() -> None:
    """One document has every run with its state, what was left out, and the next command."""
    lines = [f"{row},1" for row in rows("ppo", "Toy-v0", [0])]
    path = table(*lines, "ppo,Toy-v0,1,10,1.0,1", header=f"{HEADER},color")
    words = ("import", path, "--experiment", "alpha", *UNIT)
    value = give_json(Path.cwd(), "import-outcome", *words)
    assert ["completed", "interrupted"] == [run["state"] for run in value["runs"]]
    assert ["scores.csv, column 'color'"] == value["left_out"]
    assert ["rlexp report alpha"] == [step["command"] for step in value["next"]]
    assert [2] == [group["runs"] for group in value["groups"]]


def test_a_rehearsal_leads_to_no_report() -> None:
    """With --dry-run no next command is given, as there is no experiment to report on."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    words = ("import", path, "--experiment", "alpha", "--dry-run", *UNIT)
    value = give_json(Path.cwd(), "import-outcome", *words)
    assert (True, []) == (value["dry_run"], value["next"])


def test_runs_without_a_score() -> None:
    """What diverged, and what ended early, are missing everywhere, with the reason."""
    path = table(
        *rows("ppo", "Toy-v0", [0]),
        *rows("ppo", "Toy-v0", [1])[:6],
        *rows("ppo", "Toy-v0", [2])[:6],
        "ppo,Toy-v0,2,40,nan",
        "ppo,Toy-v0,2,50,1e6",
    )
    told = give("import", path, "--experiment", "alpha", *UNIT)
    assert "interrupted, its records end at step 30 of 100" in told
    assert "failed, its return at step 40 is nan, which is no number" in told
    assert "--steps 30 under a name of its own" in told
    found = {r["seed"]: r for r in json.loads(give("ls", "alpha", "--json"))["rows"]}
    assert ["completed", "interrupted", "failed"] == [found[seed]["state"] for seed in range(3)]
    assert [None, None] == [found[seed]["score"] for seed in (1, 2)]
    give("report", "alpha", "--format", "md", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "Runs without a score: 2 of 3" in page
    assert "--retry" not in page


@pytest.mark.parametrize(
    "words",
    [
        ("run", "experiment=alpha", "algorithm=ppo", "environment=cartpole"),
        ("resume", "alpha"),
        ("resume", "alpha/a2c-test-1"),
        ("evaluate", "alpha/ppo-test-0"),
        ("reproduce", "alpha"),
        ("compare", "alpha", "--adaptive"),
    ],
)
def test_nothing_is_executed(words: Sequence[str]) -> None:
    """What would run something refuses in a line, even where a run is not complete."""
    lines = rows("ppo", "CartPole-v1", [0]) + rows("a2c", "CartPole-v1", [1])[:6]
    give("import", table(*lines), "--experiment", "alpha", *UNIT)
    before = files()
    assert "imported: another tool made it" in refused(*words)
    give("resume")
    assert before == {k: v for k, v in files().items() if not k.endswith(".lock")}


def test_our_runs_beside_theirs(folder: Path) -> None:
    """Together in one report, what is not known of the imported ones is said, and not guessed."""
    our_runs(folder)
    path = table(*rows("a2c", "CartPole-v1", range(3)))
    give("import", path, "--experiment", "theirs", *UNIT)
    give("report", "alpha", "theirs", "--format", "md", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "Of imported runs that is not known" in page
    assert "not the same task" not in page
    assert "actions in evaluations: ppo true; a2c not known" in page


def test_labels_of_every_kind() -> None:
    """Names that mean something to a page, a sheet, a shell or a file system are only names."""
    hostile = ["</script><b>x", "=cmd|' /C calc'!A0", "[link=file:///x]", "../../x", "ü ß 漢"]
    lines = [row for label in hostile for row in rows(label, "Toy-v0", range(2))]
    give("import", table(*lines), "--experiment", "alpha", *UNIT)
    give("report", "alpha", "--format", "html,csv,md", "-o", "out")
    assert "</script><b>" not in Path("out/report.html").read_text()
    assert "10 of 10 attempts" in give("verify")
    assert {Path("runs")} == {
        run.folder.parent.parent for run in layout().experiment("alpha").runs()
    }


def layout() -> Layout:
    """Where runs are."""
    return Layout(Path("runs"))


def test_what_is_edited_is_found() -> None:
    """The ledger holds imported records to what they were."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    [journal] = Path("runs").rglob("events.jsonl")
    journal.write_text(journal.read_text().replace("10.0", "99.0"))
    told = give("verify", code=1)
    assert "edited" in told


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    """It is said before anything is read."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    (folder / "runs").write_text("no folder")
    assert "cannot write to" in refused("import", path, "--experiment", "alpha", *UNIT)


def by_evaluations() -> list[str]:
    """What the library's own callback would write, of three seeds."""
    for seed in range(3):
        returns = [[10.0 * n + seed, 11.0 * n] for n in range(1, 11)]
        write_evaluations(Path(f"logs/seed_{seed}"), range(10, 101, 10), returns)
    return ["sb3-evaluations", "logs", "--label", "ppo", "--task", "CartPole-v1"]


def by_monitors() -> list[str]:
    """What the library's Monitor writes, of two environments in each of two runs."""
    for seed in range(2):
        write_monitors(Path(f"logs/seed_{seed}"), [20, 30, 50], [40, 60])
    return ["logs", "--label", "ppo", "--task", "Toy-v0"]


def by_event_files() -> list[str]:
    """A run of CleanRL."""
    return ["tensorboard", str(RECORDED / "cleanrl"), *UNIT]


def by_store() -> list[str]:
    """A store of MLflow."""
    with closing(sqlite3.connect("mlflow.db")) as connection:
        connection.executescript((RECORDED / "mlflow.sql").read_text())
    return ["mlflow", "sqlite:///mlflow.db", *UNIT]


def by_archive() -> list[str]:
    """Folders in an archive."""
    by_evaluations()
    shutil.make_archive("packed", "gztar", ".", "logs")
    return ["packed.tar.gz", "--label", "ppo", "--task", "CartPole-v1"]


@pytest.mark.parametrize(
    ("make", "runs", "scores"),
    [
        (by_evaluations, 3, 3),
        (by_monitors, 2, 2),
        (by_event_files, 1, 1),
        (by_store, 6, 4),
        (by_archive, 3, 3),
    ],
)
def test_every_kind(make: Callable[[], list[str]], runs: int, scores: int) -> None:
    """From each kind of source to a report, a comparison and a ledger that agrees."""
    words = ("import", *make(), "--experiment", "alpha")
    give(*words)
    found = json.loads(give("ls", "alpha", "--json"))["rows"]
    assert (runs, scores) == (len(found), sum(row["score"] is not None for row in found))
    give("report", "alpha", "--format", "md", "-o", "out")
    assert "imported from other tools" in Path("out/report.md").read_text()
    if len({row["label"] for row in found}) > 1:
        assert "imported from other tools" in give("compare", "alpha")
    assert "Not what was written" not in Path("out/report.md").read_text()
    give("verify")
    assert "nothing new" in give(*words)


def test_two_that_add_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes late is refused, and loses none of the other's runs."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    first = table(*rows("a2c", "Toy-v0", [0]), name="first.csv")
    late = table(*rows("sac", "Toy-v0", [0]), name="late.csv")
    settle, others = settled_runs.settle, ["once"]

    def settle_slowly(*words: Any) -> Any:
        settled = settle(*words)
        if others and others.pop():
            give("import", first, "--experiment", "alpha", *UNIT)
        return settled

    monkeypatch.setattr(import_command, "settle", settle_slowly)
    words = ("import", late, "--experiment", "alpha", *UNIT)
    assert "added to by another command meanwhile: repeat this one" in refused(*words)
    assert "alpha: 2 of 2 attempts match the ledger" in give("verify")
    give(*words)
    told = give("verify")
    assert "alpha: 3 of 3 attempts match the ledger" in told
    assert "foreign" not in told


@pytest.mark.parametrize("address", ["postgresql://me:secret@127.0.0.1:1/x", "file:///x", "://"])
def test_addresses_of_no_server(address: str) -> None:
    """MLflow is not asked to open what it may write to, or try for minutes to reach."""
    told = refused("import", "mlflow", address, "--experiment", "alpha", *UNIT)
    assert "is not the address of an MLflow server, which begins with http:// or https://" in told
    assert {} == files()


def test_the_log_of_an_imported_run() -> None:
    """There is none, and that is not for the run's silence."""
    give("import", two_labels(), "--experiment", "alpha", *UNIT)
    run = json.loads(give("ls", "alpha", "--json"))["rows"][0]["run"]
    told = CliRunner().invoke(app, ["logs", f"alpha/{run}"])
    assert ("", 0) == (told.stdout, told.exit_code)
    assert "was imported from csv and has no log" in told.stderr
    give(*shlex.split(re.findall(r"'rlexp (.*?)'", told.stderr)[0]))


def test_tables_of_our_own_come_back() -> None:
    """What was exported is imported with the same scores, run by run."""
    give("import", two_labels(), "--experiment", "alpha", *UNIT)
    give("export", "csv", "alpha", "--output", "own", "--level", "episodes")
    told = give("import", "own/episodes.csv", "--experiment", "beta", *UNIT)
    assert "did you mean" not in told
    first, second = (json.loads(give("ls", name, "--json"))["rows"] for name in ("alpha", "beta"))
    keys = ("label", "task", "seed", "state", "score")
    assert [[r[k] for k in keys] for r in first] == [[r[k] for k in keys] for r in second]


def test_known_scores_are_looked_up_once_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in many files, and hundreds of runs must not take minutes."""
    asked: list[str] = []

    def look(task: str, folder: Path) -> dict[str, Any]:
        asked.append(task)
        return {}

    monkeypatch.setattr(import_command, "known_reference", look)
    give("import", two_labels(), "--experiment", "alpha", *UNIT, "--dry-run")
    assert ["Acrobot-v1", "CartPole-v1"] == sorted(asked)


def test_secrets_are_masked() -> None:
    """What a parameter's name says is secret stands in no file."""
    words = by_store()
    with closing(sqlite3.connect("mlflow.db")) as connection, connection:
        query = "INSERT INTO params SELECT 'api_key', 'hunter2hunter2', run_uuid FROM runs"
        connection.execute(query)
    give("import", *words, "--experiment", "alpha")
    assert not any(b"hunter2" in content for content in files().values())


def test_a_name_that_is_given_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two imports at once under one name, one is refused, and the other is whole."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    words = ("import", path, "--experiment", "alpha", *UNIT)
    give(*words)
    before = files()
    monkeypatch.setattr("rlexp.app.commands.import_results.found_before", lambda _: None)
    assert "made by another command meanwhile" in refused(*words)
    assert before == files()


CALLS = ("write_run", "write_journal", "write_experiment", "_name", "sync")
"""What an import is made of; before and after each of these it is killed."""


def killed(words: Sequence[str], number: int) -> bool:
    """Give a command in a process that is killed at a certain call; whether it was."""
    child = os.fork()
    if child == 0:
        _kill_at(number)
        try:
            give(*words)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _kill_at(number: int) -> None:
    left = [number]

    def deadly(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for own in CALLS:
        setattr(store, own, deadly(getattr(store, own)))


def test_killed_at_any_moment() -> None:
    """What was killed is no experiment, and the same command again does everything."""
    words = ("import", table(*rows("ppo", "Toy-v0", range(2))), "--experiment", "alpha", *UNIT)
    number = 0
    while killed(words, number := number + 1):
        if "alpha" in (there := [e.name for e in layout().experiments()]):
            # It was all there, and only its name was not yet made durable.
            assert "2 of 2 attempts match" in give("verify")
        assert set(there) <= {"alpha"}
        give(*words)
        assert "2 of 2 attempts match" in give("verify")
        assert [] == list(Path("runs").glob(".import-*"))
        give("rm", "alpha", "--yes")
    assert number > len(CALLS)


def test_killed_while_adding() -> None:
    """No number of what was there changes, until everything that is new is there."""
    first = ("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    more = table(*rows("ppo", "Toy-v0", [1, 2]), name="more.csv")
    words = ("import", more, "--experiment", "alpha", *UNIT)
    number, seen = 0, set[int]()
    give(*first)
    while killed(words, number := number + 1):
        [row] = json.loads(give("ls", "--group", "--json"))["rows"]
        seen.add(row["n"])
        give("verify")
        give(*words)
        [row] = json.loads(give("ls", "--group", "--json"))["rows"]
        assert (3, 3) == (row["planned"], row["n"])
        assert "3 of 3 attempts match" in give("verify")
        assert [] == list(Path("runs/alpha").glob(".import-*"))
        give("rm", "alpha", "--yes")
        give(*first)
    assert {1} == seen
    assert number > len(CALLS)
