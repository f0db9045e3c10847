"""`rlexp export` writes complete files with remarks, or refuses before writing."""

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import give, give_json
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, completed, configuration, failed, stored, study

from rlexp.app.commands.exchange.export import FORMATS, export
from rlexp.app.exporting.output import ExportedFiles, ExportRequest
from rlexp.errors import RlexpError
from rlexp.exchange.exporters import parquet
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Measured

quick = pytest.fixture(autouse=True)(quick_parts)

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"


def alpha(folder: Path) -> Stored:
    """Two labels on one task; one run of ppo failed and one never started."""
    experiment = stored(
        study(folder).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(3):
        experiment.complete(seed, 400.0 + seed, label="a2c")
    experiment.complete(0, 100.0)
    experiment.complete(1, 101.0)
    experiment.attempt(2, failed())
    return experiment


def write(folder: Path, kind: str, *targets: str, **options: Any) -> ExportedFiles:
    """Export to `out` in the workspace, unless another path is given."""
    options.setdefault("output", "out")
    request = ExportRequest(format=kind, targets=targets or ("alpha",), **options)
    return export(request, study(folder))


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def refusal_of(folder: Path, kind: str, *targets: str, **options: Any) -> str:
    """The error of a refused export, which writes nothing."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(RlexpError) as error:
        write(folder, kind, *targets, **options)
    assert before == sorted(folder.rglob("*"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_scores_are_arrays_by_label(tmp_path: Path) -> None:
    """Each label has an array of runs × tasks; the README and the result name failed runs."""
    experiment = alpha(tmp_path)
    exported = write(tmp_path, "rliable", output="s.npz")
    assert (tmp_path / "s.npz", tmp_path / "s.npz.md") == exported.files
    with np.load(tmp_path / "s.npz", allow_pickle=False) as scores:
        assert {"ppo": (2, 1), "a2c": (3, 1)} == {k: scores[k].shape for k in scores}
        np.testing.assert_array_equal([[100.0], [101.0]], scores["ppo"])
    page = (tmp_path / "s.npz.md").read_text()
    for text in (page.replace("\\", ""), "\n".join(exported.remarks)):
        assert "5 of 8 test runs have a score" in text
        assert f"{experiment.spec(2).name} (failed (nan))" in text
    assert "ppo: n = 2 runs a task, seeds 0–1" in page
    assert "mean return of the final policy over 2 fresh episodes" in page


@pytest.mark.parametrize("name", ["s.npz", "it's a name.json"])
def test_the_printed_command_works(tmp_path: Path, name: str) -> None:
    """The printed command works when pasted into a shell."""
    alpha(tmp_path)
    text = give(tmp_path, "export", "rliable", "alpha", "--output", name)
    line = text.splitlines()[-1].removeprefix("To try it: ")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.run(
        line, shell=True, capture_output=True, check=True, env={**os.environ, "PATH": path}
    )
    assert "{'ppo': (2, 1), 'a2c': (3, 1)}" == process.stdout.decode().strip()


def test_normalised_scores_need_anchors(tmp_path: Path) -> None:
    """Normalised scores are refused for a task without anchors."""
    alpha(tmp_path)
    assert "declare environment.reference.random" in refusal_of(
        tmp_path, "rliable", output="s.npz", normalised=True
    )


def test_unequal_tasks_need_common_seeds(tmp_path: Path) -> None:
    """Tasks with different seeds need --common-seeds, and the README names left-out runs."""
    experiment = stored(
        study(tmp_path).layout,
        "alpha",
        configuration("ppo"),
        configuration("ppo", PENDULUM),
        test=2,
    )
    for task_configuration, seeds in zip(
        experiment.experiment.configurations, ((0, 1), (0,)), strict=True
    ):
        for seed in seeds:
            _complete(experiment, task_configuration.task, seed)
    assert "--common-seeds uses the 1" in refusal_of(tmp_path, "rliable", output="s.json")
    write(tmp_path, "rliable", output="s.json", common_seeds=True)
    assert {"ppo": [[7.0, 7.0]]} == json.loads((tmp_path / "s.json").read_text())
    assert "Left out" in (tmp_path / "s.json.md").read_text()
    write(tmp_path, "rliable", output="one.json", tasks=(CARTPOLE,))
    assert {"ppo": [[7.0], [7.0]]} == json.loads((tmp_path / "one.json").read_text())


def _complete(stored_experiment: Stored, task: str, seed: int) -> None:
    """Store a completed run of the configuration on a task."""
    task_configuration = next(
        c for c in stored_experiment.experiment.configurations if c.task == task
    )
    with_one_task = Stored(
        stored_experiment.paths,
        type(stored_experiment.experiment)(
            name="alpha",
            configurations=(task_configuration,),
            seeds=stored_experiment.experiment.seeds,
            failures="missing",
        ),
    )
    with_one_task.complete(seed, 7.0)


def test_marl_eval_is_json_of_every_evaluation(tmp_path: Path) -> None:
    """The file has the evaluations of all runs on seeds that the labels share."""
    alpha(tmp_path)
    assert "--common-seeds uses the 2" in refusal_of(tmp_path, "marl-eval", output="m.json")
    write(tmp_path, "marl-eval", output="m.json", common_seeds=True)
    content = json.loads((tmp_path / "m.json").read_text())["gymnasium"][CARTPOLE]
    assert {"ppo", "a2c"} == content.keys()
    assert {"step_count": 50, "return": [25.0, 50.0], "length": [1.0, 1.0]} == content["ppo"][
        "seed_0"
    ]["step_1"]


def test_tables_go_into_one_file_or_a_folder(tmp_path: Path) -> None:
    """A name that ends in .csv gets one table, of evaluations by default; a folder gets all."""
    alpha(tmp_path)
    write(tmp_path, "csv", output="one.csv")
    write(tmp_path, "csv", output="all")
    evaluations = rows(tmp_path / "one.csv")
    assert ["label", "task", "seed", "step", "return"] == list(evaluations[0])[:5]
    assert ("ppo", "0", "50", "37.5", "false") == tuple(
        evaluations[0][k] for k in ("label", "seed", "step", "return", "final")
    )
    names = {"scores.csv", "evaluations.csv", "episodes.csv", "measurements.csv"}
    assert names == {p.name for p in (tmp_path / "all").iterdir()}
    scores = rows(tmp_path / "all" / "scores.csv")
    assert ["completed", "completed", "failed (nan)", "planned"] == [
        row["state"] for row in scores if row["label"] == "ppo"
    ]
    assert ["", ""] == [row["score"] for row in scores if row["label"] == "ppo"][2:]


def test_measurements_have_a_row_for_each_value(tmp_path: Path) -> None:
    """The table of measurements is in long format, with the losses of a failed run as well."""
    experiment = stored(study(tmp_path).layout, "alpha")
    logged = Measured(time=STARTED + 7.0, step=40, metrics={"train/loss": 2.5, "train/kl": 0.1})
    experiment.attempt(0, [logged, *completed(5.0)])
    experiment.attempt(1, [logged, *failed()])
    write(tmp_path, "csv", output="one.csv", level="measurements")
    columns = ("seed", "step", "metric", "value", "seconds", "state")
    assert [
        (seed, "40", metric, value, "7.0", state)
        for seed, state in (("0", "completed"), ("1", "failed (nan)"))
        for metric, value in (("train/loss", "2.5"), ("train/kl", "0.1"))
    ] == [tuple(row[k] for k in columns) for row in rows(tmp_path / "one.csv")]


def test_a_table_holds_no_formula(tmp_path: Path) -> None:
    """A label that a spreadsheet would execute gets a leading apostrophe."""
    experiment = stored(study(tmp_path).layout, "alpha", configuration("=cmd|x"))
    experiment.complete(0, -5.0, label="=cmd|x")
    write(tmp_path, "csv", output="one.csv", level="runs")
    assert ("'=cmd|x", "-5.0") == tuple(
        rows(tmp_path / "one.csv")[0][k] for k in ("label", "score")
    )


@pytest.mark.parametrize("package", parquet.WRITERS)
def test_parquet_holds_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """Each writer package gives typed columns and keeps missing values missing."""
    pytest.importorskip(package)
    arrow = pytest.importorskip("pyarrow.parquet")
    alpha(tmp_path)
    monkeypatch.setattr(parquet, "WRITERS", (package,))
    write(tmp_path, "parquet", output="all")
    write(tmp_path, "parquet", output="again")
    table = arrow.read_table(tmp_path / "all" / "scores.parquet")
    kinds = ["string", "string", "string", "int64", "string", "double", "int64", "string"]
    assert kinds == [str(field.type) for field in table.schema]
    assert [100.0, 101.0, None, None] == table.column("score").to_pylist()[:4]
    for path in (tmp_path / "all").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_a_missing_parquet_package_is_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error about a missing package has a command that installs it."""
    alpha(tmp_path)
    monkeypatch.setattr(parquet, "WRITERS", ("no_such_package",))
    assert "pip install 'rlexp[parquet]'" in refusal_of(tmp_path, "parquet", output="x.parquet")


def test_tuning_scores_are_marked(tmp_path: Path) -> None:
    """Tuning scores are exported only on request, with their phase in every row."""
    experiment = alpha(tmp_path)
    experiment.complete(0, 900.0, phase=Phase.TUNING)
    exported = write(tmp_path, "csv", output="test.csv", level="runs")
    assert {"test"} == {row["phase"] for row in rows(tmp_path / "test.csv")}
    assert any(remark.startswith("Not exported") for remark in exported.remarks)
    exported = write(tmp_path, "csv", output="tuning.csv", phase="tuning")
    assert {"tuning"} == {row["phase"] for row in rows(tmp_path / "tuning.csv")}
    assert any(remark.startswith("Not test scores") for remark in exported.remarks)
    assert "leave it out" in refusal_of(tmp_path, "huggingface", "alpha/ppo", phase="tuning")


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    """A second export of the same records has the same bytes."""
    alpha(tmp_path)
    for kind, name in (("rliable", "s.npz"), ("rliable", "s.json"), ("csv", "s.csv")):
        write(tmp_path, kind, output=name)
        before = (tmp_path / name).read_bytes()
        write(tmp_path, kind, output=name, force=True)
        assert before == (tmp_path / name).read_bytes()


def test_an_existing_output_is_replaced_only_with_force(tmp_path: Path) -> None:
    """An existing output needs --force; a folder with other files is never replaced."""
    alpha(tmp_path)
    write(tmp_path, "csv")
    assert "--force" in refusal_of(tmp_path, "csv")
    write(tmp_path, "csv", force=True)
    (tmp_path / "out" / "mine.txt").write_text("dear")
    assert "'mine.txt'" in refusal_of(tmp_path, "csv", force=True)
    assert "this export writes a folder" in refusal_of(
        tmp_path, "csv", output=_file(tmp_path), force=True
    )
    assert "exists" in refusal_of(tmp_path, "rliable", output=_folder(tmp_path), force=True)


def _file(folder: Path) -> str:
    (folder / "file").write_text("dear")
    return "file"


def _folder(folder: Path) -> str:
    (folder / "s.npz").mkdir()
    return "s.npz"


def test_records_and_links_are_never_written_to(tmp_path: Path) -> None:
    """An export refuses `runs/`, folders that contain it, and links."""
    alpha(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
    for name in ("runs/alpha/x", "runs", ".", "..", "a/../runs/x"):
        assert "--output" in refusal_of(tmp_path, "csv", output=name, force=True)
    assert "is a link" in refusal_of(tmp_path, "csv", output="link.csv", force=True)


def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves neither partial nor temporary files."""
    alpha(tmp_path)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rlexp.app.exporting.output.sync", fail)
    assert "No space left" in refusal_of(tmp_path, "csv")


@pytest.mark.parametrize(
    ("kind", "target", "options", "message"),
    [
        ("rlable", "alpha", {}, "did you mean 'rliable'?"),
        ("csv", "alpah", {}, "did you mean 'alpha'?"),
        ("csv", "alpha/pp0", {}, "did you mean 'ppo'?"),
        ("csv", "alpha", {"phase": "tets"}, "did you mean 'test'?"),
        ("csv", "alpha", {"level": "episode"}, "did you mean 'episodes'?"),
        ("csv", "alpha", {"tasks": ("CartPole-v0",)}, "did you mean 'CartPole-v1'?"),
        (
            "csv",
            "alpha",
            {"common_seeds": True},
            "--common-seeds is for the formats rliable, marl-eval",
        ),
        ("csv", "alpha", {"output": None}, "--output PATH"),
        ("csv", "alpha", {"output": "x.json"}, "does not end in .csv"),
        ("csv", "alpha", {"output": "x" * 300}, "cannot be written: File name too long"),
        ("rliable", "alpha", {"output": "x.pickle"}, "must end in .npz or .json"),
        ("csv", "alpha", {"phase": "selection"}, "no selection run has a score"),
        ("csv", "beta", {}, "no test run has a score (3 runs planned)"),
        ("script", "alpha", {}, "name EXPERIMENT/RUN"),
        ("huggingface", "alpha", {}, "a model card describes one label"),
    ],
)
def test_mistakes_are_one_line_errors(
    tmp_path: Path, kind: str, target: str, options: dict[str, Any], message: str
) -> None:
    """A wrong format, target or option gives a one-line error, and nothing is written."""
    alpha(tmp_path)
    stored(study(tmp_path).layout, "beta")
    assert message in refusal_of(tmp_path, kind, target, **options)


def test_damaged_records_are_named(tmp_path: Path) -> None:
    """A damaged run is named and has no score; a damaged experiment is refused."""
    experiment = alpha(tmp_path)
    experiment.run(0).spec.write_text("{")
    text = give(tmp_path, "export", "csv", "alpha", "--level", "runs", "--output", "out")
    assert "Problem: alpha: ppo-test-0" in text
    assert "unreadable" == rows(tmp_path / "out" / "scores.csv")[0]["state"]
    experiment.paths.definition.write_text("[]")
    assert "experiment.json" in refusal_of(tmp_path, "csv", output="other")


def test_the_command_line_passes_every_option(tmp_path: Path) -> None:
    """Every option of the command line has its effect in the JSON document."""
    alpha(tmp_path)
    arguments = shlex.split("csv alpha -o out --phase test --task CartPole-v1 --level runs")
    result = give_json(tmp_path, "exported-files", "export", *arguments)
    assert ("csv", 5, 8) == (result["format"], result["n"], result["planned"])
    assert [str(tmp_path / "out" / "scores.csv")] == result["files"]
    assert {"scores": 8} == result["rows"]
    assert ["failed (nan)", "planned", "planned"] == [
        run["state"] for run in result["without_score"]
    ]


def test_json_has_rows_and_columns_of_arrays(tmp_path: Path) -> None:
    """The JSON document has the tasks, the seeds of each label and the unit of the arrays."""
    alpha(tmp_path)
    arguments = ("export", "rliable", "alpha", "--output", "s.npz")
    result = give_json(tmp_path, "exported-files", *arguments)
    assert ([CARTPOLE], {"ppo": [0, 1], "a2c": [0, 1, 2]}) == (result["tasks"], result["seeds"])
    assert "in units of the return" == result["unit"]
    assert ["try it"] == [step["why"] for step in result["next"]]


def test_every_format_is_in_the_help(tmp_path: Path) -> None:
    """The help lists all formats."""
    text = " ".join(give(tmp_path, "export", "--help").split())
    assert all(name in text for name in FORMATS)
