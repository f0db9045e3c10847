"""Composes configurations with Hydra; the only module that knows it."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.matrix import Cell, expand
from rlexp.config.sources import (
    check_whatever_is_read,
    check_yaml_files,
    group_options,
    groups,
    search_path,
)
from rlexp.config.words import (
    FIXED,
    OF_THE_ATTEMPT,
    check_not_of_sweeps,
    check_word,
    choice_texts,
    parse_words,
    quoted,
    split_word,
    with_free_form,
)
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.budget import evaluation_interval

STEPS = "budget.steps"
EVALUATION_EVERY = "budget.evaluation_every"


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON values, resolved but for variables of the environment.

    A word in `budget.evaluation_every` becomes its number in `config` too. A copy of `config` that
    is given other steps later keeps this number.

    Raises:
        ConfigError: A value is missing, refers to nothing, or is an unknown word.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # A variable of the environment may be a secret: it is filled in where it is used, never stored.
    OmegaConf.register_new_resolver("oc.env", _keep, replace=True)
    try:
        _settle_evaluations(config)
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_missing(error)) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _settle_evaluations(config: Any) -> None:
    """Replace a word in `budget.evaluation_every` by the number of steps that it stands for."""
    from omegaconf import OmegaConf

    value = OmegaConf.select(config, EVALUATION_EVERY)
    if isinstance(value, str):
        interval = evaluation_interval(value, OmegaConf.select(config, STEPS))
        OmegaConf.update(config, EVALUATION_EVERY, interval)


def _keep(*words: str | None) -> str:
    return "${oc.env:" + ",".join("null" if word is None else str(word) for word in words) + "}"


def _missing(error: Exception) -> str:
    key = getattr(error, "full_key", None)
    first = str(error).splitlines()[0]
    if "Missing mandatory value" in first and key:
        return f"{key} has no value; give it one with {key}=…"
    return f"{key}: {first}" if key else first


Load = Callable[[Sequence[str]], Any]
"""From words to Hydra's configuration."""


@dataclass(frozen=True, slots=True)
class Composed:
    """One resolved configuration, the grid's choices that led to it, and its cell of a matrix."""

    plain: dict[str, Any]
    choices: tuple[tuple[str, str], ...]
    cell: Cell | None = None


def compose(overrides: Sequence[str], folder: Path) -> list[Composed]:
    """Compose every configuration of a grid or a matrix; without either there is one.

    Args:
        overrides: Words in Hydra's override grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: A word cannot be parsed, or names an unknown group, option or key.
    """
    cells = expand(overrides, folder)
    composed = []
    with hydra_session(folder) as load:
        for cell in cells:
            composed += _grid(cell, folder, load)
    return composed


def _grid(cell: Cell, folder: Path, load: Load) -> list[Composed]:
    """Every configuration of the grid that the words of a cell make."""
    composed = []
    try:
        fixed, groups, values = _sort(cell.words, folder)
        for chosen in itertools.product(*groups):
            config = load([*fixed, *(word for _, word in chosen)])
            for settings in itertools.product(*values):
                plain = _apply(config, settings) if settings else to_plain(config)
                choices = tuple(split_word(word) for _, word in (*chosen, *settings))
                of = cell if cell.matrix else None
                composed.append(Composed(plain, (*cell.choices, *choices), of))
    except ConfigError as error:
        raise error.rephrased(f"{cell.said}{error}") from error
    return composed


def compose_one(entry: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Compose one configuration from another primary file than that of a run.

    Raises:
        ConfigError: A word cannot be parsed, or names an unknown group, option or key.
    """
    for word, parsed in zip(words, parse_words(words), strict=True):
        if parsed.is_sweep_override():
            raise ConfigError(f"{word}: one value is wanted here; write a list as [first,second]")
    with hydra_session(folder, entry) as load:
        return to_plain(load(words))


Words = list[tuple[Any, str]]


def _sort(overrides: Sequence[str], folder: Path) -> tuple[list[str], list[Words], list[Words]]:
    """Split words into those without a choice, choices of a group, and choices of a value."""
    fixed: list[str] = []
    groups_: list[Words] = []
    values: list[Words] = []
    known = set(groups(folder))
    words = with_free_form(overrides)
    for word, parsed in zip(words, parse_words(words), strict=True):
        key = parsed.key_or_group
        check_not_of_sweeps(word, key)
        check_word(word, parsed, known)
        if not parsed.is_sweep_override():
            fixed.append(word)
            continue
        if key.split(".")[0] in FIXED or key in OF_THE_ATTEMPT:
            raise ConfigError(
                f"{word}: {key} belongs to the whole experiment and takes one value; "
                "start one command for each",
            )
        name = parsed.get_key_element()
        options = [(parsed, f"{name}={value}") for value in choice_texts(word, parsed)]
        (groups_ if key in known or parsed.is_add() else values).append(options)
    return fixed, groups_, values


@contextmanager
def hydra_session(folder: Path, entry: str = "entry") -> Iterator[Any]:
    """Yield a function from words to a configuration.

    Args:
        folder: The study's folder.
        entry: The primary file.

    Yields:
        `load(words, hydra=False)`; with `hydra`, what Hydra knows about its choices is in it too.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    places = search_path(folder)
    check_yaml_files(places)
    check_whatever_is_read()
    roots = ",".join(quoted(f"file://{place}") for place in places)

    def load(words: Sequence[str], *, hydra: bool = False) -> Any:
        told = [f"hydra.searchpath=[{roots}]", *words]
        try:
            return hydra_compose(entry, overrides=told, return_hydra_config=hydra)
        except (HydraException, OmegaConfBaseException, ValueError, YAMLError) as error:
            raise _explain(error, words, folder, entry) from error

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(packaged_entry()), version_base="1.3"):
        yield load


def packaged_entry() -> Path:
    """The primary directory: only the defaults list, so that any other file can be replaced."""
    return Path(__file__).parent.parent / "entry"


def _apply(config: Any, settings: Sequence[tuple[Any, str]]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    copy = config.copy()
    for parsed, word in settings:
        key, _ = split_word(word)
        element = parse_words([word])[0].value()
        try:
            forced = parsed.is_force_add()
            OmegaConf.update(copy, parsed.key_or_group, element, merge=True, force_add=forced)
        except (OmegaConfBaseException, AttributeError) as error:
            raise unknown_key(key, copy) from error
    return to_plain(copy)


def _explain(error: Exception, words: Sequence[str], folder: Path, entry: str) -> ConfigError:
    """One line for what Hydra says in several."""
    text = str(error) or str(error.__cause__ or type(error).__name__)
    if found := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        group, option = found.groups()
        options = group_options(group, folder)
        return ConfigError.unknown(
            f"there is no {group}={option}",
            option,
            options,
            code="unknown_option",
            key=group,
            command=f"rlexp config list {group}",
        )
    if found := re.search(r"Could not override '([^']+)'", text):
        key = found.group(1)
        others = [w for w in words if split_word(w)[0] != key and not w.startswith("~")]
        if len(others) == len(words):
            return _of_a_file(text, key, folder)
        with hydra_session(folder, entry) as load:
            base = load(others)
        return _of_a_key(text, key, base, folder)
    if found := re.search(r"Multiple values for ([\w/]+)", text):
        chosen = found.group(1)
        return ConfigError(
            f"{chosen} is chosen already: write {chosen}=…, without the +", key=chosen
        )
    return ConfigError(" ".join(text.split())[:400])


def _of_a_key(text: str, key: str, base: Any, folder: Path) -> ConfigError:
    known = groups(folder)
    if key in known:
        return ConfigError(f"{key} has no default to replace; write +{key}=… to add one", key=key)
    if "No match in the defaults list" in text:
        return ConfigError(
            f"there is no group {key!r}{did_you_mean(key, known)}; write +{key}=… to add one",
            code="unknown_group",
            key=key,
            allowed=known,
            command="rlexp config list",
        )
    return unknown_key(key, base)


def _of_a_file(text: str, key: str, folder: Path) -> ConfigError:
    """What is wrong with the defaults list of a file, which no word of the command can mend."""
    where, name = text.partition(":")[0], key.partition("@")[0].rpartition("/")[2]
    known = groups(folder)
    if name not in known:
        return ConfigError(
            f"{where}: there is no group {name!r}{did_you_mean(name, known)}",
            code="unknown_group",
            key=name,
            allowed=known,
        )
    return ConfigError(
        f"{where}: {name} cannot be overridden: begin the file with the line "
        f"'# @package _global_', and write '- override /{name}: OPTION', with the slash",
        key=name,
    )


def unknown_key(key: str, config: Any) -> ConfigError:
    """An error that says which part of a dotted key is unknown, and which are known there."""
    node, path = config, ""
    for part in key.split("."):
        known = [str(k) for k in node] if hasattr(node, "keys") else []
        if part not in known:
            where = f"{path} has" if path else "there are"
            hint = did_you_mean(part, known)
            if not known:
                text = f"{path} has no key {part!r}; write +{key}=… to add it"
            else:
                text = f"unknown key {key!r}{hint} ({where}: {', '.join(known)})"
            return ConfigError(text, code="unknown_setting", key=key, allowed=known)
        node, path = node[part], f"{path}.{part}".lstrip(".")
    return ConfigError(f"cannot set {key!r} to this value", code="wrong_type", key=key)
