"""Builds the documentation site into build/documentation: `make docs`.

The pages of `docs/` and some pages beside it are copied into one folder, with the links between them
adapted. Pages about commands, settings and Python are generated into the same folder. Then Sphinx builds
the site, and every warning, such as a link without a target, is an error. The site loads nothing from
other servers. The gallery links to those pages of reports that `make gallery` has built.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from reference_pages import reference_pages

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "documentation"
SOURCE = BUILD / "source"
SITE = BUILD / "html"
BESIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "AGENTS.md": "project/agents.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "README.md": "project/readme.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "sweeps/README.md": "project/sweeps.md",
    "runs/README.md": "project/runs.md",
}
"""Pages outside `docs/` and their paths in the site."""
GALLERY = ROOT / "build" / "gallery"
"""The pages of reports that `make gallery` builds."""
SHOWN_PAGE = re.compile(
    r'^  <img alt="[^"]*" src="[^"]*pictures/gallery/(?P<name>\w+)-light\.png">\n</picture>$',
    re.MULTILINE,
)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
ROW = re.compile(r"^- \[(?P<text>.+)\]\((?P<target>\S+)\)(?P<about>.*)$", re.MULTILINE)
PICTURE = re.compile(r'(?P<attribute>\bsrc(?:set)?)="(?P<target>[^":]+)"')
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
LOADED = re.compile(
    r"<(?:script|img|source|iframe)\b[^>]*\bsrc=\"(?:https?:)?//[^\"]*"
    r"|<link\b(?=[^>]*rel=\"(?:stylesheet|preload|icon)\")[^>]*href=\"(?:https?:)?//[^\"]*"
)
"""What a browser would load from another server."""


FOR_PROGRAMS = """\
Every command takes `--json` and then writes one document of a versioned schema, also for an error, which names
the allowed values and the next command; `rlexp config schema` lists the schemas. `rlexp config search WORD` finds the
names of settings and options. While trying, use `rlexp run phase=tuning`: configurations whose test scores are seen are counted.
The same command again continues what was interrupted. `rlexp init --agents` writes these rules and the exit codes
into the file AGENTS.md of a workspace, and `rlexp mcp` serves a workspace by the Model Context Protocol."""
"""What a program needs before it reads any page, with commands that a test checks."""


def pages() -> dict[str, str]:
    """The path in the site of each page, by its path in the repository."""
    inside = sorted((ROOT / "docs").rglob("*.md"))
    return {str(p.relative_to(ROOT)): str(p.relative_to(ROOT / "docs")) for p in inside} | BESIDE


def adapted(text: str, origin: str, paths: dict[str, str]) -> str:
    """A page's text with links and pictures for the site; of a link to code, only the text remains.

    Args:
        text: The text of the page.
        origin: The page's path in the repository.
        paths: The path in the site of each page, by its path in the repository.
    """

    def link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(Path(origin).parent / target)
        if path in paths:
            relative = os.path.relpath(paths[path], Path(paths[origin]).parent)
            return f"[{match['text']}]({relative}{anchor})"
        if path.startswith("docs/") or not (ROOT / path).exists():
            return match[0]
        return match["text"]

    def picture(match: re.Match[str]) -> str:
        path = os.path.normpath(Path(origin).parent / match["target"])
        here = Path(paths[origin]).parent
        return f'{match["attribute"]}="{os.path.relpath(path, "docs" / here)}"'

    parts = FENCED.split(text)
    return "".join(
        p if p.startswith("```") else PICTURE.sub(picture, LINK.sub(link, p)) for p in parts
    )


def with_built_pages(text: str, built: Path) -> str:
    """The page of the gallery with a link below each picture whose page is built.

    Args:
        text: The text of the gallery.
        built: The folder of the built pages, which the site has as `gallery/`.
    """

    def link(match: re.Match[str]) -> str:
        file = f"{match['name']}.html"
        if not (built / file).exists():
            return match[0]
        return f'{match[0]}\n\n<a href="gallery/{file}">Open the page</a>'

    return SHOWN_PAGE.sub(link, text)


def contents(index: str, generated: dict[str, str]) -> str:
    """Hidden tables of contents: one for each section of the index, with the pages it links to."""
    tables = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        caption = section.partition("\n")[0]
        names = [m["target"] for m in LINK.finditer(section) if m["target"].endswith(".md")]
        if caption == "Reference":
            names += [name for name in generated if name not in names]
        if names:
            lines = "\n".join(name.removesuffix(".md") for name in dict.fromkeys(names))
            tables.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n")
    return "\n".join(tables)


def llms_txt(index: str, generated: dict[str, str]) -> Iterator[str]:
    """The file `llms.txt`: each page of the index with its Markdown source, for programs that read.

    Source: https://llmstxt.org
    """
    top, _, rest = index.partition("\n## ")
    title, summary, *_ = top.split("\n\n")
    yield f"{title}\n\n> {' '.join(summary.split())}\n\n{FOR_PROGRAMS}"
    for section in rest.split("\n## "):
        caption = section.partition("\n")[0]
        rows = [(m["text"], m["target"], m["about"]) for m in ROW.finditer(section)]
        if caption == "Reference":
            rows += [
                (text.partition("\n")[0].strip("# "), name, "") for name, text in generated.items()
            ]
        yield f"\n\n## {caption}\n"
        for text, target, about in rows:
            if target.endswith(".md"):
                yield f"\n- [{text}](_sources/{target}.txt){about}"
    yield "\n"


def write_sources() -> None:
    """Write every page of the site into the folder from which Sphinx builds."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    paths = pages()
    for origin, path in paths.items():
        target = SOURCE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(adapted((ROOT / origin).read_text(), origin, paths))
    gallery = SOURCE / "gallery.md"
    gallery.write_text(with_built_pages(gallery.read_text(), GALLERY))
    generated = reference_pages()
    for name, text in generated.items():
        (SOURCE / name).write_text(text)
    index = (SOURCE / "index.md").read_text()
    (SOURCE / "index.md").write_text(f"{index}\n{contents(index, generated)}")
    (BUILD / "llms.txt").write_text("".join(llms_txt(index, generated)))


def remote_files(site: Path) -> list[str]:
    """What the pages of a site load from other servers."""
    return [
        f"{page.relative_to(site)}: {match[0]}"
        for page in sorted(site.rglob("*.html"))
        for match in LOADED.finditer(page.read_text())
    ]


def main() -> int:
    """Build the site; returns the exit code of Sphinx, or 1 if the site loads something remote."""
    write_sources()
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto"]
    code = subprocess.call([*command, "-c", str(ROOT / ".ci" / "site"), str(SOURCE), str(SITE)])
    if code:
        return code
    shutil.copy(BUILD / "llms.txt", SITE / "llms.txt")
    # Sphinx does not see the pictures of HTML.
    shutil.copytree(ROOT / "docs" / "pictures", SITE / "pictures", dirs_exist_ok=True)
    if GALLERY.exists():
        shutil.copytree(GALLERY, SITE / "gallery", dirs_exist_ok=True)
    else:
        print("The gallery links to no pages yet; to build them: make gallery")
    if remote := remote_files(SITE):
        print("The site loads files of other servers:", *remote, sep="\n", file=sys.stderr)
        return 1
    print(f"Documentation: {(SITE / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
