"""The page as text: complete, reproducible, and safe against any content of a report."""

import json
import re
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from study_pages import text_of
from study_samples import HOSTILE, LABELS, SAMPLES, typical

from rlexp.reports.drawing.blocks import (
    Callout,
    LineFigure,
    ReportDocument,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    VerbatimText,
)
from rlexp.reports.page.html import plain_json, render_html

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Outline(HTMLParser):
    """A parsed page: elements with their attributes, and texts by element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def attributes(self, name: str) -> list[str]:
        """Every value of the attribute with this name."""
        return [a[name] or "" for _, a in self.elements if name in a]


@cache
def outline(name: str) -> Outline:
    """The outline of a sample's page."""
    return Outline(text_of(name))


@pytest.mark.parametrize("name", ["typical", "hostile", "empty", "hostile_sweep"])
def test_the_same_study_gives_the_same_page(name: str) -> None:
    """Two renderings of one report are equal byte for byte."""
    assert text_of(name) == render_html(SAMPLES[name]())


@pytest.mark.parametrize("name", SAMPLES)
def test_every_element_is_closed(name: str) -> None:
    """Every element is closed in order, for any content of a report."""
    assert [] == outline(name).open


@pytest.mark.parametrize("name", SAMPLES)
def test_names_of_places_are_unique(name: str) -> None:
    """Ids of elements are unique, so that each link has one target."""
    places = Counter(outline(name).attributes("id"))
    assert [] == [place for place, times in places.items() if times > 1]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_link_has_its_target(name: str) -> None:
    """Every link of the contents and of the text leads to an existing id."""
    page = outline(name)
    links = {href[1:] for href in page.attributes("href") if href.startswith("#")}
    labels = set(page.attributes("aria-labelledby"))
    assert set() == (links | labels) - set(page.attributes("id"))


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    """The page has no external address, image, event handler or style attribute."""
    page = outline(name)
    assert {"data:,"} == {h for h in page.attributes("href") if not h.startswith("#")}
    assert [] == page.attributes("src")
    names = {key for _, attributes in page.elements for key in attributes}
    assert set() == {key for key in names if key.startswith("on") or key == "style"}
    assert {"script": 2, "style": 1} == {
        tag: n
        for tag, n in Counter(tag for tag, _ in page.elements).items()
        if tag in {"script", "style", "img", "iframe", "object"}
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_the_policy_lets_in_what_is_there(name: str) -> None:
    """The policy allows the page's style and script by hash, and nothing else."""
    page = outline(name)
    (policy,) = (a["content"] or "" for tag, a in page.elements if "http-equiv" in a)
    (style,), (_, script) = page.texts["style"], page.texts["script"]
    for text in (style, script):
        assert f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert not re.search("unsafe|http|[*]", policy)


def test_hostile_names_are_words() -> None:
    """Hostile names are shown as text, never read as markup or template code."""
    page = outline("hostile")
    visible_texts = {text for texts in page.texts.values() for text in texts}
    assert set(HOSTILE) <= visible_texts
    assert "alert(1)" not in visible_texts
    assert "49" not in visible_texts


@cache
def outline_of_a_letter() -> Outline:
    """The outline of a page whose texts are one letter."""
    return Outline(page_with_text("x"))


def page_with_text(text: str) -> str:
    """A page with this text in every place for a text."""
    table = Table(
        name="t", title=text, columns=(TableColumn(title=text),) * 2, rows=((text,) * 2,)
    )
    blocks = (
        Text(text=text),
        Callout(tone=Tone.NOTE, text=text),
        VerbatimText(name="l", title=text, text=text),
        table,
    )
    part = SectionContent(name="part", title=f"{text}.", blocks=blocks)
    return render_html(
        ReportDocument(
            title=text,
            subtitle=text,
            labels=(text,),
            parts=(part,),
            version="0.1.0",
            failed_checks=(text,),
        )
    )


@settings(max_examples=300 if IN_FULL else 12)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("</style></script><!--")
@example("{{ 7 * 7 }}")
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """Every kind of block shows any text unchanged and creates no other element."""
    letter_page, page = outline_of_a_letter(), Outline(page_with_text(text))
    assert [tag for tag, _ in letter_page.elements] == [tag for tag, _ in page.elements]
    for tag in ("h1", "h3", "li", "td", "th", "code", "bdi", "p"):
        assert text in "".join(page.texts[tag])


def test_a_name_that_is_no_text_can_be_written() -> None:
    """A lone surrogate in a file name becomes a question mark."""
    assert b"run ?" in page_with_text("run \udcff").encode()


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | inner))
def test_numbers_cannot_leave_their_element(data: Any) -> None:
    """The data cannot close its script element, and is parsed unchanged."""
    text = plain_json(data)
    assert not set("<>&") & set(text)
    assert data == json.loads(text)


def test_a_number_that_is_none_is_refused_as_data() -> None:
    """NaN raises an error as data, because JSON has no NaN."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        plain_json(float("nan"))


def test_every_block_is_on_the_page() -> None:
    """Each figure, table and listing is on the page, in the order of the report."""
    parts = typical().parts
    expected = [
        f"{'listing' if isinstance(b, VerbatimText) else 'table' if isinstance(b, Table) else 'figure'}"
        f"-{b.name}"
        for part in parts
        for b in part.blocks
        if not isinstance(b, Text | Callout)
    ]
    ids = outline("typical").attributes("id")
    assert expected == [p for p in ids if p.startswith(("figure-", "table-", "listing-"))]
    assert [part.name for part in parts] == [p for p in ids if p in {q.name for q in parts}]


def test_folded_parts_are_folded() -> None:
    """A section is folded only if the report marks it as folded."""
    kinds = [tag for tag, _ in outline("typical").elements]
    assert sum(part.folded for part in typical().parts) == kinds.count("details")


def test_tables_say_which_cells_are_heads() -> None:
    """Header cells have a scope of column or row."""
    page = outline("typical")
    heads = [attributes.get("scope") for tag, attributes in page.elements if tag == "th"]
    assert {"col", "row"} == set(heads)


def test_a_missing_value_is_a_dash() -> None:
    """A missing value is shown as a dash, never as zero or None."""
    cells = outline("typical").texts["td"]
    assert "—" in cells
    assert not {"None", "nan", "True", "False"} & set(cells)


def test_failed_checks_come_first() -> None:
    """Failed checks are listed before every section."""
    page = render_html(replace(typical(), failed_checks=("2 runs are missing",)))
    assert page.index("2 runs are missing") < page.index('<section class="part"')
    assert "Checks that failed" not in text_of("typical")


def test_figures_of_one_kind_share_a_legend() -> None:
    """Each label is in the page's legend once, and once beside each group of curves."""
    buttons = outline("typical").attributes("data-label")
    groups = 2
    assert Counter({str(k): 1 + groups for k in range(len(LABELS))}) == Counter(buttons)


def test_a_shared_note_is_said_once() -> None:
    """A shared note stands below the group; different notes stay with their figures."""
    study = typical()
    curves = next(part for part in study.parts if part.name == "curves")
    note = next(block.note for block in curves.blocks if isinstance(block, LineFigure))
    assert 1 == text_of("typical").count(note)
    (first, *others) = curves.blocks
    assert isinstance(first, LineFigure)
    changed_part = replace(curves, blocks=(replace(first, note="another"), *others))
    page = render_html(replace(study, parts=(changed_part,)))
    assert (1, len(others)) == (page.count("another"), page.count(note))


def test_a_large_study_stays_light() -> None:
    """A hundred runs of three labels on three tasks take less than a megabyte."""
    assert len(text_of("many_runs").encode()) < 1_000_000
