"""Composition of configurations with Hydra: from overrides to plain dictionaries."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

from rlexp.config.composition_cache import compose_once
from rlexp.config.config_files import (
    Reading,
    check_yaml_files,
    checked_yaml_files,
    group_options,
    groups,
    packaged_entry,
    search_path,
)
from rlexp.config.first_words import check_words, setting_words, typed
from rlexp.config.matrix import MatrixCell, expand
from rlexp.config.overrides import (
    ATTEMPT_KEYS,
    EXPERIMENT_KEYS,
    SEED_LISTS,
    check_no_sweep_override,
    check_override,
    choice_texts,
    lacking_option,
    normalise_overrides,
    parse_overrides,
    quoted,
    split_override,
)
from rlexp.config.schedule_files import with_schedules
from rlexp.config.study_file import LabelledWords, read_words
from rlexp.config.unknown_keys import has_key, nested_keys, unknown_key
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.budget import evaluation_interval

STEPS_KEY = "budget.steps"
CLASS = re.compile(r"(?:[a-z_]\w*\.)+[A-Z]\w*")
"""The Python path of a class."""
EVALUATION_INTERVAL_KEY = "budget.evaluation_every"
_HYDRA_IN_USE = RLock()
"""Held while this process's one instance of Hydra, or list of resolvers, is set for a composition.

Without it, two threads that call the Python API would read each other's configurations.
"""


def resolve(config: Any) -> dict[str, Any]:
    """A configuration as JSON values, with every reference resolved except environment variables.

    A word in `budget.evaluation_every` becomes a number of steps, in `config` itself too. A copy
    of `config` that later gets other steps keeps this number.

    Raises:
        ConfigError: A value is missing, refers to a missing key, or is an unknown word.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        with _kept_variables():
            _resolve_evaluation_interval(config)
            settings = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_missing_value_message(error)) from error
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}


@contextmanager
def _kept_variables() -> Iterator[None]:
    """Keep references to environment variables as they are written, inside a `with` block.

    An environment variable may hold a secret: its value is filled in where it is used, and is never
    part of the configuration that is written to disk.
    """
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    # OmegaConf keeps one list of resolvers for the process, which a notebook may use itself.
    with _HYDRA_IN_USE:
        OmegaConf.register_new_resolver("oc.env", _keep_variable, replace=True)
        try:
            yield
        finally:
            OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _resolve_evaluation_interval(config: Any) -> None:
    """Replace a word in `budget.evaluation_every` by its number of steps."""
    from omegaconf import OmegaConf

    value = OmegaConf.select(config, EVALUATION_INTERVAL_KEY)
    if isinstance(value, str):
        interval = evaluation_interval(value, OmegaConf.select(config, STEPS_KEY))
        OmegaConf.update(config, EVALUATION_INTERVAL_KEY, interval)


def _keep_variable(*arguments: str | None) -> str:
    return (
        "${oc.env:" + ",".join("null" if word is None else str(word) for word in arguments) + "}"
    )


def _missing_value_message(error: Exception) -> str:
    key = getattr(error, "full_key", None)
    first = str(error).splitlines()[0]
    if "Missing mandatory value" in first and key:
        return f"{key} has no value; give it one with {key}=…"
    return f"{key}: {first}" if key else first


Load = Callable[[Sequence[str]], Any]
"""A function from overrides to Hydra's configuration."""


@dataclass(frozen=True, slots=True)
class ComposedConfiguration:
    """A resolved configuration and where it comes from.

    Attributes:
        plain: The configuration.
        choices: The choices of the grid behind it.
        cell: Its cell of a matrix, if any.
        words: The overrides of its variant, if it comes from a study file.
    """

    plain: dict[str, Any]
    choices: tuple[tuple[str, str], ...]
    cell: MatrixCell | None = None
    words: LabelledWords | None = None

    @property
    def variant(self) -> str | None:
        """The label of its variant in a study file; None if it has none."""
        return self.words.label if self.words else None

    def located(self, error: ConfigError) -> ConfigError:
        """The error, with the file and line of the override that it is about, if any."""
        return self.words.located(error) if self.words else error


def compose(overrides: Sequence[str], folder: Path) -> list[ComposedConfiguration]:
    """Compose every configuration of a grid or a matrix, or the single one without them.

    Args:
        overrides: Overrides in Hydra's grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: An override cannot be parsed, names an unknown group, option or key, or
            stands twice with two values.
    """
    check_words(overrides, folder)

    def compose_all(reading: Reading) -> list[dict[str, Any]]:
        return [_plain(c) for c in compose_cells(expand(overrides, folder), folder, reading)]

    composed = compose_once("run", overrides, folder, compose_all)
    return [_with_files(_from_plain(configuration), folder) for configuration in composed]


def _with_files(composed: ComposedConfiguration, folder: Path) -> ComposedConfiguration:
    """The configuration with the content of the schedule files that it names."""
    # After the cache, which does not know these files.
    try:
        return replace(composed, plain=with_schedules(composed.plain, folder))
    except ConfigError as error:
        prefix = composed.cell.error_prefix if composed.cell else ""
        raise error.rephrased(f"{prefix}{error}") from error


def _plain(composed: ComposedConfiguration) -> dict[str, Any]:
    """A configuration of a grid or a matrix as JSON values."""
    return {
        "plain": composed.plain,
        "choices": [list(choice) for choice in composed.choices],
        "cell": composed.cell and composed.cell.plain(),
    }


def _from_plain(document: Mapping[str, Any]) -> ComposedConfiguration:
    """The configuration that `_plain` made the JSON values of."""
    cell = document["cell"]
    return ComposedConfiguration(
        document["plain"],
        tuple((key, value) for key, value in document["choices"]),
        MatrixCell.from_plain(cell) if cell else None,
    )


def compose_words(arguments: Sequence[str], folder: Path) -> list[ComposedConfiguration]:
    """Compose every configuration of a command, whose first word may be a study file.

    Raises:
        ConfigError: An override is wrong; every wrong one of a study file is named with its line.
    """
    composed, mistakes = list[ComposedConfiguration](), dict[str, ConfigError]()
    for words in read_words(arguments, folder):
        wrong = list[ConfigError]()
        composed += [replace(c, words=words) for c in _compose_all(words, folder, wrong)]
        mistakes |= {str(error): error for error in wrong}
    if mistakes:
        first = next(iter(mistakes.values()))
        raise first.rephrased("; ".join(mistakes)) from first
    return composed


def _compose_all(
    words: LabelledWords, folder: Path, wrong: list[ConfigError]
) -> list[ComposedConfiguration]:
    """Compose the configurations of a variant; adds the errors about its overrides to `wrong`."""
    overrides = words.overrides
    while True:
        try:
            return compose(overrides, folder)
        except ConfigError as error:
            wrong.append(words.located(error))
            # Without the wrong override, the next error is about another one.
            right = tuple(w for w in overrides if split_override(w)[0] != error.key)
            if error.key not in words.places or len(right) == len(overrides):
                return []
            overrides = right


def compose_cells(
    cells: Sequence[MatrixCell], folder: Path, reading: Reading | None = None
) -> list[ComposedConfiguration]:
    """Compose every configuration of cells, in which the last override of a key wins.

    Args:
        cells: The cells.
        folder: The study's folder, whose `conf/` wins over the packaged one.
        reading: Records what is read.

    Raises:
        ConfigError: An override cannot be parsed, or names an unknown group, option or key.
    """
    composed, reading = list[ComposedConfiguration](), reading or Reading()
    with hydra_session(folder, reading=reading) as load:
        for cell in cells:
            # The file of a matrix may refer to environment variables.
            reading.note_words(cell.overrides)
            composed += _compose_grid(cell, folder, load)
    return composed


def _compose_grid(cell: MatrixCell, folder: Path, load: Load) -> list[ComposedConfiguration]:
    """Every configuration of the grid that the overrides of a cell span."""
    composed = []
    try:
        fixed, groups, values = _split_overrides(cell.overrides, folder)
        # Composing takes long: only choices of groups compose again, values are set on a copy.
        for group_choices in itertools.product(*groups):
            options = [word for _, word in group_choices]
            try:
                config = load([*fixed, *options])
                for value_choices in itertools.product(*values):
                    settings = (
                        _apply(config, value_choices, folder) if value_choices else resolve(config)
                    )
                    words = (*options, *(word for _, word in value_choices))
                    choices = (*cell.choices, *map(split_override, words))
                    of = cell if cell.matrix else None
                    composed.append(ComposedConfiguration(settings, choices, of))
            except ConfigError as error:
                exists = partial(_exists_with, error.key or "", fixed, load)
                raise lacking_option(error, groups, options, exists) from error
    except ConfigError as error:
        raise error.rephrased(f"{cell.error_prefix}{error}") from error
    return composed


def _exists_with(key: str, fixed: Sequence[str], load: Load, options: Sequence[str]) -> bool:
    rest = [word for word in fixed if split_override(word)[0] != key]
    return has_key(load([*rest, *options]), key)


def compose_one(entry: str, overrides: Sequence[str], folder: Path) -> dict[str, Any]:
    """Compose one configuration from the primary file `entry`.

    Raises:
        ConfigError: An override cannot be parsed, has several values, or names an unknown
            group, option or key.
    """

    def compose_alone(reading: Reading) -> dict[str, Any]:
        for word, parsed in zip(overrides, parse_overrides(overrides), strict=True):
            if parsed.is_sweep_override():
                raise ConfigError(
                    f"{word}: this key takes one value, not a choice; write a list as "
                    "[first,second]"
                )
        with hydra_session(folder, entry, reading) as load:
            return resolve(load(overrides))

    settings: dict[str, Any] = compose_once(entry, overrides, folder, compose_alone)
    return settings


Choices = list[tuple[Any, str]]


def _split_overrides(
    overrides: Sequence[str], folder: Path
) -> tuple[list[str], list[Choices], list[Choices]]:
    """Split overrides into those with one value, choices of options and choices of values."""
    fixed: list[str] = []
    group_choices: list[Choices] = []
    value_choices: list[Choices] = []
    group_names = set(groups(folder))
    texts = normalise_overrides(overrides)
    for word, parsed in zip(texts, parse_overrides(texts), strict=True):
        key = parsed.key_or_group
        check_no_sweep_override(word, key)
        check_override(word, parsed, group_names)
        if not parsed.is_sweep_override():
            fixed.append(word)
            continue
        if key.split(".")[0] in EXPERIMENT_KEYS or key in ATTEMPT_KEYS:
            raise _several_values(word, parsed, folder)
        name = parsed.get_key_element()
        options = [(parsed, f"{name}={value}") for value in choice_texts(word, parsed)]
        # `_apply` changes existing keys, so Hydra itself must add a key that is written with `+`.
        (group_choices if key in group_names or parsed.is_add() else value_choices).append(options)
    return fixed, group_choices, value_choices


def _several_values(word: str, parsed: Any, folder: Path) -> ConfigError:
    """The error of several values for a key of the whole experiment, with the words to type."""
    key = parsed.key_or_group
    advice = "start one command for each"
    if key in (*SEED_LISTS, "tracker"):
        listed = f"[{','.join(choice_texts(word, parsed))}]"
        advice = f"type {typed(key, listed, folder)} for all of them"
    return ConfigError(
        f"{word}: {key} belongs to the whole experiment and takes one value; {advice}", key=key
    )


@contextmanager
def hydra_session(
    folder: Path, entry: str = "entry", reading: Reading | None = None
) -> Iterator[Any]:
    """Yield a function from overrides to a configuration.

    Args:
        folder: The study's folder.
        entry: The name of the primary file.
        reading: Records what is read.

    Yields:
        `load(overrides, hydra=False)`. With `hydra`, the configuration holds Hydra's own
        section, which lists the chosen options.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    folders = search_path(folder)
    check_yaml_files(folders)
    # Quoted, because Hydra's grammar would split a path that holds a comma or a bracket.
    roots = ",".join(quoted(f"file://{path}") for path in folders)

    def load(overrides: Sequence[str], *, hydra: bool = False) -> Any:
        complete = [f"hydra.searchpath=[{roots}]", *overrides]
        try:
            return hydra_compose(entry, overrides=complete, return_hydra_config=hydra)
        except RecursionError as error:
            raise _endless_defaults(folder) from error
        except (HydraException, OmegaConfBaseException, ValueError, YAMLError) as error:
            raise _explain_hydra_error(error, overrides, folder, entry) from error

    # A program or notebook that calls the Python API may have initialised Hydra for itself.
    with _HYDRA_IN_USE, checked_yaml_files(reading or Reading()):
        of_caller = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(packaged_entry()), version_base="1.3"):
                yield load
        finally:
            # Not the instance of before: Hydra replaces it by a copy.
            GlobalHydra.instance().hydra = of_caller


def _apply(config: Any, value_choices: Sequence[tuple[Any, str]], folder: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    copy = config.copy()
    for parsed, word in value_choices:
        key, _ = split_override(word)
        element = parse_overrides([word])[0].value()
        try:
            forced = parsed.is_force_add()
            OmegaConf.update(copy, parsed.key_or_group, element, merge=True, force_add=forced)
        except (OmegaConfBaseException, AttributeError) as error:
            raise unknown_key(key, copy, split_override(word)[1], folder) from error
    return resolve(copy)


def _explain_hydra_error(
    error: Exception, overrides: Sequence[str], folder: Path, entry: str
) -> ConfigError:
    """One line for an error that Hydra reports in several lines."""
    text = str(error) or str(error.__cause__ or type(error).__name__)
    if match := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        group, option = match.groups()
        group_names = groups(folder)
        # `environment=foo/bar` is no group `environment/foo`, and a folder of options is no group.
        while group not in group_names and "/" in group:
            group, _, folder_name = group.rpartition("/")
            option = f"{folder_name}/{option}"
        return ConfigError.unknown(
            f"there is no {group}={option}",
            option,
            _options_beside(option, group, folder),
            code="unknown_option",
            key=group,
            after=_choice_of_class(option, group),
            command=f"rlexp config list {group}",
        )
    if match := re.search(r"Could not override '([^']+)'", text):
        key = match.group(1)
        others = [w for w in overrides if split_override(w)[0] != key and not w.startswith("~")]
        if len(others) == len(overrides):
            return _wrong_defaults_list(text, key, folder)
        # Composed without the wrong override, so that the error can list the existing keys.
        with hydra_session(folder, entry) as load:
            base = load(others)
        values = [value for name, value in map(split_override, overrides) if name == key]
        return _unknown_override(text, key, values[-1], base, folder)
    if match := re.search(r"Multiple values for ([\w/]+)", text):
        chosen = match.group(1)
        return ConfigError(
            f"{chosen} has an option already: write {chosen}=…, without the +", key=chosen
        )
    return ConfigError(" ".join(text.split())[:400])


def _choice_of_class(option: str, group: str) -> str:
    """How the class is chosen that was given instead of an option; empty if it is none."""
    if not CLASS.fullmatch(option):
        return ""
    package, name = option.partition(".")[0], option.rpartition(".")[2].lower()
    if group == "callback":
        return f"; for a class, type +callback.{name}._target_={option} --allow-import {package}"
    return f"; a class is chosen by a file conf/{group}/{name}.yaml: docs/guides/extend.md"


def _options_beside(option: str, group: str, folder: Path) -> list[str]:
    """The options of a group; for an option in a folder that exists, those in this folder."""
    every = group_options(group, folder)
    beside = [
        each for each in every if "/" in option and each.startswith(f"{option.partition('/')[0]}/")
    ]
    return beside or every


def _unknown_override(text: str, key: str, value: str, base: Any, folder: Path) -> ConfigError:
    group_names = groups(folder)
    if key in group_names:
        return ConfigError(
            f"the group {key} has no default option to replace: type {typed(f'+{key}', value, folder)}",
            key=key,
        )
    if "No match in the defaults list" in text:
        return ConfigError(
            f"there is no group {key!r}{did_you_mean(key, group_names)}; "
            f"write +{key}=… to add a setting",
            code="unknown_group",
            key=key,
            allowed=group_names,
            command="rlexp config list",
        )
    return unknown_key(key, base, value, folder)


def _endless_defaults(folder: Path) -> ConfigError:
    """An error about a file whose list of defaults leads back to the file itself."""
    for file in sorted((folder / "conf").rglob("*.yaml")):
        if file.stem in _defaults(file):
            return ConfigError(
                f"{file}: this file includes itself: take {file.stem} out of its defaults; it already "
                "stands in place of the packaged file, so write all keys of that file into it"
            )
    return ConfigError(
        f"{folder / 'conf'}: the defaults of a file lead back to the file itself: take out the entry "
        "that closes the circle"
    )


def _defaults(file: Path) -> list[str]:
    """The files that a file names in its list of defaults."""
    from yaml import YAMLError, safe_load

    try:
        content = safe_load(file.read_text())
    except (OSError, ValueError, YAMLError):
        return []
    defaults = content.get("defaults") if isinstance(content, dict) else None
    entries = defaults if isinstance(defaults, list) else []
    return [name for name in entries if isinstance(name, str)]


def _wrong_defaults_list(text: str, key: str, folder: Path) -> ConfigError:
    """An error about the defaults list of a file, which the user must edit."""
    where, name = text.partition(":")[0], key.partition("@")[0].rpartition("/")[2]
    group_names = groups(folder)
    if name not in group_names:
        return ConfigError(
            f"{where}: there is no group {name!r}{did_you_mean(name, group_names)}",
            code="unknown_group",
            key=name,
            allowed=group_names,
        )
    return ConfigError(
        f"{where}: this file cannot override the group {name}: begin the file with the line "
        f"'# @package _global_' and write '- override /{name}: OPTION', with the slash",
        key=name,
    )


def find_words(name: str, value: str, folder: Path) -> str | None:
    """The words that set a setting of this name, as typed in a shell; None if there is none.

    Args:
        name: The name of a setting in rlexp or in another tool, with or without leading dashes.
        value: The value in Hydra's grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    words = setting_words(name, value, folder)
    if words is not None:
        return words
    with hydra_session(folder, "sweep_entry") as load:
        keys = nested_keys(load([]), name.strip("-+").replace("-", "_"))
    return typed(keys[0], value, folder) if keys else None
