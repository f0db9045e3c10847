"""The configurations of the trials of a sweep.

Hydra composes once for each combination of groups, which takes long; values are set on copies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlexp.config.compose import STEPS_KEY, hydra_session, resolve
from rlexp.config.composition_cache import compose_once
from rlexp.config.config_files import Reading
from rlexp.config.overrides import FREE_FORM_KEYS
from rlexp.config.schedule_files import with_schedules
from rlexp.config.unknown_keys import unknown_key

ENTRY = "sweep_entry"
SWEEP_KEYS = ("sweep", "tuner", "pruner")
"""Keys of the configuration of a sweep that the configuration of a run does not have."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A composed configuration of a sweep.

    Attributes:
        settings: The resolved configuration, with the keys of the sweep.
        choices: The chosen option of each group.
        source: Hydra's configuration of a run, if values in it refer to other values; else None.
    """

    settings: Mapping[str, Any]
    choices: Mapping[str, str]
    source: Any = None

    @property
    def of_a_run(self) -> dict[str, Any]:
        """A copy without the keys of the sweep: the configuration of a run."""
        return {k: copy_values(v) for k, v in self.settings.items() if k not in SWEEP_KEYS}

    def with_values(self, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """The configuration of a run with values at dotted keys.

        Raises:
            ConfigError: A key does not exist.
        """
        # Only OmegaConf updates the values that refer to a changed one; a plain copy is faster.
        if self.source is not None:
            return _updated(self.source, values)
        settings = self.of_a_run
        for key, value in values:
            set_value(settings, key, value)
        return settings


def compose_overrides(overrides: Sequence[str], folder: Path) -> Composition:
    """Compose the configuration of a sweep.

    Raises:
        ConfigError: An override names an unknown group, option or key.
    """
    composed: list[Composition] = []

    def compose_plain(reading: Reading) -> dict[str, Any]:
        composed.append(_compose(overrides, folder, reading))
        # Hydra's own object cannot be kept.
        reading.open_ended = reading.open_ended or composed[0].source is not None
        return {"settings": composed[0].settings, "choices": composed[0].choices}

    single = compose_once(ENTRY, overrides, folder, compose_plain)
    made = composed[0] if composed else Composition(single["settings"], single["choices"])
    # After the cache, which does not know the files of schedules.
    return replace(made, settings=with_schedules(dict(made.settings), folder))


def _compose(overrides: Sequence[str], folder: Path, reading: Reading) -> Composition:
    with hydra_session(folder, ENTRY, reading) as load:
        config = load(overrides, hydra=True)
    choices = {
        str(group): str(option)
        for group, option in config.hydra.runtime.choices.items()
        # Hydra lists its own groups as well, such as those of its launcher and its logging.
        if isinstance(option, str) and not str(group).startswith("hydra/")
    }
    # Resolved first: the next call removes the keys of the sweep from the same object.
    settings = resolve(_without(config, "hydra"))
    of_a_run = _without(config, *SWEEP_KEYS)
    return Composition(settings, choices, of_a_run if _has_references(of_a_run) else None)


@dataclass(slots=True)
class Configurations:
    """Composes the configuration of a trial; Hydra composes once per combination of groups."""

    overrides: tuple[str, ...]
    folder: Path
    groups: tuple[str, ...]
    base: Composition
    _composed: dict[tuple[str, ...], Composition] = field(default_factory=dict)

    def configure(self, values: Mapping[str, Any], steps: int | None = None) -> dict[str, Any]:
        """The configuration with these values, as a copy that the caller may change.

        Args:
            values: Options of groups and values of dotted keys, by key.
            steps: Environment steps of a run, if not those of the configuration.

        Raises:
            ConfigError: A key or an option does not exist.
        """
        chosen = {group: values[group] for group in self.groups if group in values}
        dotted = [(key, value) for key, value in values.items() if key not in self.groups]
        more = [] if steps is None else [(STEPS_KEY, steps)]
        settings = self.composition(chosen).with_values([*dotted, *more])
        return with_schedules(settings, self.folder)

    def started_from(self, options: Mapping[str, str]) -> "Configurations":
        """The same configurations, with other options in the default configuration."""
        if not options:
            return self
        overrides = (*self.overrides, *(self._word(*option) for option in sorted(options.items())))
        base = compose_overrides(overrides, self.folder)
        return Configurations(overrides, self.folder, self.groups, base)

    def composition(self, chosen: Mapping[str, Any]) -> Composition:
        """The composition with these options of groups.

        Raises:
            ConfigError: An option does not exist.
        """
        overrides = tuple(
            self._word(group, option)
            # Sorted, so that one combination has one key in the cache.
            for group, option in sorted(chosen.items())
            if self.base.choices.get(group) != option
        )
        if not overrides:
            return self.base
        if overrides not in self._composed:
            self._composed[overrides] = compose_overrides(
                [*self.overrides, *overrides], self.folder
            )
        return self._composed[overrides]

    def _word(self, group: str, option: Any) -> str:
        return f"{group}={option}" if group in self.base.choices else f"+{group}={option}"


def copy_values(value: Any) -> Any:
    """A deep copy of JSON values."""
    if isinstance(value, Mapping):
        return {key: copy_values(item) for key, item in value.items()}
    return [copy_values(item) for item in value] if isinstance(value, list | tuple) else value


def set_value(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key, in place.

    Raises:
        ConfigError: The key does not exist and is not a free-form key.
    """
    *path, last = key.split(".")
    free = FREE_FORM_KEYS.match(f"{key}=") is not None
    node: Any = settings
    for part in path:
        if free and isinstance(node, dict) and node.get(part) is None:
            node[part] = {}
        node = _child(node, part, key, settings)
    if not (free and isinstance(node, dict)):
        _child(node, last, key, settings)
    node[int(last) if isinstance(node, list) else last] = copy_values(value)


def value_at(settings: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; None for a free-form key that is not set.

    Raises:
        ConfigError: The key does not exist.
    """
    node: Any = settings
    for part in key.split("."):
        if FREE_FORM_KEYS.match(f"{key}=") and isinstance(node, Mapping) and part not in node:
            return None
        node = _child(node, part, key, settings)
    return node


def _child(node: Any, part: str, key: str, settings: Mapping[str, Any]) -> Any:
    if isinstance(node, Mapping) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise unknown_key(key, settings)


def _without(config: Any, *keys: str) -> Any:
    """The configuration itself, after its keys are removed."""
    from omegaconf import open_dict

    with open_dict(config):
        for key in keys:
            config.pop(key, None)
    return config


def _has_references(config: Any) -> bool:
    """Whether a value refers to another value, other than an environment variable."""
    from omegaconf import OmegaConf

    texts = _strings(OmegaConf.to_container(config, resolve=False))
    return any("${" in text.replace("${oc.env:", "") for text in texts)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value


def _updated(source: Any, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    copy = source.copy()
    for key, value in values:
        free = FREE_FORM_KEYS.match(f"{key}=") is not None
        try:
            # A mapping replaces the default one, as in `set_value`; a merge would keep old keys.
            OmegaConf.update(copy, key, copy_values(value), merge=False, force_add=free)
        except (OmegaConfBaseException, AttributeError) as error:
            raise unknown_key(key, copy) from error
    return resolve(copy)
