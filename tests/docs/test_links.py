"""Every link, anchor and path in the documentation has a target."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "sweeps/*.md", "runs/README.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
NAMED = re.compile(r"`((?:rlexp|tests|docs|\.ci)/[\w./-]+)`")


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCED.sub("", page.read_text())


def slug(heading: str) -> str:
    """The anchor of a heading."""
    without_punctuation = re.sub(r"[^\w\- ]", "", heading.lower())
    return without_punctuation.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Every anchor of a page."""
    return {slug(heading) for heading in HEADING.findall(prose(page))}


def broken(page: Path, text: str) -> list[str]:
    """The links of a page's text without a target."""
    missing = []
    for target in (match["target"] for match in LINK.finditer(text)):
        location, _, anchor = target.partition("#")
        if "://" in location or location.startswith("mailto:"):
            continue
        file = (page.parent / location).resolve() if location else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            missing.append(target)
    return missing


def test_there_are_pages() -> None:
    """The checked pages include those that a newcomer reads first."""
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    expected = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/reference/configuration.md"}
    assert set() == expected - names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    """Every relative link has a file, and every anchor has a heading."""
    assert [] == broken(page, prose(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    """Each file of the repository that a page names exists."""
    missing = [name for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()]
    assert [] == missing


def test_broken_links_are_found(tmp_path: Path) -> None:
    """The check itself finds a missing file and a missing anchor."""
    page = tmp_path / "page.md"
    page.write_text("# One: a heading\n")
    text = "[a](#one-a-heading) [b](#two) [c](page.md#two) [d](gone.md) [e](https://x.org/gone)"
    assert ["#two", "page.md#two", "gone.md"] == broken(page, text)
