"""Names of files that come from freely chosen names of blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.reports.drawing.blocks import ReportDocument, SectionContent, Table, Text
from rlexp.reports.drawing.file_names import drawn_blocks, file_stems


def _study(*names: str) -> ReportDocument:
    tables = tuple(Table(name=name, title="", columns=(), rows=()) for name in names)
    part = SectionContent(name="p", title="", blocks=(Text(text="words"), *tables))
    return ReportDocument(title="", subtitle="", labels=(), parts=(part,), version="0")


def test_plain_names_stay() -> None:
    """A plain name is its own file name."""
    assert {"curves-0": "curves-0", "a.b_c": "a.b_c"} == file_stems(_study("curves-0", "a.b_c"))


def test_hostile_names_stay_in_the_folder() -> None:
    """Slashes, leading dots and device names give harmless file names."""
    names = ("../../etc/passwd", "ALE/Pong-v5", ".hidden", "CON", "report", "…", "-rf")
    expected = ["etc-passwd", "ALE-Pong-v5", "hidden", "CON-2", "report-2", "unnamed", "rf"]
    assert expected == list(file_stems(_study(*names)).values())


def test_names_that_differ_in_case_differ_in_more() -> None:
    """Names that would give the same file name, ignoring case, get a number."""
    assert {"a": "a", "A": "A-2", "a!": "a-3"} == file_stems(_study("a", "A", "a!"))


def test_equal_names_are_refused() -> None:
    """Two blocks with one name raise an error."""
    with pytest.raises(ValueError, match="two blocks are named 'a'"):
        file_stems(_study("a", "a"))


def test_words_have_no_file() -> None:
    """Only tables and figures have a file."""
    assert ["a"] == [block.name for block in drawn_blocks(_study("a"))]


@given(names=st.lists(st.text(), unique=True))
def test_every_name_has_a_file_of_its_own(names: list[str]) -> None:
    """Different names give different file names, also if case is ignored."""
    stems = [stem.lower() for stem in file_stems(_study(*names)).values()]
    assert len(names) == len(set(stems))
    assert all(set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") for stem in stems)
    assert not [stem for stem in stems if stem.startswith((".", "-")) or len(stem) > 70]
