"""The configurations of a sweep: one composition for each choice of groups, values on copies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.config.compose import STEPS, hydra_session, to_plain, unknown_key
from rlexp.config.words import FREE_FORM

ENTRY = "sweep_entry"
OF_THE_SWEEP = ("sweep", "tuner", "pruner")
"""Keys of a sweep's configuration that no run has."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What words lead to.

    Attributes:
        plain: The resolved configuration, the sweep's own keys included.
        choices: The option of each group that is chosen from.
        source: Hydra's configuration of a run, where values in it refer to others; else nothing.
    """

    plain: Mapping[str, Any]
    choices: Mapping[str, str]
    source: Any = None

    @property
    def of_a_run(self) -> dict[str, Any]:
        """A copy without the sweep's own keys."""
        return {k: copied(v) for k, v in self.plain.items() if k not in OF_THE_SWEEP}

    def with_values(self, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """A copy without the sweep's own keys, with values at dotted keys.

        Raises:
            ConfigError: A key does not exist.
        """
        if self.source is not None:
            return _updated(self.source, values)
        plain = self.of_a_run
        for key, value in values:
            put(plain, key, value)
        return plain


def compose_words(words: Sequence[str], folder: Path) -> Composition:
    """Compose the configuration of a sweep.

    Raises:
        ConfigError: A word names an unknown group, option or key.
    """
    with hydra_session(folder, ENTRY) as load:
        config = load(words, hydra=True)
    choices = {
        str(group): str(option)
        for group, option in config.hydra.runtime.choices.items()
        if isinstance(option, str) and not str(group).startswith("hydra/")
    }
    plain = to_plain(_without(config, "hydra"))
    of_a_run = _without(config, *OF_THE_SWEEP)
    return Composition(plain, choices, of_a_run if _refers(of_a_run) else None)


@dataclass(slots=True)
class Configurations:
    """From values of parameters to configurations; Hydra composes once per choice of groups."""

    words: tuple[str, ...]
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
        more = [] if steps is None else [(STEPS, steps)]
        return self.composition(chosen).with_values([*dotted, *more])

    def started_from(self, options: Mapping[str, str]) -> "Configurations":
        """The same with other options in the default configuration."""
        if not options:
            return self
        words = (*self.words, *(self._word(*option) for option in sorted(options.items())))
        base = compose_words(words, self.folder)
        return Configurations(words, self.folder, self.groups, base)

    def composition(self, chosen: Mapping[str, Any]) -> Composition:
        """What these options of groups lead to.

        Raises:
            ConfigError: There is no such option.
        """
        words = tuple(
            self._word(group, option)
            for group, option in sorted(chosen.items())
            if self.base.choices.get(group) != option
        )
        if not words:
            return self.base
        if words not in self._composed:
            self._composed[words] = compose_words([*self.words, *words], self.folder)
        return self._composed[words]

    def _word(self, group: str, option: Any) -> str:
        return f"{group}={option}" if group in self.base.choices else f"+{group}={option}"


def copied(value: Any) -> Any:
    """A copy of JSON values that shares nothing."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list | tuple) else value


def put(plain: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key, in place; what stood there is gone.

    Raises:
        ConfigError: The key does not exist, and is not of free form.
    """
    *path, last = key.split(".")
    free = FREE_FORM.match(f"{key}=") is not None
    node: Any = plain
    for part in path:
        if free and isinstance(node, dict) and node.get(part) is None:
            node[part] = {}
        node = _inside(node, part, key, plain)
    if not (free and isinstance(node, dict)):
        _inside(node, last, key, plain)
    node[int(last) if isinstance(node, list) else last] = copied(value)


def value_at(plain: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; nothing where a key of free form is not set.

    Raises:
        ConfigError: The key does not exist.
    """
    node: Any = plain
    for part in key.split("."):
        if FREE_FORM.match(f"{key}=") and isinstance(node, Mapping) and part not in node:
            return None
        node = _inside(node, part, key, plain)
    return node


def _inside(node: Any, part: str, key: str, plain: Mapping[str, Any]) -> Any:
    if isinstance(node, Mapping) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise unknown_key(key, plain)


def _without(config: Any, *keys: str) -> Any:
    """The same configuration, from which keys are gone."""
    from omegaconf import open_dict

    with open_dict(config):
        for key in keys:
            config.pop(key, None)
    return config


def _refers(config: Any) -> bool:
    """Whether a value refers to another one, so that it follows when that is set."""
    from omegaconf import OmegaConf

    texts = _texts(OmegaConf.to_container(config, resolve=False))
    return any("${" in text.replace("${oc.env:", "") for text in texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _updated(source: Any, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    copy = source.copy()
    for key, value in values:
        free = FREE_FORM.match(f"{key}=") is not None
        try:
            OmegaConf.update(copy, key, copied(value), merge=False, force_add=free)
        except (OmegaConfBaseException, AttributeError) as error:
            raise unknown_key(key, copy) from error
    return to_plain(copy)
