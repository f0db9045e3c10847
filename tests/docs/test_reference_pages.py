"""The generated pages of the documentation site name every command, setting and bound."""

from pathlib import Path

import pytest
from documentation import LOADED, adapted, contents, llms_txt, pages, with_built_pages
from gallery import PAGE, PICTURES, entries
from reference_pages import commands_page, settings_page


def test_every_command_is_on_the_page() -> None:
    """Each command and subcommand has a section, and its options have their help."""
    text = "".join(commands_page())
    for heading in ("## rlexp run\n", "## rlexp import\n", "## rlexp config show\n"):
        assert heading in text
    assert "`--dry-run`" in text.partition("## rlexp run\n")[2].partition("\n## ")[0]


def test_settings_have_type_bounds_and_meaning() -> None:
    """A setting of an algorithm has the type and bounds of the dataclass that receives it."""
    rows = "".join(settings_page()).splitlines()
    (row,) = [r for r in rows if r.startswith("| `algorithm.gamma` |")]
    assert "float" in row
    assert "at most 1" in row
    (row,) = [r for r in rows if r.startswith("| `budget.score` |")]
    assert "last_window" in row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../SECURITY.md#x)", "[a](project/security.md#x)"),
        ("[a](../rlexp/api.py)", "a"),
        ("[a](nowhere.md)", "[a](nowhere.md)"),
        ("[a](https://hydra.cc)", "[a](https://hydra.cc)"),
        ("```text\n[a](../rlexp/api.py)\n```", "```text\n[a](../rlexp/api.py)\n```"),
    ],
)
def test_links_are_adapted_to_the_site(text: str, expected: str) -> None:
    """Links to pages lead to the site, links to code become text, and broken links stay broken."""
    assert expected == adapted(text, "docs/index.md", pages())


def test_the_menu_and_llms_txt_come_from_the_index() -> None:
    """Each section of the index is a table of contents, and a list in llms.txt with Markdown."""
    index = "# a\n\nAbout\nit.\n\n## Guides\n\n- [One](guides/one.md): all of it.\n\n## Reference\n\nText.\n"
    generated = {"reference/commands.md": "# Commands\n"}
    assert ":caption: Guides\n\nguides/one\n" in contents(index, generated)
    assert "reference/commands\n" in contents(index, generated)
    text = "".join(llms_txt(index, generated))
    assert text.startswith("# a\n\n> About it.\n\nEvery command takes `--json`")
    assert "\n\n## Guides\n\n- [One](_sources/guides/one.md.txt): all of it." in text
    assert "- [Commands](_sources/reference/commands.md.txt)" in text


def test_pictures_are_adapted_to_the_site() -> None:
    """A picture in HTML is found from the folder that its page has in the site."""
    shown = '<img src="docs/pictures/a.png">'
    assert '<img src="../pictures/a.png">' == adapted(shown, "README.md", pages())


def test_the_gallery_links_to_the_pages_that_are_built(tmp_path: Path) -> None:
    """Below a picture stands a link to its page, but only if the page is built."""
    (tmp_path / "decided.html").touch()
    rows = [
        f'<picture>\n  <img alt="a" src="pictures/gallery/{name}-light.png">\n</picture>\n'
        for name in ("decided", "sweep")
    ]
    text = with_built_pages("".join(rows), tmp_path)
    assert '<a href="gallery/decided.html">' in text
    assert "sweep.html" not in text


def test_every_section_of_the_gallery_has_a_picture_and_commands() -> None:
    """The gallery has six entries, each with commands that write a page, and small pictures, light and dark."""
    found = list(entries())
    assert PAGE.read_text().count("\n## ") == len(found) == 6
    assert all("rlexp report" in e.commands or "rlexp demo" in e.commands for e in found)
    sizes = {path.stem: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert {f"{e.name}-{scheme}" for e in found for scheme in ("light", "dark")} == set(sizes)
    assert max(sizes.values()) < 60_000


def test_files_of_other_servers_are_noticed() -> None:
    """Scripts, pictures and styles of other servers are noticed; ordinary links are not."""
    assert LOADED.search('<script src="https://unpkg.com/x.js">')
    assert LOADED.search('<link rel="stylesheet" href="//fonts.example/x.css">')
    assert not LOADED.search('<a href="https://hydra.cc">')
