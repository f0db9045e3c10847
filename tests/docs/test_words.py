"""Every configuration key is documented with its true default."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text()
OF_SWEEPS = (ROOT / "docs" / "reference" / "sweeps.md").read_text()
ROW = re.compile(
    r"^\| `(?P<word>[^`]+)` \| (?P<default>[^|]+) \| (?P<meaning>.+) \|$", re.MULTILINE
)
SOURCES = {
    "config.yaml": "",
    "agent/mlp.yaml": "agent.",
    "environment/gymnasium.yaml": "environment.",
    "executor/local.yaml": "executor.",
    **{f"replay/{path.name}": "replay." for path in (ROOT / "conf" / "replay").glob("*.yaml")},
    "dataset/minari.yaml": "dataset.",
    "report.yaml": "",
}
GROUPS = (
    "agent",
    "algorithm",
    "callback",
    "component",
    "dataset",
    "environment",
    "executor",
    "metric",
    "replay",
    "section",
    "teacher",
)


def leaves(settings: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Every dotted key of a mapping with its value; an empty mapping is a value."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        elif key not in {"defaults", "_target_"}:
            yield f"{prefix}{key}", value


WORDS = {
    word: value
    for name, prefix in SOURCES.items()
    for word, value in leaves(yaml.safe_load((ROOT / "conf" / name).read_text()), prefix)
}
CHOICES = {
    group: choice
    for name in ("config.yaml", "report.yaml")
    for entry in yaml.safe_load((ROOT / "conf" / name).read_text())["defaults"]
    if isinstance(entry, dict)
    for group, choice in entry.items()
    if group in GROUPS
}
ROWS = {match["word"]: match for match in ROW.finditer(PAGE)}


def defaults_of(file: str) -> dict[str, Any]:
    """Every key of a file: the choices of its defaults list, and its settings."""
    content = yaml.safe_load((ROOT / "conf" / file).read_text())
    choices = [entry.items() for entry in content["defaults"] if isinstance(entry, dict)]
    return {**dict(chain.from_iterable(choices)), **dict(leaves(content, ""))}


WORDS_OF_SWEEPS = defaults_of("sweep.yaml")
ROWS_OF_SWEEPS = {match["word"]: match for match in ROW.finditer(OF_SWEEPS)}


@pytest.mark.parametrize("word", [*CHOICES, *WORDS])
def test_every_key_is_explained(word: str) -> None:
    """Each key has a row with its meaning on the page about configuration."""
    assert word in ROWS
    assert len(ROWS[word]["meaning"]) > 10


@pytest.mark.parametrize(("word", "value"), [*CHOICES.items(), *WORDS.items()])
def test_default_is_true(word: str, value: Any) -> None:
    """The default on the page equals that in the YAML file."""
    default = ROWS[word]["default"].strip()
    assert value == ("???" if default == "required" else yaml.safe_load(default.strip("`")))


def test_no_unknown_key_is_explained() -> None:
    """The page explains no key that the configuration does not have."""
    assert set() == ROWS.keys() - {*WORDS, *CHOICES}


@pytest.mark.parametrize(("word", "value"), WORDS_OF_SWEEPS.items())
def test_every_key_of_sweeps_is_explained_with_its_default(word: str, value: Any) -> None:
    """The page about sweeps has a row for each key of `sweep.yaml`."""
    row = ROWS_OF_SWEEPS[word]
    assert value == yaml.safe_load(row["default"].strip().strip("`"))
    assert len(row["meaning"]) > 10


def test_no_unknown_key_of_sweeps_is_explained() -> None:
    """The page about sweeps explains exactly the keys of `sweep.yaml`."""
    assert WORDS_OF_SWEEPS.keys() == ROWS_OF_SWEEPS.keys()


@pytest.mark.parametrize("folder", ["sweeps", "conf/tuner", "conf/pruner"])
def test_definitions_tuners_and_pruners_are_named(folder: str) -> None:
    """Each definition, tuner and pruner is on the page about sweeps."""
    names = {path.stem for path in (ROOT / folder).glob("*.yaml")}
    assert set() == {name for name in names if f"`{name}`" not in OF_SWEEPS}


@pytest.mark.parametrize(
    ("group", "pages"),
    [
        ("algorithm", ["configuration"]),
        ("agent", ["configuration"]),
        (
            "benchmark",
            [
                *("benchmarks", "components", "curricula", "replay", "configuration", "callbacks"),
                "datasets",
            ],
        ),
        ("callback", ["callbacks"]),
        ("component", ["components", "contexts"]),
        ("dataset", ["datasets"]),
        ("environment", ["configuration", "environments", "contexts", "robustness"]),
        ("metric", ["statistics"]),
        ("replay", ["replay"]),
        ("section", ["reports"]),
        ("teacher", ["curricula"]),
    ],
)
def test_every_option_is_named(group: str, pages: list[str]) -> None:
    """Each option of a group is named on a page about it."""
    files = [path for page in pages for path in (ROOT / "docs").glob(f"*/{page}.md")]
    assert len(pages) == len(files)
    text = "".join(path.read_text() for path in files)
    options = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")}
    forms = ("`{}`", f"{group}={{}}")
    assert set() == {
        option for option in options if not any(form.format(option) in text for form in forms)
    }
