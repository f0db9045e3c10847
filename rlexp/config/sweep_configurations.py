"""The configurations of a sweep: one composition for each choice of groups, values on copies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.config.compose import STEPS_KEY, hydra_session, resolve, unknown_key
from rlexp.config.words import FREE_FORM_KEYS

ENTRY = "sweep_entry"
SWEEP_KEYS = ("sweep", "tuner", "pruner")
"""Keys of a sweep's configuration that no run has."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What words lead to.

    Attributes:
        settings: The resolved configuration, the sweep's own keys included.
        choices: The option of each group that is chosen from.
        source: Hydra's configuration of a run, where values in it refer to others; else nothing.
    """

    settings: Mapping[str, Any]
    choices: Mapping[str, str]
    source: Any = None

    @property
    def of_a_run(self) -> dict[str, Any]:
        """A copy without the sweep's own keys."""
        return {k: copy_values(v) for k, v in self.settings.items() if k not in SWEEP_KEYS}

    def with_values(self, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """A copy without the sweep's own keys, with values at dotted keys.

        Raises:
            ConfigError: A key does not exist.
        """
        if self.source is not None:
            return _updated(self.source, values)
        settings = self.of_a_run
        for key, value in values:
            set_value(settings, key, value)
        return settings


def compose_overrides(overrides: Sequence[str], folder: Path) -> Composition:
    """Compose the configuration of a sweep.

    Raises:
        ConfigError: A word names an unknown group, option or key.
    """
    with hydra_session(folder, ENTRY) as load:
        config = load(overrides, hydra=True)
    choices = {
        str(group): str(option)
        for group, option in config.hydra.runtime.choices.items()
        if isinstance(option, str) and not str(group).startswith("hydra/")
    }
    settings = resolve(_without(config, "hydra"))
    of_a_run = _without(config, *SWEEP_KEYS)
    return Composition(settings, choices, of_a_run if _has_references(of_a_run) else None)


@dataclass(slots=True)
class Configurations:
    """From values of parameters to configurations; Hydra composes once per choice of groups."""

    overrides: tuple[str, ...]
    folder: Path
    groups: tuple[str, ...]
    base: Composition
    _composed: dict[tuple[str, ...], Composition] = field(default_factory=dict)

    def configure(self, values: Mapping[str, Any], steps: int | None = None) -> dict[str, Any]:
        """The configuration with these values; whoever asks may change it.

        Args:
            values: By key: options of groups, and values at dotted keys.
            steps: Environment steps of a run, if not those of the configuration.

        Raises:
            ConfigError: A key or an option does not exist.
        """
        chosen = {group: values[group] for group in self.groups if group in values}
        dotted = [(key, value) for key, value in values.items() if key not in self.groups]
        more = [] if steps is None else [(STEPS_KEY, steps)]
        return self.composition(chosen).with_values([*dotted, *more])

    def started_from(self, options: Mapping[str, str]) -> "Configurations":
        """The same with other options in the default configuration."""
        if not options:
            return self
        overrides = (*self.overrides, *(self._word(*option) for option in sorted(options.items())))
        base = compose_overrides(overrides, self.folder)
        return Configurations(overrides, self.folder, self.groups, base)

    def composition(self, chosen: Mapping[str, Any]) -> Composition:
        """What these options of groups lead to.

        Raises:
            ConfigError: There is no such option.
        """
        overrides = tuple(
            self._word(group, option)
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
    """A copy of JSON values that shares nothing."""
    if isinstance(value, Mapping):
        return {key: copy_values(item) for key, item in value.items()}
    return [copy_values(item) for item in value] if isinstance(value, list | tuple) else value


def set_value(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key, in place; what stood there is gone.

    Raises:
        ConfigError: The key does not exist, and is not of free form.
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
    """The value at a dotted key; nothing where a key of free form is not set.

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
    """The same configuration, from which keys are gone."""
    from omegaconf import open_dict

    with open_dict(config):
        for key in keys:
            config.pop(key, None)
    return config


def _has_references(config: Any) -> bool:
    """Whether a value refers to another one, so that it follows when that is set."""
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
            OmegaConf.update(copy, key, copy_values(value), merge=False, force_add=free)
        except (OmegaConfBaseException, AttributeError) as error:
            raise unknown_key(key, copy) from error
    return resolve(copy)
