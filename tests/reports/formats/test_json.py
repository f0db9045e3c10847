"""The report as JSON: all content is preserved."""

import dataclasses
import json
from typing import Any

import pytest
from study_samples import HOSTILE, SAMPLES, hostile, typical

from rlexp.reports.drawing import blocks
from rlexp.reports.formats.as_json import render
from rlexp.stats.interval import Interval

KINDS = {
    member.default: block
    for block in (*blocks.Figure.__args__, *blocks.Block.__args__)
    for member in dataclasses.fields(block)
    if member.name == "kind"
}
OTHERS = (
    blocks.ReportDocument,
    blocks.SectionContent,
    blocks.TableColumn,
    blocks.FigureLine,
    blocks.Axis,
    blocks.IntervalMark,
    blocks.Panel,
    blocks.PointSeries,
    blocks.Coordinate,
    blocks.TrialLine,
    Interval,
)


def _read(study: blocks.ReportDocument) -> Any:
    return json.loads(render(study)["report.json"])


def _from_json(value: Any) -> Any:
    """The blocks of parsed JSON, whose classes follow from their kind or their fields."""
    if isinstance(value, list):
        return tuple(map(_from_json, value))
    if not isinstance(value, dict):
        return value
    kind = KINDS.get(value.get("kind", ""))
    fields = {
        name: _from_json(v) for name, v in value.items() if name not in {"kind", "schema_version"}
    }
    return (kind or _class_with_fields(set(fields)))(**fields)


def _class_with_fields(names: set[str]) -> Any:
    return next(c for c in OTHERS if {f.name for f in dataclasses.fields(c)} == names)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"empty"}))
def test_a_study_comes_back(name: str) -> None:
    """A study that is read from JSON equals the study that was written."""
    study = SAMPLES[name]()
    assert study == _from_json(_read(study))


def test_the_schema_has_a_version() -> None:
    """The JSON begins with its schema version, and has the version of rlexp."""
    content = _read(typical())
    assert "schema_version" == next(iter(content))
    assert (1, "0.1.0") == (content["schema_version"], content["version"])


def test_an_interval_has_all_its_fields() -> None:
    """An interval is written with the fields that are needed to compute it again."""
    table = _read(typical())["parts"][1]["blocks"][0]
    expected = {
        "estimate": 0.9,
        "low": 0.85,
        "high": 0.9500000000000001,
        "level": 0.95,
        "method": "t",
        "repetitions": 50_000,
        "n": 10,
        "tasks": 3,
        "seed": 0,
        "coverage": 0.94,
        "reason": None,
    }
    assert "table" == table["kind"]
    assert expected == table["rows"][0][2]


def test_numbers_are_finite_or_missing() -> None:
    """NaN and infinity, which JSON lacks, are null."""
    content = _read(SAMPLES["empty"]())["parts"][0]["blocks"]
    assert [None, None] == content[1]["lines"][1]["y"]
    assert [[None]] == content[6]["rows"]


def test_a_name_that_is_no_text_survives() -> None:
    """A lone surrogate, as a file name may hold, is escaped."""
    study = dataclasses.replace(typical(), title="a\udc80τ")
    assert "a\udc80τ" == _read(study)["title"]
    assert "τ".encode() in render(study)["report.json"]


def test_hostile_names_are_only_words() -> None:
    """Hostile names are read back unchanged."""
    assert list(HOSTILE) == _read(hostile())["labels"]


def test_floats_keep_every_bit() -> None:
    """A number that has no short form is written in full."""
    table = blocks.Table(
        name="t", title="", columns=(blocks.TableColumn(title="x"),), rows=((0.1 + 0.2,),)
    )
    part = blocks.SectionContent(name="p", title="", blocks=(table,))
    content = render(dataclasses.replace(typical(), parts=(part,)))["report.json"]
    assert b"0.30000000000000004" in content
