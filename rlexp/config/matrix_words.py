"""The words of a command that name matrices, put in terms of their cells."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.config.matrix import Cell, matrix_file, read_matrix, select, under
from rlexp.config.words import choice_texts, parse_words
from rlexp.errors import ConfigError

GROUP = "benchmark"
SELECTING = ("algorithm", "environment")
"""Groups by which a command narrows a matrix, instead of replacing what its cells choose."""


def expand(words: Sequence[str], folder: Path) -> list[Cell]:
    """The cells that words lead to: one for each of a matrix, else one of just these words.

    Args:
        words: Of a command, in Hydra's override grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: A word cannot be parsed; a matrix is wrong, or is narrowed to nothing.
    """
    parsed = parse_words(words)
    named = [p for p in parsed if p.key_or_group == GROUP and p.is_add()]
    names = {name: matrix_file(name, folder) for name in _names(named)}
    if not any(names.values()):
        return [Cell(tuple(words))]
    if len(named) > 1 or isinstance(named[0].value(), list):
        raise ConfigError(f"several matrices are a choice: +{GROUP}={','.join(names)}")
    rest = [(w, p) for w, p in zip(words, parsed, strict=True) if p is not named[0]]
    every = [c for name, path in names.items() if path for c in read_matrix(name, path, folder)]
    kept = [(w, p) for w, p in rest if not _selects(p)]
    cells = under(
        select(every, _wanted(rest)), [w for w, _ in kept], [p.key_or_group for _, p in kept]
    )
    return [
        cell
        for name, path in names.items()
        for cell in ([c for c in cells if c.matrix == name] if path else [_plain(name, rest)])
    ]


def as_one_cell(words: Sequence[str], folder: Path) -> list[str]:
    """The words of a sweep, which starts from one configuration.

    Raises:
        ConfigError: They lead to several cells of a matrix.
    """
    cells = expand(words, folder)
    if len(cells) > 1:
        raise ConfigError(
            f"a sweep tunes one configuration, and {GROUP}={cells[0].matrix} has {len(cells)} "
            "cells left: choose one with algorithm=… environment=…",
        )
    return list(cells[0].words)


def _plain(name: str, rest: Iterable[tuple[str, Any]]) -> Cell:
    """What is no matrix stands beside one as it is."""
    return Cell((f"+{GROUP}={name}", *(word for word, _ in rest)), ((GROUP, name),))


def _selects(parsed: Any) -> bool:
    changed = not (parsed.is_add() or parsed.is_force_add() or parsed.is_delete())
    return changed and parsed.key_or_group in SELECTING


def _wanted(rest: Iterable[tuple[str, Any]]) -> Mapping[str, list[str]]:
    """Options of algorithms and environments that the command names."""
    return {p.key_or_group: _texts(word, p) for word, p in rest if _selects(p)}


def _names(named: Iterable[Any]) -> list[str]:
    """The options that words name, each once."""
    texts = [text for parsed in named for text in _texts(parsed.input_line, parsed)]
    return list(dict.fromkeys(texts))


def _texts(word: str, parsed: Any) -> list[str]:
    if parsed.is_sweep_override():
        values = [f"{parsed.key_or_group}={text}" for text in choice_texts(word, parsed)]
        return [str(one.value()) for one in parse_words(values)]
    value = parsed.value()
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
