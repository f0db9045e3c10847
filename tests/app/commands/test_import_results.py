"""`rlexp import` imports all results or none, and marks them as imported."""

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
from statistics import mean
from typing import Any

import command_line
import pytest
from command_line import give_json
from import_sources import RECORDED, write_evaluations, write_monitors
from quick_parts import quick_parts
from stored_runs import stored
from typer.testing import CliRunner

import rlexp
from rlexp.app.commands.exchange import import_results as import_command
from rlexp.app.importing import store
from rlexp.cli.every_command import app
from rlexp.config.config_files import packaged_root
from rlexp.errors import RlexpError
from rlexp.exchange.importers import plan as settled_runs
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

HEADER = "label,task,seed,step,return"
UNIT = ("--steps-unit", "environment")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the workspace, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    return tmp_path


def give(*words: str, code: int = 0) -> str:
    """Run a command that must end with this code; returns its output."""
    return command_line.give(Path.cwd(), *words, code=code)


def refusal_of(*words: str) -> str:
    """The one-line error of a command that must be refused."""
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
    """Write a table; returns its name."""
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
    """Commands that read runs show imported runs, and the report marks them as imported."""
    output = give("import", "csv", two_labels(), "--experiment", "alpha", *UNIT)
    assert "imported 20 runs from csv into experiment alpha" in output
    next_command = output.strip().splitlines()[-1].partition(": ")[2]
    assert "rlexp report alpha" == next_command
    give(*shlex.split(next_command)[1:], "--format", "md,json", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "20 runs of 20 were imported from other tools (csv: evaluations)" in page
    assert "The score of an imported run was chosen at its import" in page
    assert "differ by construction" not in page
    assert "Imported runs" in page
    assert "rlexp import csv scores.csv --experiment alpha" in page
    assert "ppo is better than a2c by " in give("compare", "alpha")
    assert "20 of 20 attempts match the ledger" in give("verify")
    assert "by the spread of" in give("power", "alpha", "--difference", "5")
    runs = json.loads(give("ls", "alpha", "--json"))["rows"]
    assert {"completed"} == {row["state"] for row in runs}
    assert {0, 1, 2, 3, 4} == {row["seed"] for row in runs}


def test_a_score_that_is_not_a_number_costs_one_run() -> None:
    """A NaN among final scores fails its run; the import names it, and others keep their scores."""
    scores = {seed: "nan" if seed == 1 else f"{100 + seed}" for seed in range(5)}
    path = table(
        *(f"ppo,Toy-v0,{seed},100,{score},1" for seed, score in scores.items()),
        header=f"{HEADER},final",
    )
    output = give("import", path, "--experiment", "alpha", *UNIT)
    assert "No score: 1 of 5 runs." in output
    assert "ppo/Toy-v0/1: failed, its return at step 100 is nan" in output
    runs = json.loads(give("ls", "alpha", "--json"))["rows"]
    expected = {0: 100.0, 1: None, 2: 102.0, 3: 103.0, 4: 104.0}
    assert expected == {row["seed"]: row["score"] for row in runs}
    assert ["failed"] == [row["state"] for row in runs if row["seed"] == 1]


def test_many_runs_without_a_score_are_named() -> None:
    """The import counts the runs without a score, and names those whose reason is not shown."""
    path = table(
        *(f"ppo,Toy-v0,{seed},100,{'nan' if seed else 1},1" for seed in range(9)),
        header=f"{HEADER},final",
    )
    output = give("import", path, "--experiment", "alpha", *UNIT)
    assert "No score: 8 of 9 runs." in output
    assert "also ppo/Toy-v0/6, ppo/Toy-v0/7, ppo/Toy-v0/8; 'rlexp ls' lists them." in output


def published(label: str, height: float) -> list[str]:
    """Normalised final scores of four seeds on 26 tasks, which differ by task and seed."""
    return [
        f"{label},game-{task},{seed},100,{height + task / 10 + (seed * 7 + task) % 4 / 20},1"
        for task in range(26)
        for seed in range(4)
    ]


def test_published_scores_that_are_normalised_already() -> None:
    """A table of normalised scores on 26 tasks has its aggregates with `normalisation=none`."""
    path = table(*published("a", 0.1), *published("b", 0.6), header=f"{HEADER},final")
    give("import", path, "--experiment", "alpha", *UNIT)
    comparison = ("compare", "alpha", "--set", "normalisation=none", "--json")
    document = json.loads(give(*comparison, "--set", "repetitions=100"))
    blocks = {b.get("name"): b for part in document["parts"] for b in part["blocks"]}
    rows = {row[0]: row[2:] for row in blocks["aggregates"]["rows"]}
    for label in ("a", "b"):
        scores = [
            float(row.split(",")[4]) for row in published(label, 0.1 if label == "a" else 0.6)
        ]
        # 104 scores are a multiple of four, so each end loses 26 whole scores.
        expected = [mean(sorted(scores)[26:78]), mean(scores), 1 - mean(min(s, 1) for s in scores)]
        iqm, _, average, gap = (value["estimate"] for value in rows[label])
        assert expected == pytest.approx([iqm, average, gap], rel=1e-12)
    assert "anchors" not in blocks
    output = give("compare", "alpha", "--set", "repetitions=100")
    assert "normalised already as they are with --set normalisation=none" in output


def test_a_workspace_takes_scores_as_normalised() -> None:
    """With `normalisation: none` in conf/report.yaml, every command takes scores as they are."""
    rows_of_tasks = [
        f"a,{task},{seed},100,{(seed - 2) / 10},1"
        for task in ("CartPole-v1", "MountainCar-v0")
        for seed in range(1, 6)
    ]
    path = table(*rows_of_tasks, header=f"{HEADER},final")
    give("import", path, "--experiment", "alpha", *UNIT)
    assert "reached the task's threshold of -110" in give("show", "alpha", "--full")
    settings = (packaged_root() / "conf" / "report.yaml").read_text()
    Path("conf").mkdir()
    as_recorded = settings.replace("normalisation: anchors", "normalisation: none")
    Path("conf/report.yaml").write_text(as_recorded.replace("50_000", "100"))
    assert "reached the task's threshold" not in give("show", "alpha", "--full")
    give("export", "rliable", "alpha", "--normalised", "-o", "scores.json")
    assert "taken as normalised already" in Path("scores.json.md").read_text()
    exported = json.loads(Path("scores.json").read_text())
    assert [[(seed - 2) / 10] * 2 for seed in range(1, 6)] == exported["a"]
    # Returns of CartPole are at least 0, but a normalised score may lie below a random policy's.
    estimate = rlexp.load("runs/alpha").estimate(task="CartPole-v1")
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.low < 0
    shown = json.loads(give("show", "alpha", "--json"))["phases"][0]["cells"][0]
    assert estimate.low == shown["estimate"]["low"]


def test_returns_of_training_are_marked() -> None:
    """The import, `show` and the report say that the returns were recorded during training."""
    path = table(*rows("ppo", "Toy-v0", [0, 1]))
    output = give("import", path, "--experiment", "alpha", "--returns", "training", *UNIT)
    assert "during which the policy changed" in output
    assert "2 runs imported from csv: training episodes" in give("show", "alpha")
    assert "imported from csv: training episodes" in give("show", "alpha/ppo-test-0")
    give("report", "alpha", "--format", "md", "-o", "out")
    assert "Returns of ppo were recorded during training" in Path("out/report.md").read_text()


def test_the_source_is_recorded() -> None:
    """Records have the files, the original name of the run, the unit of steps and the command."""
    path = table(*rows("ppo", "Toy-v0", [7]))
    frames = ("--steps-unit", "frames", "--frame-skip", "4")
    give("import", "csv", path, "--experiment", "alpha", *frames)
    content = json.loads(give("show", "alpha/ppo-test-7", "--provenance", "--json"))["content"]
    imported = content["imported"]
    assert [path] == [file["name"] for file in imported["files"]]
    assert ("ppo/Toy-v0/7", 7, "csv") == (imported["name"], imported["seed"], imported["kind"])
    assert {"unit": "frames", "per": 4, "environment_steps": 1} == imported["steps"]
    assert ["rlexp", "import", "csv", path] == content["command"][:4]
    details = json.loads(give("show", "alpha/ppo-test-7", "--json"))
    assert (25, 25) == (details["step"], details["steps"])


def test_importing_again_changes_nothing() -> None:
    """A second import of the same content changes no file and says so."""
    path = two_labels()
    give("import", path, "--experiment", "alpha", *UNIT)
    before = files()
    output = give("import", path, "--experiment", "alpha", *UNIT)
    assert "nothing new: experiment alpha already holds these 20 runs" in output
    assert before == files()


def test_new_seeds_and_labels_are_added() -> None:
    """New runs are added, and existing runs stay unchanged."""
    first = table(*rows("ppo", "Toy-v0", [0, 1]))
    give("import", first, "--experiment", "alpha", *UNIT)
    before = files()
    extended = table(*rows("ppo", "Toy-v0", [1, 2]), *rows("a2c", "Toy-v0", [9]), name="more.csv")
    output = give("import", extended, "--experiment", "alpha", *UNIT)
    assert (
        "imported 2 runs from csv into experiment alpha; 1 further ones were imported before"
        in output
    )
    unchanged = [path for path in before if path.endswith(("spec.json", "events.jsonl"))]
    after = files()
    assert {path: before[path] for path in unchanged} == {path: after[path] for path in unchanged}
    summary = json.loads(give("show", "alpha", "--json"))["phases"][0]
    counts = {(c["label"], c["planned"], c["n"]) for c in summary["cells"]}
    assert {("ppo", 3, 3), ("a2c", 1, 1)} == counts
    assert "4 of 4 attempts match the ledger" in give("verify")


def test_other_content_is_refused() -> None:
    """Other content for an existing run is refused; after the suggested command, it is imported."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    before = files()
    changed_table = table(*rows("ppo", "Toy-v0", [1]), *rows("ppo", "Toy-v0", [0], height=9))
    output = refusal_of("import", changed_table, "--experiment", "alpha", *UNIT)
    assert "imported before with other content" in output
    assert before == files()
    suggested = shlex.split(output.partition("'rlexp ")[2].partition("'")[0])
    give(*suggested)
    give("import", changed_table, "--experiment", "alpha", *UNIT)
    assert "alpha: 2 of 2 attempts match the ledger" in give("verify")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--experiment", "../alpha"), "cannot be a folder name"),
        (("--experiment", "alpha", "--score", "best"), "--score 'best' is unknown"),
        (("--experiment", "alpha", "--returns", "trainin"), "did you mean 'training'"),
        (("--experiment", "alpha", "--steps-unit", "frame"), "did you mean 'frames'"),
        (("--experiment", "alpha", "--steps-unit", "frames"), "needs --frame-skip N"),
        (("--experiment", "alpha", *UNIT, "--frame-skip", "4"), "needs --steps-unit frames"),
        (("--experiment", "alpha"), "csv does not define the unit of its steps"),
        (("--experiment", "alpha", *UNIT, "--label", " "), "--label ' ' is not allowed"),
        (("--experiment", "alpha", *UNIT, "--metric", "x"), "--metric is for tensorboard, mlflow"),
        (("--experiment", "alpha", *UNIT, "--mlflow-experiment", "x"), "and the source is csv"),
    ],
)
def test_wrong_options_are_refused(words: Sequence[str], message: str) -> None:
    """Options that are wrong or contradict each other give a one-line error."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    assert message in refusal_of("import", "csv", path, *words)
    assert {} == files()


def train_runs(folder: Path) -> None:
    """Store an experiment that rlexp itself trained."""
    experiment = stored(Layout(folder / "runs"))
    for seed in range(3):
        experiment.complete(seed, 1.0)


def test_names_of_other_experiments_are_refused(folder: Path) -> None:
    """An import into a trained experiment or a folder of another kind is refused."""
    train_runs(folder)
    path = table(*rows("ppo", "Toy-v0", [0]))
    before = files()
    assert "holds runs of rlexp" in refusal_of("import", path, "--experiment", "alpha", *UNIT)
    (folder / "runs" / "other").mkdir()
    assert "is not an experiment" in refusal_of("import", path, "--experiment", "other", *UNIT)
    assert before == files()


def test_a_dry_run_writes_nothing() -> None:
    """With --dry-run, the runs are shown and no file is written."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    output = give("import", path, "--experiment", "alpha", "--dry-run", *UNIT)
    assert "would import 1 run from csv into experiment alpha" in output
    assert not Path("runs").exists()


def test_json_has_all_runs() -> None:
    """The JSON document has the runs with their states, left-out columns, and the next command."""
    lines = [f"{row},1" for row in rows("ppo", "Toy-v0", [0])]
    path = table(*lines, "ppo,Toy-v0,1,10,1.0,1", header=f"{HEADER},color")
    arguments = ("import", path, "--experiment", "alpha", *UNIT)
    value = give_json(Path.cwd(), "import-outcome", *arguments)
    assert ["completed", "interrupted"] == [run["state"] for run in value["runs"]]
    assert ["scores.csv, column 'color'"] == value["left_out"]
    assert ["rlexp report alpha"] == [step["command"] for step in value["next"]]
    assert [2] == [group["runs"] for group in value["groups"]]


def test_a_dry_run_suggests_no_report() -> None:
    """With --dry-run, no next command is suggested, because no experiment was written."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    arguments = ("import", path, "--experiment", "alpha", "--dry-run", *UNIT)
    value = give_json(Path.cwd(), "import-outcome", *arguments)
    assert (True, []) == (value["dry_run"], value["next"])


def test_runs_without_a_score_are_missing() -> None:
    """Runs that diverged or ended early are missing in all outputs, with the reason."""
    path = table(
        *rows("ppo", "Toy-v0", [0]),
        *rows("ppo", "Toy-v0", [1])[:6],
        *rows("ppo", "Toy-v0", [2])[:6],
        "ppo,Toy-v0,2,40,nan",
        "ppo,Toy-v0,2,50,1e6",
    )
    output = give("import", path, "--experiment", "alpha", *UNIT)
    assert "interrupted, its records end at step 30 of 100" in output
    assert "failed, its return at step 40 is nan, which is no number" in output
    assert "--steps 30 under a name of its own" in output
    runs_by_seed = {r["seed"]: r for r in json.loads(give("ls", "alpha", "--json"))["rows"]}
    assert ["completed", "interrupted", "failed"] == [
        runs_by_seed[seed]["state"] for seed in range(3)
    ]
    assert [None, None] == [runs_by_seed[seed]["score"] for seed in (1, 2)]
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
def test_commands_that_execute_runs_refuse_imported_ones(words: Sequence[str]) -> None:
    """Commands that would execute imported runs refuse them."""
    lines = rows("ppo", "CartPole-v1", [0]) + rows("a2c", "CartPole-v1", [1])[:6]
    give("import", table(*lines), "--experiment", "alpha", *UNIT)
    before = files()
    assert "was imported from another tool" in refusal_of(*words)
    give("resume")
    assert before == {k: v for k, v in files().items() if not k.endswith(".lock")}


def test_trained_and_imported_runs_share_a_report(folder: Path) -> None:
    """In a report with trained runs, unknown values of imported runs are called not known."""
    train_runs(folder)
    path = table(*rows("a2c", "CartPole-v1", range(3)))
    give("import", path, "--experiment", "theirs", *UNIT)
    give("report", "alpha", "theirs", "--format", "md", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "Imported from other tools: " in page
    assert "not the same task" not in page
    assert "actions in evaluations: ppo true; a2c not known" in page


def test_any_printable_label_is_accepted() -> None:
    """Labels with special characters of HTML, shells or paths are accepted and do no harm."""
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
    """The layout of `runs/`."""
    return Layout(Path("runs"))


def test_edited_imported_records_are_found() -> None:
    """`rlexp verify` finds edits of imported records."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    [journal] = Path("runs").rglob("events.jsonl")
    journal.write_text(journal.read_text().replace("10.0", "99.0"))
    output = give("verify", code=1)
    assert "edited" in output


def test_a_read_only_folder_is_refused(folder: Path) -> None:
    """An import into a folder that cannot be written to is refused."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    (folder / "runs").write_text("no folder")
    assert "cannot write to" in refusal_of("import", path, "--experiment", "alpha", *UNIT)


def evaluations_source() -> list[str]:
    """Words for the files that EvalCallback of stable-baselines3 writes, for three seeds."""
    for seed in range(3):
        returns = [[10.0 * n + seed, 11.0 * n] for n in range(1, 11)]
        write_evaluations(Path(f"logs/seed_{seed}"), range(10, 101, 10), returns)
    return ["sb3-evaluations", "logs", "--label", "ppo", "--task", "CartPole-v1"]


def monitors_source() -> list[str]:
    """Words for files that Monitor of stable-baselines3 writes, for two runs of two environments."""
    for seed in range(2):
        write_monitors(Path(f"logs/seed_{seed}"), [20, 30, 50], [40, 60])
    return ["logs", "--label", "ppo", "--task", "Toy-v0"]


def event_files_source() -> list[str]:
    """Words for TensorBoard files of a run of CleanRL."""
    return ["tensorboard", str(RECORDED / "cleanrl"), *UNIT]


def mlflow_source() -> list[str]:
    """Words for an SQLite store of MLflow."""
    with closing(sqlite3.connect("mlflow.db")) as connection:
        connection.executescript((RECORDED / "mlflow.sql").read_text())
    return ["mlflow", "sqlite:///mlflow.db", *UNIT]


def archive_source() -> list[str]:
    """Words for an archive of folders."""
    evaluations_source()
    shutil.make_archive("packed", "gztar", ".", "logs")
    return ["packed.tar.gz", "--label", "ppo", "--task", "CartPole-v1"]


@pytest.mark.parametrize(
    ("source", "runs", "scores"),
    [
        (evaluations_source, 3, 3),
        (monitors_source, 2, 2),
        (event_files_source, 1, 1),
        (mlflow_source, 6, 4),
        (archive_source, 3, 3),
    ],
)
def test_every_kind_of_source_is_imported(
    source: Callable[[], list[str]], runs: int, scores: int
) -> None:
    """Each kind of source leads to a report, a comparison and a ledger that matches."""
    arguments = ("import", *source(), "--experiment", "alpha")
    give(*arguments)
    listed_runs = json.loads(give("ls", "alpha", "--json"))["rows"]
    assert (runs, scores) == (
        len(listed_runs),
        sum(row["score"] is not None for row in listed_runs),
    )
    give("report", "alpha", "--format", "md", "-o", "out")
    assert "imported from other tools" in Path("out/report.md").read_text()
    if len({row["label"] for row in listed_runs}) > 1:
        assert "imported from other tools" in give("compare", "alpha")
    assert "Records that differ" not in Path("out/report.md").read_text()
    give("verify")
    assert "nothing new" in give(*arguments)


def test_two_concurrent_imports_lose_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two concurrent imports, the later is refused, and no run of the earlier is lost."""
    give("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    first_table = table(*rows("a2c", "Toy-v0", [0]), name="first.csv")
    late_table = table(*rows("sac", "Toy-v0", [0]), name="late.csv")
    make_plan, other_imports = settled_runs.make_import_plan, ["once"]

    def plan_slowly(*words: Any) -> Any:
        plan = make_plan(*words)
        if other_imports and other_imports.pop():
            give("import", first_table, "--experiment", "alpha", *UNIT)
        return plan

    monkeypatch.setattr(import_command, "make_import_plan", plan_slowly)
    words = ("import", late_table, "--experiment", "alpha", *UNIT)
    assert "was changed by another command meanwhile: repeat this command" in refusal_of(*words)
    assert "alpha: 2 of 2 attempts match the ledger" in give("verify")
    give(*words)
    output = give("verify")
    assert "alpha: 3 of 3 attempts match the ledger" in output
    assert "foreign" not in output


@pytest.mark.parametrize("address", ["postgresql://me:secret@127.0.0.1:1/x", "file:///x", "://"])
def test_addresses_that_are_no_server_are_refused(address: str) -> None:
    """Addresses of databases and files are refused as MLflow servers."""
    output = refusal_of("import", "mlflow", address, "--experiment", "alpha", *UNIT)
    assert (
        "is not the address of an MLflow server, which begins with http:// or https://" in output
    )
    assert {} == files()


def test_an_imported_run_has_no_log() -> None:
    """`rlexp logs` says that an imported run has no log."""
    give("import", two_labels(), "--experiment", "alpha", *UNIT)
    run = json.loads(give("ls", "alpha", "--json"))["rows"][0]["run"]
    output = CliRunner().invoke(app, ["logs", f"alpha/{run}"])
    assert ("", 0) == (output.stdout, output.exit_code)
    assert "was imported from csv and has no log" in output.stderr
    give(*shlex.split(re.findall(r"to see its source: rlexp (.*)", output.stderr)[0]))


def test_exported_tables_can_be_imported() -> None:
    """Exported tables can be imported with the same scores."""
    give("import", two_labels(), "--experiment", "alpha", *UNIT)
    give("export", "csv", "alpha", "--output", "own", "--level", "episodes")
    output = give("import", "own/episodes.csv", "--experiment", "beta", *UNIT)
    assert "did you mean" not in output
    first, second = (json.loads(give("ls", name, "--json"))["rows"] for name in ("alpha", "beta"))
    keys = ("label", "task", "seed", "state", "score")
    assert [[r[k] for k in keys] for r in first] == [[r[k] for k in keys] for r in second]


def test_reference_scores_are_read_once_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference scores are read once per task, because reading them for each run takes minutes."""
    tasks: list[str] = []

    def record_task(task: str, folder: Path) -> dict[str, Any]:
        tasks.append(task)
        return {}

    monkeypatch.setattr(import_command, "known_reference", record_task)
    give("import", two_labels(), "--experiment", "alpha", *UNIT, "--dry-run")
    assert ["Acrobot-v1", "CartPole-v1"] == sorted(tasks)


def test_secrets_are_masked() -> None:
    """The value of a parameter with a secret name is in no file."""
    arguments = mlflow_source()
    with closing(sqlite3.connect("mlflow.db")) as connection, connection:
        query = "INSERT INTO params SELECT 'api_key', 'hunter2hunter2', run_uuid FROM runs"
        connection.execute(query)
    give("import", *arguments, "--experiment", "alpha")
    assert not any(b"hunter2" in content for content in files().values())


def test_two_concurrent_imports_with_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two concurrent imports with one name, one is refused, and the other is complete."""
    path = table(*rows("ppo", "Toy-v0", [0]))
    arguments = ("import", path, "--experiment", "alpha", *UNIT)
    give(*arguments)
    before = files()
    monkeypatch.setattr(
        "rlexp.app.commands.exchange.import_results.read_imported_experiment", lambda _: None
    )
    assert "was created by another command meanwhile" in refusal_of(*arguments)
    assert before == files()


CALLS = ("write_run", "write_journal", "write_experiment", "_rename_into_place", "sync")
"""Functions that an import calls; the import is killed before each call."""


def is_killed(words: Sequence[str], number: int) -> bool:
    """Run a command in a process that is killed at a call; returns whether it was killed."""
    child = os.fork()
    if child == 0:
        _kill_at(number)
        try:
            give(*words)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _kill_at(number: int) -> None:
    remaining = [number]

    def with_kill(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in CALLS:
        setattr(store, name, with_kill(getattr(store, name)))


def test_an_import_killed_at_any_moment_can_be_repeated() -> None:
    """A repeated command completes an import that was killed at any call."""
    arguments = ("import", table(*rows("ppo", "Toy-v0", range(2))), "--experiment", "alpha", *UNIT)
    number = 0
    while is_killed(arguments, number := number + 1):
        if "alpha" in (names := [e.name for e in layout().experiments()]):
            # The experiment is complete, and only its name was not yet made durable.
            assert "2 of 2 attempts match" in give("verify")
        assert set(names) <= {"alpha"}
        give(*arguments)
        assert "2 of 2 attempts match" in give("verify")
        assert [] == list(Path("runs").glob(".import-*"))
        give("rm", "alpha", "--yes")
    assert number > len(CALLS)


def test_a_killed_addition_changes_no_number() -> None:
    """A killed addition of runs leaves the results of existing runs unchanged."""
    first = ("import", table(*rows("ppo", "Toy-v0", [0])), "--experiment", "alpha", *UNIT)
    extended = table(*rows("ppo", "Toy-v0", [1, 2]), name="more.csv")
    arguments = ("import", extended, "--experiment", "alpha", *UNIT)
    number, counts = 0, set[int]()
    give(*first)
    while is_killed(arguments, number := number + 1):
        [row] = json.loads(give("ls", "--group", "--json"))["rows"]
        counts.add(row["n"])
        give("verify")
        give(*arguments)
        [row] = json.loads(give("ls", "--group", "--json"))["rows"]
        assert (3, 3) == (row["planned"], row["n"])
        assert "3 of 3 attempts match" in give("verify")
        assert [] == list(Path("runs/alpha").glob(".import-*"))
        give("rm", "alpha", "--yes")
        give(*first)
    assert {1} == counts
    assert number > len(CALLS)


def win_rates(name: str = "marl.json", task: str = "CartPole-v1") -> str:
    """Write win rates of five seeds in marl-eval's form; returns the name of the file."""
    runs = {
        f"seed_{seed}": {
            f"step_{n}": {"step_count": 100 * n, "win_rate": [0.1 * n, seed / 10]}
            for n in range(1, 11)
        }
        for seed in range(5)
    }
    Path(name).write_text(json.dumps({"smac": {task: {"qmix": runs}}}))
    return name


def test_a_metric_that_is_no_return_keeps_its_name() -> None:
    """Commands and reports name a win rate, and do not use known returns of the task for it."""
    give("import", win_rates(), "--experiment", "alpha", "--task", "CartPole-v1", *UNIT)
    assert "5 runs imported from marl-eval: evaluations of win_rate" in give("show", "alpha")
    scored = "score: mean win_rate in the last tenth of training"
    assert scored in give("show", "alpha", "--full")
    [cell] = json.loads(give("show", "alpha", "--json"))["phases"][0]["cells"]
    assert ("win_rate", None) == (cell["quantity"], cell["threshold"])
    name = json.loads(give("ls", "alpha", "--json"))["rows"][0]["run"]
    assert "win_rate" == json.loads(give("show", f"alpha/{name}", "--json"))["quantity"]
    give("report", "alpha", "--format", "md", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "the mean win\\_rate of the evaluations" in page
    assert "in units of its win\\_rate" in page
    assert "Mean win\\_rate of the evaluations during training" in page


def test_metrics_of_a_task_do_not_mix() -> None:
    """Returns cannot be added to an experiment of win rates on the same task."""
    give("import", win_rates(task="Toy-v0"), "--experiment", "alpha", "--task", "Toy-v0", *UNIT)
    step = {"step_count": 1000, "return": [1.0]}
    Path("more.json").write_text(json.dumps({"smac": {"x": {"vdn": {"seed_0": {"s": step}}}}}))
    before = files()
    refusal = refusal_of("import", "more.json", "--experiment", "alpha", "--task", "Toy-v0", *UNIT)
    assert "different metrics" in refusal
    assert before == files()


def test_names_from_paths_are_recorded() -> None:
    """The command that is recorded repeats the pattern, and the same import changes nothing."""
    for label in ("ppo", "a2c"):
        for seed in range(2):
            write_monitors(Path("logs", label, f"seed_{seed}"), [5] * 20)
    words = ("import", "logs", "--experiment", "alpha", "--task", "Toy-v0")
    chosen = (*words, "--path", "{label}/seed_{seed}", "--where", "label~p")
    assert "imported 2 runs from sb3-monitor" in give(*chosen)
    shown = give("show", "alpha", "--provenance", "--json")
    command = json.loads(shown)["content"]["command"]
    assert ["--path", "{label}/seed_{seed}", "--where", "label~p"] == command[-4:]
    before = files()
    assert "nothing new" in give(*chosen)
    assert before == files()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "a", "--path", "{label}/x"), "both name the label"),
        (("--seed", "1", "--path", "x_{seed}"), "both name the seed"),
        (("--task", "t", "--task-from", "env"), "both name the task"),
        (("--column", "step=a", "--column", "step=b"), "given twice"),
        (("--where", "lr"), "is not a condition"),
    ],
)
def test_options_that_contradict_each_other(words: tuple[str, ...], message: str) -> None:
    """Options that name one fact twice are refused, and nothing is written."""
    refusal = refusal_of("import", two_labels(), "--experiment", "alpha", *UNIT, *words)
    assert message in refusal
    assert {} == files()


def test_columns_choose_the_kind() -> None:
    """A table with columns of other names is recognised once its columns are named."""
    path = table("100,1", "200,2", header="timesteps,rew")
    names = ("--label", "a", "--task", "t", "--seed", "0", *UNIT)
    refusal = refusal_of("import", path, "--experiment", "alpha", *names)
    assert (
        "--column step=COLUMN --column return=COLUMN (its columns are: timesteps, rew)" in refusal
    )
    columns = ("--column", "step=timesteps", "--column", "return=rew")
    assert "imported 1 run from csv" in give(
        "import", path, "--experiment", "alpha", *names, *columns
    )
