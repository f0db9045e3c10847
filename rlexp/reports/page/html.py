"""A study as one HTML page: styles, script and numbers are in it, and nothing is fetched."""

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.reports.characters import TURNING
from rlexp.reports.drawing.blocks import HeatMap, Study
from rlexp.reports.drawing.palette import (
    DARK,
    DASHES,
    LIGHT,
    RISING_DARK,
    RISING_LIGHT,
    styles,
)
from rlexp.reports.page.layout import numbers, sections
from rlexp.reports.page.matrix import SHADES
from rlexp.reports.page.shapes import PATHS

HERE = Path(__file__).parent
CSS = ("style.css", "points.css", "print.css")
SCRIPTS = ("ticks.js", "tips.js", "plots.js", "parallel.js", "script.js")
"""In the order in which each builds on those before it."""


def render_html(study: Study) -> str:
    """Write a study as a page that opens from disk, reads on any width, and prints.

    The same study gives the same text, which UTF-8 can hold. Everything in it is escaped, and the page's own policy
    lets no script run but ours.
    """
    looks = styles(study)
    drawn = sections(study, looks)
    css = "\n".join((_label_colours(), *map(_file, _sheets(study))))
    script = "\n".join(map(_file, SCRIPTS))
    page: str = _template().render(
        study=study,
        sections=drawn,
        styles=looks,
        dotted=frozenset(n for n, s in looks.items() if s.shape and n not in study.labels),
        shapes=PATHS,
        css=css,
        script=script,
        numbers=plain_json(numbers(drawn, looks)),
        policy=policy(css, script),
    )
    return (
        page.translate(dict.fromkeys(map(ord, TURNING), "�")).encode("utf-8", "replace").decode()
    )


def _sheets(study: Study) -> tuple[str, ...]:
    """Styles that every page needs, and those of heat maps where there is one."""
    blocks = (block for part in study.parts for block in part.blocks)
    return (*CSS, "heat_map.css") if any(isinstance(b, HeatMap) for b in blocks) else CSS


def plain_json(data: Any) -> str:
    """JSON that cannot end the element which it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(css: str, script: str) -> str:
    """The content security policy: this style, this script, and nothing from anywhere."""
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


@cache
def _template() -> Any:
    """The page's template; to compile it takes longer than to render most pages."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pieces"] = pieces
    return environment.get_template("page.jinja")


def pieces(name: str) -> list[str]:
    """A name in pieces between which a line may break: after dots, slashes and underscores."""
    return re.findall(r"[^._/]+[._/]*|[._/]+", name)


def _label_colours() -> str:
    hues = (
        f".{kind}{k}{{--hue:light-dark({light},{dark})}}"
        for kind, lights, darks in (("c", LIGHT, DARK), ("v", RISING_LIGHT, RISING_DARK))
        for k, (light, dark) in enumerate(zip(lights, darks, strict=True))
    )
    dashes = (f".d{k}{{--dash:{' '.join(map(str, d)) or 'none'}}}" for k, d in enumerate(DASHES))
    shades = (
        f".q{s}{{--shade:color-mix(in oklab,var(--{'above' if s > 0 else 'below'}) "
        f"{round(55 * abs(s) / SHADES)}%,var(--surface))}}"
        for s in range(-SHADES, SHADES + 1)
    )
    return "\n".join((*hues, *dashes, *shades))
