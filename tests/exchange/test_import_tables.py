"""CSV tables and marl-eval's JSON: exported data is read unchanged, and damage is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from import_sources import given, settled, write_json, write_table

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.csv_table import fits, read_csv
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportOptions,
    MalformedError,
    ReturnKind,
    StepUnit,
)
from rlexp.exchange.importers.marl_eval import read_marl_eval

OPTIONS = ImportOptions(unit=ENVIRONMENT)
HEADER = "label,task,seed,step,return"
WORDS = st.text(
    st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8
) | st.sampled_from(["=cmd|' /C calc'!A0", "a,b", 'say "no"', "[link=file:///x]"])
RETURNS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3)
CURVES = st.dictionaries(st.integers(0, 10**9), RETURNS, min_size=1, max_size=4)
STUDIES = st.dictionaries(
    st.tuples(WORDS, WORDS, st.integers(0, 2**31)), CURVES, min_size=1, max_size=4
)

Study = dict[tuple[str, str, int], dict[int, list[float]]]


@over(STUDIES, st.randoms(use_true_random=False))
def test_csv_and_back(tmp_path_factory: pytest.TempPathFactory, study: Study, random: Any) -> None:
    """An exported table is read unchanged, in any order of rows."""
    steps = [
        (key, step, returns) for key, curve in study.items() for step, returns in curve.items()
    ]
    random.shuffle(steps)
    rows = [(*key, step, repr(value)) for key, step, returns in steps for value in returns]
    path = write_table(tmp_path_factory.mktemp("csv") / "scores.csv", rows, HEADER)
    curves = {
        (r.label, r.task, r.seed): {p.step: list(p.returns) for p in r.points}
        for r in read_csv(given(path), OPTIONS).runs
    }
    assert study == curves


@over(STUDIES)
def test_marl_eval_and_back(tmp_path_factory: pytest.TempPathFactory, study: Study) -> None:
    """An exported file is read unchanged, without the results of the best policy."""
    document: dict[str, Any] = {}
    for (label, task, seed), curve in study.items():
        steps: dict[str, Any] = {
            f"step_{n}": {"step_count": step, "elapsed_time": 1.0, "return": returns}
            for n, (step, returns) in enumerate(curve.items())
        }
        steps["absolute_metrics"] = {"return": [1e9]}
        runs = document.setdefault("env", {}).setdefault(task.strip(), {}).setdefault(label, {})
        runs[f"seed_{seed % 10**9}"] = steps
    path = write_json(tmp_path_factory.mktemp("json") / "scores.json", document)
    imported = read_marl_eval(given(path), OPTIONS)
    curves = {
        (r.label, r.task, r.seed): {p.step: list(p.returns) for p in r.points}
        for r in imported.runs
    }
    expected = {
        (lb, f"env/{t.strip()}", s % 10**9): returns for (lb, t, s), returns in study.items()
    }
    assert {key: curves[key] for key in expected} == expected
    assert len(imported.runs) == len(imported.left_out)


def test_rows_at_one_step_are_episodes(tmp_path: Path) -> None:
    """Rows at one step are episodes of one evaluation; lengths are kept if complete."""
    rows = [("a", "t", 0, 10, 1.0, 7), ("a", "t", 0, 10, 2.0, 8), ("a", "t", 0, 5, 0.5, "")]
    path = write_table(tmp_path / "scores.csv", rows, f"{HEADER},length")
    [run] = read_csv(given(path), OPTIONS).runs
    assert [(5, (0.5,), ()), (10, (1.0, 2.0), (7, 8))] == [
        (p.step, p.returns, p.lengths) for p in run.points
    ]


def test_final_episodes(tmp_path: Path) -> None:
    """Marked rows are the final evaluation, and not part of the curve."""
    rows = [("a", "t", 0, 10, 1.0, 0), ("a", "t", 0, 10, 5.0, 1), ("a", "t", 0, 10, 7.0, "true")]
    path = write_table(tmp_path / "scores.csv", rows, f"{HEADER},final")
    [run] = read_csv(given(path), OPTIONS).runs
    assert [((1.0,), False), ((5.0, 7.0), True)] == [(p.returns, p.final) for p in run.points]


def test_columns_that_options_replace(tmp_path: Path) -> None:
    """An option replaces a column with one value."""
    path = write_table(tmp_path / "scores.csv", [(10, 1.0)], "step,return")
    options = ImportOptions(unit=ENVIRONMENT, label="PPO", task="Toy-v0", seed=4)
    [run] = read_csv(given(path), options).runs
    assert ("PPO", "Toy-v0", 4) == (run.label, run.task, run.seed)


def test_unknown_columns_are_listed(tmp_path: Path) -> None:
    """Unknown columns are listed as left out."""
    header = f"{HEADER},lenght,state"
    path = write_table(tmp_path / "scores.csv", [("a", "t", 0, 1, 1.0, 5, "completed")], header)
    expected = ("scores.csv, column 'lenght'", "scores.csv, column 'state'")
    assert expected == read_csv(given(path), OPTIONS).left_out


def test_long_cells_and_headers(tmp_path: Path) -> None:
    """The error names the column of a too long cell; a long header line is accepted."""
    path = write_table(tmp_path / "scores.csv", [("a" * 10_000, "t", 0, 1, 1.0)], HEADER)
    with pytest.raises(MalformedError, match="line 2: label has 10,000 characters") as caught:
        read_csv(given(path), OPTIONS)
    assert len(str(caught.value)) < 200
    extra_columns = [f"column_{number}" for number in range(100)]
    row = [*range(100), "a", "t", 0, 1, 1.0]
    path = write_table(tmp_path / "scores.csv", [row], ",".join([*extra_columns, HEADER]))
    assert fits(given(path))
    assert 1 == len(read_csv(given(path), OPTIONS).runs)


def test_the_same_run_in_two_tables_is_refused(tmp_path: Path) -> None:
    """The error names both files if they contain runs with the same label, task and seed."""
    for name in ("one.csv", "two.csv"):
        write_table(tmp_path / name, [("a", "t", 0, 1, 1.0)], HEADER)
    runs = read_csv(given(tmp_path), OPTIONS).runs
    with pytest.raises(ProtocolError, match=r"/one\.csv and .*/two\.csv would both be seed 0"):
        settled(*runs)


def test_files_of_spreadsheets_are_read(tmp_path: Path) -> None:
    """A file with a byte order mark and Windows line ends is read."""
    path = tmp_path / "scores.csv"
    path.write_bytes(b"\xef\xbb\xbfLabel,Task,Seed,Step,Return\r\na,t,0,1e3,1.5\r\n")
    [run] = read_csv(given(path), OPTIONS).runs
    assert 1000 == run.points[0].step


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("", "line 1"),
        (HEADER, "no row"),
        ("label,task,seed,step\na,t,0,1\n", "line 1: there is no column 'return'"),
        ("label,task,step,return\na,t,1,1\n", "line 1: there is no column 'seed'"),
        ("label,task,seed,step,step,return\na,t,0,1,1,1\n", "is repeated"),
        (f"{HEADER}\na,t,0,1\n", "line 2: it has 4 cells"),
        (f"{HEADER}\na,t,0,1,1.0\na,t,0,1,1.0,2\n", "line 3: it has 6 cells"),
        (f"{HEADER}\na,t,0,x,1\n", "line 2: step is 'x'"),
        (f"{HEADER}\na,t,0,-1,1\n", "line 2: step is '-1'"),
        (f"{HEADER}\na,t,0,1.5,1\n", "line 2: step is '1.5'"),
        (f"{HEADER}\na,t,0,nan,1\n", "line 2: step is 'nan'"),
        (f"{HEADER}\na,t,0,inf,1\n", "line 2: step is 'inf'"),
        (f"{HEADER}\na,t,zero,1,1\n", "line 2: seed is 'zero'"),
        (f"{HEADER}\na,t,0,1,high\n", "line 2: return is 'high'"),
        (f"{HEADER}\na,t,0,1,\n", "line 2: return is '', and not a number: write nan there"),
        (f"{HEADER}\n,t,0,1,1\n", "line 2: label is ''"),
        (f"{HEADER}\na,{'t' * 500},0,1,1\n", "line 2: task is"),
        (f"{HEADER}\na\x1b[31m,t,0,1,1\n", "line 2: label is"),
        (f'{HEADER}\n"a,t,0,1,1\n', "line"),
        (f"{HEADER},final\na,t,0,1,1,maybe\n", "line 2: final is 'maybe'"),
        (f"{HEADER}\na,t,0,1,1\n{'b' * 200_000},t,0,1,1\n", "line"),
    ],
)
def test_damaged_tables(tmp_path: Path, text: str, location: str) -> None:
    """The error names the damaged line, and nothing is imported."""
    path = tmp_path / "scores.csv"
    path.write_bytes(text.encode())
    with pytest.raises(MalformedError) as caught:
        read_csv(given(path), OPTIONS)
    assert location in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("read", [read_csv, read_marl_eval])
def test_units_must_be_known(tmp_path: Path, read: Any) -> None:
    """An import without the unit of steps is refused."""
    write_table(tmp_path / "a.csv", [("a", "t", 0, 1, 1)], "label,task,seed,step,return")
    step = {"step_count": 1, "return": [1.0]}
    write_json(tmp_path / "a.json", {"env": {"task": {"a": {"seed_0": {"step_0": step}}}}})
    with pytest.raises(ConfigError, match="--steps-unit environment"):
        read(given(tmp_path), ImportOptions())


def test_units_are_converted(tmp_path: Path) -> None:
    """Frames are divided, and updates are multiplied."""
    path = write_table(tmp_path / "scores.csv", [("a", "t", 0, 100, 1.0)], HEADER)
    frames, updates = StepUnit(name="frames", per=4), StepUnit(name="updates", steps=2048)
    for unit, steps in ((frames, 25), (updates, 204_800)):
        assert steps == read_csv(given(path), ImportOptions(unit=unit)).runs[0].points[0].step


STEP = {"step_count": 1, "return": [1.0]}


@pytest.mark.parametrize(
    ("document", "location"),
    [
        ([], "top: it is []"),
        ({}, "top: it is {}"),
        ({"e": {"t": {"a": {"0": {}}}}}, "key e/t/a/0"),
        ({"e": {"t": {"a": {"0": [1]}}}}, "key e/t/a/0: it is [1]"),
        ({"e": {"t": {"a": {"0": {"step_0": 1}}}}}, "key e/t/a/0/step_0"),
        ({"e": {"t": {"a": {"0": {"s": {"return": [1]}}}}}}, "it has no 'step_count'"),
        ({"e": {"t": {"a": {"0": {"s": {"step_count": 1}}}}}}, "name the metric"),
        (
            {"e": {"t": {"a": {"0": {"s": {"step_count": 1, "x": [1], "y": [2]}}}}}},
            "there are: x, y",
        ),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "return": []}}}}}}, "holds no episode"),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "return": ["high"]}}}}}}, "return is 'high'"),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "return": [True]}}}}}}, "return is True"),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "return": [{}]}}}}}}, "return is {}"),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "step_count": -1}}}}}}, "step_count is -1"),
        ({"e": {"t": {"a": {"0": {"s": {**STEP, "step_count": 10**400}}}}}}, "step_count is 1000"),
        ({"e": {"t": {"a\u0007": {"0": {"s": STEP}}}}}, "algorithm is"),
        ({"e": {"t": {"a": {"0": {"absolute_metrics": STEP}}}}}, "it has no step"),
    ],
)
def test_damaged_json(tmp_path: Path, document: Any, location: str) -> None:
    """The error names the damaged key, and nothing is imported."""
    path = write_json(tmp_path / "scores.json", document)
    with pytest.raises(MalformedError) as caught:
        read_marl_eval(given(path), OPTIONS)
    assert location in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 200_000, '{"e": {"t": 1, "t": 2}}', "\xff", "{}x"]
)
def test_invalid_json(tmp_path: Path, text: str) -> None:
    """Invalid JSON, very deep nesting and repeated keys are refused."""
    path = tmp_path / "scores.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedError, match=r"scores\.json"):
        read_marl_eval(given(path), OPTIONS)


def test_every_cut_of_json(tmp_path: Path) -> None:
    """A JSON file that is cut at any character is refused."""
    path = tmp_path / "scores.json"
    text = json.dumps({"e": {"t": {"a": {"0": {"s": STEP}}}}})
    for count in range(len(text)):
        path.write_text(text[:count])
        with pytest.raises(MalformedError):
            read_marl_eval(given(path), OPTIONS)


def test_another_metric(tmp_path: Path) -> None:
    """The metric option chooses a series by its name; a missing name is refused."""
    step = {"step_count": 1, "win_rate": [0.5], "return": [1.0]}
    path = write_json(tmp_path / "scores.json", {"e": {"t": {"a": {"0": {"s": step}}}}})
    [run] = read_marl_eval(given(path), ImportOptions(unit=ENVIRONMENT, metric="win_rate")).runs
    assert ((0.5,), ReturnKind.EVALUATIONS) == (run.points[0].returns, run.returns)
    with pytest.raises(MalformedError, match="did you mean 'win_rate'"):
        read_marl_eval(given(path), ImportOptions(unit=ENVIRONMENT, metric="win_rat"))
