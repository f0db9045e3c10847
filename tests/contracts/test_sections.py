"""Properties of every section of a report, with any evidence."""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from ablation_samples import ABLATIONS
from evidence_samples import SAMPLES as OF_RUNS
from evidence_samples import inquiry, reordered, typical
from grid_samples import GRIDS
from hydra import compose, initialize_config_dir
from measured_samples import MEASURED
from members import CONF, member, names
from sweep_samples import SWEEPS, trials_reordered

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ParallelFigure,
    ScatterFigure,
    SectionContent,
    Table,
)
from rlexp.reports.sections import Section

SECTIONS = names("section")
SAMPLES = {**OF_RUNS, **SWEEPS, **GRIDS, **MEASURED, **ABLATIONS}
NUMBERS = (Table, IntervalFigure, LineFigure, Matrix, HeatMap, ScatterFigure, ParallelFigure)


def section(name: str) -> Section:
    """The section that a yaml describes, validated and built as rlexp does it."""
    built_section: Section = member("section", name)
    return built_section


@cache
def context_of(sample: str) -> ReportContext:
    """The report context of a sample, which all sections of a report share."""
    return inquiry(SAMPLES[sample]())


@cache
def reordered_context_of(sample: str) -> ReportContext:
    """The report context of a sample with its runs and trials in another order."""
    seed = len(sample)
    return inquiry(trials_reordered(reordered(SAMPLES[sample](), seed), seed))


@cache
def part(name: str, sample: str) -> SectionContent | None:
    """The content that a section computes from a sample, if there is any."""
    return section(name).part(context_of(sample))


def values(block: Any) -> Iterator[Any]:
    """Every leaf of a block."""
    if isinstance(block, tuple):
        for item in block:
            yield from values(item)
    elif hasattr(block, "__dataclass_fields__"):
        for name in block.__dataclass_fields__:
            yield from values(getattr(block, name))
    else:
        yield block


@pytest.mark.parametrize("name", SECTIONS)
def test_a_yaml_holds_one_section_under_its_own_name(name: str) -> None:
    """The yaml of a section holds one section under its name, and begins with a comment."""
    text = (CONF / "section" / f"{name}.yaml").read_text()
    assert [name] == list(yaml.safe_load(text))
    assert text.startswith("# ")


def test_a_report_has_every_section() -> None:
    """The default report has every section."""
    with initialize_config_dir(str(CONF), version_base=None):
        assert SECTIONS == sorted(compose("report")["section"])


@pytest.mark.parametrize("name", SECTIONS)
def test_a_part_is_named_as_its_yaml(name: str) -> None:
    """The content of a section has the name of its yaml, and a title."""
    samples = ("typical", "swept", "several_objectives", "grid", "grid_tested", "ablated")
    content = next(computed for sample in samples if (computed := part(name, sample)))
    assert content is not None
    assert name == content.name.replace("-", "_")
    assert content.title


def parts(name: str) -> dict[str, SectionContent]:
    """The non-empty results of a section for each sample."""
    return {sample: content for sample in SAMPLES if (content := part(name, sample))}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_part_says_something(name: str) -> None:
    """A section computes no content, or content with blocks."""
    contents = {sample: part(name, sample) for sample in SAMPLES}
    assert [] == [s for s, p in contents.items() if p is not None and not p.blocks]


@pytest.mark.parametrize("name", SECTIONS)
def test_numbers_are_finite_or_missing(name: str) -> None:
    """Content has no NaN and no infinity among its numbers."""
    numbers = [(s, v) for s, p in parts(name).items() for v in values(p.blocks)]
    assert [] == [(s, v) for s, v in numbers if isinstance(v, float) and not math.isfinite(v)]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_order_of_the_runs_does_not_matter(name: str) -> None:
    """The order of runs and trials in the evidence does not change a section."""
    for sample in SAMPLES:
        assert part(name, sample) == section(name).part(reordered_context_of(sample)), sample


@pytest.mark.parametrize("sample", SAMPLES)
def test_names_of_blocks_are_unique_in_a_report(sample: str) -> None:
    """Names of blocks are distinct, because they name files and anchors."""
    contents = [content for name in SECTIONS if (content := part(name, sample))]
    block_names = [
        b.name for content in contents for b in content.blocks if isinstance(b, NUMBERS)
    ]
    assert sorted(set(block_names)) == sorted(block_names)


@pytest.mark.parametrize("name", SECTIONS)
def test_tables_are_rectangular(name: str) -> None:
    """Every row has as many cells as there are columns."""
    blocks = [(sample, b) for sample, p in parts(name).items() for b in p.blocks]
    tables = [(sample, b) for sample, b in blocks if isinstance(b, Table)]
    assert [] == [s for s, t in tables if not {len(t.columns)} >= {len(r) for r in t.rows}]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_seed_decides_every_number(name: str) -> None:
    """Equal evidence and equal seeds give equal content."""
    evidence = typical()
    assert section(name).part(inquiry(evidence, seed=5)) == section(name).part(
        inquiry(evidence, seed=5)
    )
