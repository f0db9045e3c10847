"""Tables and figures as CSV: standard, complete, and inert in a spreadsheet."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_blocks import impossible, interval
from study_samples import SAMPLES, one_run, typical

from rlexp.reports.drawing.blocks import (
    Axis,
    Coordinate,
    Figure,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    LineFigure,
    Matrix,
    Panel,
    ParallelFigure,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
    Table,
    TableColumn,
    TrialLine,
)
from rlexp.reports.formats.as_csv import EXECUTED, render

INTERVAL = "estimate,low,high,level,method,repetitions,n,tasks,seed,coverage,reason,digits,sizes,runs,rliable"


def _file(block: Table | Figure) -> str:
    part = SectionContent(name="p", title="", blocks=(block,))
    study = ReportDocument(title="", subtitle="", labels=(), parts=(part,), version="0")
    (content,) = render(study).values()
    return content.decode()


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_a_table_is_written_in_full() -> None:
    """Rows end in CRLF, texts with commas or quotes are quoted, missing values are empty."""
    rows = (("a,b", 1, 0.1 + 0.2, True), ('say "x"', None, float("nan"), False))
    columns = tuple(TableColumn(title=title) for title in ("label", "runs", "score", "done"))
    expected = (
        'label,runs,score,done\r\n"a,b",1,0.30000000000000004,true\r\n"say ""x""",,nan,false\r\n'
    )
    assert expected == _file(Table(name="t", title="", columns=columns, rows=rows))


def test_an_interval_takes_fifteen_columns() -> None:
    """A column with an interval becomes fifteen columns, and other values are estimates."""
    table = Table(
        name="t",
        title="",
        columns=(TableColumn(title="label"), TableColumn(title="IQM")),
        rows=(("ppo", interval(1.0, 0.5)), ("a2c", impossible(2.0)), ("dqn", 3.0), ("x", None)),
    )
    expected = (
        "label," + ",".join(f"IQM {name}" for name in INTERVAL.split(",")) + "\r\n"
        "ppo,1.0,0.5,1.5,0.95,t,50000,10,3,0,0.94,,,,,\r\n"
        "a2c,2.0,,,0.95,t,0,1,1,,,one run has no spread; a second seed would give an interval,,,,\r\n"
        "dqn,3.0,,,,,,,,,,,,,,\r\n"
        "x,,,,,,,,,,,,,,,\r\n"
    )
    assert expected == _file(table)


def test_lines_are_written_point_by_point() -> None:
    """There is one row for each point of each line, and then one for each mark."""
    figure = LineFigure(
        name="f",
        title="",
        x=Axis(title="steps"),
        y=Axis(title="return"),
        lines=(
            FigureLine(
                label="ppo", x=(0.0, 1.0), y=(2.0, None), low=(1.0, None), high=(3.0, None)
            ),
            FigureLine(label="ppo", x=(0.0,), y=(2.5,), faint=True),
        ),
        marks=(("solved", 9.0),),
    )
    expected = (
        "kind,label,line,x,y,low,high\r\n"
        "aggregate,ppo,0,0.0,2.0,1.0,3.0\r\n"
        "aggregate,ppo,0,1.0,,,\r\n"
        "run,ppo,1,0.0,2.5,,\r\n"
        "mark,solved,,,9.0,,\r\n"
    )
    assert expected == _file(figure)


def test_panels_are_written_with_their_runs() -> None:
    """There is one row for each interval, each run and each marked value."""
    mark = IntervalMark(label="ppo", interval=interval(1.0, 0.5), dots=(0.75,))
    panel = Panel(title="IQM", axis=Axis(title=""), marks=(mark,), marked=(("solved", 2.0),))
    expected = (
        f"kind,panel,label,{INTERVAL}\r\n"
        "interval,IQM,ppo,1.0,0.5,1.5,0.95,t,50000,10,3,0,0.94,,,,,\r\n"
        "run,IQM,ppo,0.75,,,,,,,,,,,,,,\r\n"
        "mark,IQM,solved,2.0,,,,,,,,,,,,,,\r\n"
    )
    assert expected == _file(IntervalFigure(name="f", title="", panels=(panel,)))


def test_a_matrix_is_written_pair_by_pair() -> None:
    """There is one row for each pair with a value."""
    matrix = Matrix(
        name="f", title="", labels=("a", "b"), values=((None, interval(1.0, 0.5)), (None, None))
    )
    expected = f"row,column,{INTERVAL}\r\na,b,1.0,0.5,1.5,0.95,t,50000,10,3,0,0.94,,,,,\r\n"
    assert expected == _file(matrix)


def test_points_are_written_one_by_one() -> None:
    """There is one row for each named point, then lines and marks; ticks have their names."""
    figure = ScatterFigure(
        name="f",
        title="",
        x=Axis(title="activation"),
        y=Axis(title="return"),
        clouds=(PointSeries(label="pruned", x=(0.0, 5.0), y=(2.0, 0.1), names=("trial 1", "=2")),),
        lines=(FigureLine(label="best", x=(1.0,), y=(2.5,)),),
        marks=(("solved", 9.0),),
        ticks=("tanh", "relu"),
    )
    expected = (
        "kind,label,name,x,y,low,high\r\n"
        "point,pruned,trial 1,tanh,2.0,,\r\n"
        "point,pruned,'=2,5.0,0.1,,\r\n"
        "line,best,,relu,2.5,,\r\n"
        "mark,solved,,,9.0,,\r\n"
    )
    assert expected == _file(figure)
    assert "point,pruned,trial 1,0.0,2.0" in _file(replace(figure, ticks=()))


def test_trials_are_written_one_by_one() -> None:
    """There is one column for each coordinate; choices are written as names."""
    figure = ParallelFigure(
        name="f",
        title="",
        coordinates=(Coordinate(title="rate"), Coordinate(title="choice", names=("a", "b"))),
        threads=(
            TrialLine(name="trial 0", values=(0.1 + 0.2, 1.0), value=7.0, marked=True),
            TrialLine(name="trial 1", values=(None, None), value=None),
        ),
        colour=Axis(title="return"),
    )
    expected = (
        "name,marked,return,rate,choice\r\n"
        "trial 0,true,7.0,0.30000000000000004,b\r\n"
        "trial 1,false,,,\r\n"
    )
    assert expected == _file(figure)


def test_each_block_has_its_file() -> None:
    """Each table and figure has a file of its name."""
    expected = {"aggregates", "aggregates-figure", "curves-0", "curves-1", "curves-2"}
    expected |= {"profiles", "improvement", "checklist"}
    assert {f"{name}.csv" for name in expected} == set(render(typical()))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_row_is_as_wide_as_its_header(name: str) -> None:
    """Every row has as many cells as its header."""
    for content in render(SAMPLES[name]()).values():
        rows = _cells(content.decode())
        assert {len(rows[0])} == {len(row) for row in rows}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"])
def test_a_formula_is_inert(text: str) -> None:
    """A formula in a title or a cell gets an apostrophe, so that it is not executed."""
    table = Table(name="t", title="", columns=(TableColumn(title=text),), rows=((text,),))
    assert [[f"'{text}"], [f"'{text}"]] == _cells(_file(table))


def test_a_negative_number_stays_one() -> None:
    """A negative number gets no apostrophe."""
    table = Table(name="t", title="", columns=(TableColumn(title="x"),), rows=((-1.5,), (-2,)))
    assert "x\r\n-1.5\r\n-2\r\n" == _file(table)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(text: str) -> None:
    """A cell contains the text, with an apostrophe before a formula."""
    columns = (TableColumn(title="x"), TableColumn(title="y"))
    table = Table(name="t", title="", columns=columns, rows=((text, 1),))
    cell = _cells(_file(table))[1][0]
    assert cell == (f"'{text}" if text.startswith(EXECUTED) else text)
    assert not cell.startswith(EXECUTED)


def test_a_single_run_says_why_it_has_no_interval() -> None:
    """The column `reason` explains the missing interval."""
    rows = _cells(render(one_run())["aggregates-figure.csv"].decode())
    assert "one run has no spread; a second seed would give an interval" == rows[1][-5]
