"""Experiments of schema 1 can still be read, and no run is added to them.

`tests/store/schema_1/runs.tar.xz` was written by the last version that wrote schema 1. It holds PPO
and A2C on two seeds each, a sweep of two trials, and two imported runs. `specs.jsonl` holds further
specifications with the identities that the version computed.
"""

import json
import shutil
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts

import rlexp
from rlexp import cli
from rlexp.protocol.schema_1 import RunSpecSchema1
from rlexp.store import catalogue
from rlexp.store.changed_records import ChangedRecords
from rlexp.store.curves import Curves
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.runs import StoredRun, read_definition, read_run, read_spec

STORED = Path(__file__).parents[2] / "store/schema_1"
RUN = "trained/ppo-test-0-6c6a989834"
WORDS = ("algorithm=ppo,a2c", "environment=cartpole", "algorithm.n_steps=64")

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the experiments, for commands that only read."""
    folder = tmp_path_factory.mktemp("schema 1")
    with tarfile.open(STORED / "runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def workspace(read_only: Path, tmp_path: Path) -> Path:
    """A workspace for this test with the experiments."""
    shutil.copytree(read_only / "runs", tmp_path / "runs")
    return tmp_path


def command(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Run a command in a folder; returns its exit code, its output and its errors."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["rlexp", *arguments])
        monkeypatch.setattr(sys, "path", [*sys.path])
        with pytest.raises(SystemExit) as caught:
            cli.main()
    printed = capsys.readouterr()
    return int(caught.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize("line", (STORED / "specs.jsonl").read_text().splitlines())
def test_identities_do_not_change(line: str) -> None:
    """Specifications of schema 1 keep their ids, fingerprints and names."""
    stored = json.loads(line)
    spec = RunSpecSchema1.from_plain(stored["spec"])
    assert (stored["id"], stored["fingerprint"], stored["name"]) == (
        spec.id,
        spec.fingerprint,
        spec.name,
    )
    same_spec = spec.again(spec.phase, spec.root, spec.seed)
    assert (spec.id, spec.fingerprint, spec.name) == (
        same_spec.id,
        same_spec.fingerprint,
        same_spec.name,
    )


def test_runs_keep_their_folder_names(read_only: Path) -> None:
    """Every configuration keeps the fingerprint that its experiment recorded."""
    for paths in Layout(read_only / "runs").experiments():
        experiment = read_definition(paths)
        recorded = json.loads(paths.definition.read_text())["configurations"]
        assert [c["fingerprint"] for c in recorded] == [
            c.fingerprint for c in experiment.configurations
        ]
        assert all(read_spec(run).name == run.folder.name for run in paths.runs())


@pytest.mark.parametrize("name", ["trained", "searched", "imported"])
def test_show_lists_every_run(
    read_only: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`show` and `ls` list every run, and no run is unknown to the experiment."""
    for arguments in (("show", name), ("ls", name)):
        code, out, err = command(read_only, capsys, *arguments)
        assert (0, "") == (code, err)
        assert "does not include it" not in out
    runs = (read_only / "runs" / name).glob("*/spec.json")
    assert all(run.parent.name in out for run in runs)


def test_the_catalogue_keeps_identities(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records from the catalogue have the same identity as records from the files."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    paths = Layout(workspace / "runs").experiment("trained")
    runs, records = paths.runs(), ChangedRecords(paths)
    catalogue_folders = [workspace / "catalogue"]
    first = catalogue.Catalogue.read(
        catalogue_folders, lambda: time.time() + 100, records, Curves([], "")
    )
    before = [first.look(run, read_run).record for run in runs]
    first.save(complete=True)
    second = catalogue.Catalogue.read(
        catalogue_folders, lambda: time.time() + 100, records, Curves([], "")
    )
    after = [second.look(run, _unread).record for run in runs]
    assert before == after
    assert [run.folder.name for run in runs] == [record.spec.name for record in after]


def _unread(paths: RunPaths) -> StoredRun:
    raise AssertionError(f"{paths.folder} is read from its files")


def test_everything_is_listed_and_verified(
    read_only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All experiments are listed, and their records match their ledgers."""
    code, out, _ = command(read_only, capsys, "ls")
    assert 0 == code
    assert all(name in out for name in ("trained", "searched", "imported"))
    code, out, _ = command(read_only, capsys, "verify")
    assert 0 == code
    assert all(f"{n} of {n} attempts match" in out for n in (2, 4, 7))


def test_a_run_is_shown_with_its_configuration(
    read_only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run is shown with the present names of its plug-ins."""
    assert 0 == command(read_only, capsys, "show", RUN)[0]
    code, out, _ = command(read_only, capsys, "show", RUN, "--config")
    assert 0 == code
    assert "name: ppo" in out
    assert "name: sticky_actions" in out


def test_runs_are_compared(read_only: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compare` and `diff` work, and `diff` shows no Python paths."""
    code, out, _ = command(read_only, capsys, "compare", "trained")
    assert 0 == code
    assert "ppo" in out
    assert "a2c" in out
    code, out, _ = command(read_only, capsys, "diff", RUN, "trained/a2c-test-0-a7a1b7ec59")
    assert 0 == code
    assert "algorithm.plug_in.name: ppo → a2c" in out
    assert "rlexp.algorithms" not in out


def test_reports_and_exports_are_made(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports and exports can be made of runs, a sweep and imported runs."""
    for arguments in (
        ("report", "trained", "searched", "imported", "--format", "html", "--output", "report"),
        ("export", "csv", "trained", "--output", "runs.csv"),
        ("export", "rliable", "trained", "--output", "scores.json"),
        ("export", "script", "searched/ppo-test-0-9acc9db0b3", "--output", "script"),
        ("export", "huggingface", "searched/tuned", "--output", "hub"),
    ):
        code, _, err = command(workspace, capsys, *arguments)
        assert (0, arguments) == (code, arguments), err
    for path in ("report/report.html", "runs.csv", "scores.json", "script", "hub"):
        assert (workspace / path).exists(), path


def test_records_are_loaded_in_python(read_only: Path) -> None:
    """Records and their scores can be loaded in Python."""
    records = rlexp.load(read_only / "runs/trained")
    assert {("ppo", 2), ("a2c", 2)} == {
        (label, len(records.scores(label=label))) for label in ("ppo", "a2c")
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", *WORDS, "experiment=trained"),
        ("run", *WORDS, "experiment=trained", "--dry-run"),
        ("resume", "trained"),
        ("resume", RUN),
        ("resume", "searched"),
        ("sweep", "quick", "experiment=searched"),
        ("compare", "trained", "--adaptive"),
        ("worker", "trained"),
        ("import", "csv", "scores.csv", "--experiment", "imported", "--steps-unit", "environment"),
    ],
)
def test_no_run_is_added(
    workspace: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Commands that would add runs print one line with the remedy and write nothing."""
    (workspace / "scores.csv").write_text("label,task,seed,step,return\nPPO,Maze,2,100,1.5\n")
    shutil.rmtree(workspace / "runs" / RUN / "attempts")
    before = {path for path in workspace.rglob("*") if not path.name.startswith(".")}
    code, _, err = command(workspace, capsys, *arguments)
    assert 0 != code
    assert 1 == err.count("\n")
    assert "was written in schema 1" in err
    assert "Choose another name with experiment=…" in err
    assert before == {path for path in workspace.rglob("*") if not path.name.startswith(".")}


def test_a_run_is_not_executed_again(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reproduce` is refused, because the new run would have another name."""
    code, _, err = command(workspace, capsys, "reproduce", RUN)
    assert 0 != code
    assert "whose runs cannot be executed any more" in err


def test_the_winner_of_a_sweep_can_be_trained_in_a_new_experiment(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new experiment can train the winner of a sweep."""
    arguments = ("run", "--from-sweep", "searched", "seeds.test=1", "--dry-run")
    code, out, err = command(workspace, capsys, *arguments)
    assert 0 == code
    assert "1 run × 192 environment steps" in out + err


def test_a_file_of_a_later_schema_names_the_version_that_wrote_it(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the version that wrote the file and a command that upgrades rlexp."""
    path = workspace / "runs/trained/experiment.json"
    document: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "schema": 9, "rlexp": "7.5.3"}))
    code, out, err = command(workspace, capsys, "compare", "trained")
    assert 0 != code
    assert "was written by rlexp 7.5.3 in schema 9" in out + err
    assert "reads schema 2 at most: pip install --upgrade rlexp" in out + err
