"""Turns a recorded configuration back into choices of options and settings.

The choices and settings lead to exactly the recorded configuration: this is checked by composing
them. They can be typed as overrides, or written as an option of the group `benchmark`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.execution.request import configuration_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.option_lookup import (
    environments_of_id,
    options_of_component,
    options_of_named,
    options_of_target,
    required_keys,
)
from rlexp.config.overrides import FREE_FORM_KEYS, format_override, parse_overrides
from rlexp.config.validate import COMPONENTS, validate
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import PLUG_IN, TARGET, canonical, short_name

WRAPPING = {"component": COMPONENTS, "teacher": COMPONENTS}
"""Groups whose options lie inside the environment."""
MANY = ("component", "callback")
"""Groups of which several options can be chosen."""
COMPONENT_KEY = f"environment.{COMPONENTS}."
SHARED_BY_TASKS = "environment.vector."
"""Settings of an environment that are kept when another environment is chosen."""


@dataclass(frozen=True, slots=True)
class ConfigurationWords:
    """The choices and settings of one configuration.

    Attributes:
        options: The chosen options of each group.
        settings: Values by dotted key; all other settings are those of the options.
    """

    options: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any]

    def overrides(self) -> tuple[str, ...]:
        """The words in Hydra's grammar."""
        return (
            *(f"{group}={_choice(group, names)}" for group, names in self.options.items()),
            *(format_override(key, value) for key, value in self.settings.items()),
        )

    def with_settings(self, settings: Mapping[str, Any]) -> "ConfigurationWords":
        """The same choices with further settings; a setting that exists keeps its value."""
        return replace(self, settings={**settings, **self.settings})

    def before(self, overrides: Sequence[str], kept: Sequence[str]) -> tuple[str, ...]:
        """The words, changed by the overrides of a command, which come last.

        A group that the command chooses replaces the choice, together with the settings of that
        group. Another environment keeps the settings of its vector of environments.

        Args:
            overrides: The overrides of the command.
            kept: Keys that stay although their group is replaced, such as searched parameters.
        """
        typed = {parsed.key_or_group for parsed in parse_overrides(overrides)}
        chosen = typed & {*self.options}
        left = {g: names for g, names in self.options.items() if g not in chosen}
        settings = {
            key: value
            for key, value in self.settings.items()
            # Two values of one key would be refused.
            if key not in typed
            and (key in kept or not any(_is_replaced(key, group) for group in chosen))
        }
        return (*ConfigurationWords(left, settings).overrides(), *overrides)


def _is_replaced(key: str, group: str) -> bool:
    """Whether another option of a group replaces a setting."""
    if group in WRAPPING:
        return key.startswith(COMPONENT_KEY)
    if group == "environment":
        of_components = key.startswith((SHARED_BY_TASKS, COMPONENT_KEY))
        return key.startswith("environment.") and not of_components
    # The same algorithm, chosen again, keeps its settings; another one is refused before.
    return group != "algorithm" and key.startswith(f"{group}.")


def _choice(group: str, names: Sequence[str]) -> str:
    # Several environments are a grid, or the tasks of a sweep.
    return f"[{','.join(names)}]" if group in MANY else ",".join(names)


def words_of(configuration: Configuration, workspace: Workspace) -> ConfigurationWords:
    """The choices and settings that lead to a recorded configuration.

    Raises:
        ConfigError: No options lead to it, for example because an option was removed.
    """
    problem = "no option of environment leads to its environment"
    for environment in _environments(configuration, workspace):
        try:
            words = _words_with(environment, configuration, workspace)
            if _leads_to(words, configuration, workspace):
                return words
            problem = "the options in conf/ lead to another configuration"
        except ConfigError as error:
            problem = str(error)
    raise ConfigError(f"the configuration cannot be written as overrides: {problem}")


def _environments(configuration: Configuration, workspace: Workspace) -> Iterator[str]:
    """The options of `environment` that may lead to the recorded one, the likeliest first."""
    recorded, folder = configuration.environment, workspace.folder
    by_id = environments_of_id(str(recorded.get("id")), folder)
    name, target = short_name(recorded), str(recorded.get(TARGET))
    yield from dict.fromkeys([*by_id, *options_of_target("environment", target, name, folder)])


def _words_with(
    environment: str, configuration: Configuration, workspace: Workspace
) -> ConfigurationWords:
    """The words with an option of `environment`; they are not checked.

    Raises:
        ConfigError: There is no option for a part, or the options cannot be composed.
    """
    options: dict[str, tuple[str, ...]] = {
        "algorithm": (_option("algorithm", configuration.algorithm, workspace),),
        "agent": (_option("agent", configuration.agent, workspace),),
        "environment": (environment,),
    }
    if configuration.callback:
        options["callback"] = tuple(_callback_options(configuration.callback, workspace))
    for group, part in (("replay", configuration.replay), ("dataset", configuration.dataset)):
        if part is not None:
            options[group] = (_option(group, part, workspace),)
    recorded = sections_of(configuration)
    required = _required(options, recorded, workspace)
    base = composed_configuration(ConfigurationWords(options, required), workspace)
    lacking = _lacking_components(recorded, sections_of(base), workspace)
    if lacking:
        options |= lacking
        required |= _required(lacking, recorded, workspace)
        base = composed_configuration(ConfigurationWords(options, required), workspace)
    differences = _differences(recorded, sections_of(base), "")
    return ConfigurationWords(options, {**required, **dict(differences)})


def _option(group: str, part: Mapping[str, Any], workspace: Workspace) -> str:
    """The option of a group that leads to a recorded plug-in."""
    matching = options_of_target(group, str(part.get(TARGET)), short_name(part), workspace.folder)
    if not matching:
        raise ConfigError(f"no option of {group} names the class {part.get(TARGET)}")
    return matching[0]


def _callback_options(callbacks: Mapping[str, Any], workspace: Workspace) -> Iterator[str]:
    """The options that add callbacks, in the order of their calls."""
    for name, part in callbacks.items():
        matching = options_of_named("callback", name, str(part.get(TARGET)), workspace.folder)
        if not matching:
            raise ConfigError(f"no option of callback adds callback.{name}")
        yield matching[0]


def _lacking_components(
    recorded: Mapping[str, Any], base: Mapping[str, Any], workspace: Workspace
) -> dict[str, tuple[str, ...]]:
    """The options of the components that the environment's option does not have."""
    chosen: dict[str, tuple[str, ...]] = {}
    present = base["environment"].get(COMPONENTS, {})
    for name, part in recorded["environment"].get(COMPONENTS, {}).items():
        if name in present:
            continue
        matching = options_of_component(name, str(part.get(TARGET)), workspace.folder)
        if not matching:
            raise ConfigError(f"no option of component adds environment.{COMPONENTS}.{name}")
        group, option = matching[0]
        chosen[group] = (*chosen.get(group, ()), option)
    return chosen


def _required(
    options: Mapping[str, Sequence[str]], recorded: Mapping[str, Any], workspace: Workspace
) -> dict[str, Any]:
    """The recorded values of the settings without a default, by dotted key."""
    values: dict[str, Any] = {}
    for group, names in options.items():
        prefix = f"environment.{COMPONENTS}" if group in WRAPPING else group
        for name in names:
            for key in required_keys(group, name, workspace.folder):
                values[f"{prefix}.{key}"] = value_at(recorded, f"{prefix}.{key}")
    return values


def value_at(settings: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of nested settings; None where there is none."""
    node: Any = settings
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def composed_configuration(words: ConfigurationWords, workspace: Workspace) -> Configuration:
    """The configuration to which words lead.

    Raises:
        ConfigError: They cannot be composed, or a value is not allowed.
    """
    (composed,) = compose(words.overrides(), workspace.folder)
    root, parts = validate(composed.plain, workspace.allowed)
    return configuration_of(composed, root, parts)


def _leads_to(
    words: ConfigurationWords, configuration: Configuration, workspace: Workspace
) -> bool:
    reached = composed_configuration(words, workspace)
    return (reached.fingerprint, canonical(reached.reference)) == (
        configuration.fingerprint,
        canonical(configuration.reference),
    )


def sections_of(configuration: Configuration) -> dict[str, Any]:
    """The sections of a configuration, with the reference scores inside the environment."""
    sections = configuration.parts()
    environment = {**configuration.environment, "reference": configuration.reference}
    return {**sections, "environment": environment}


def _differences(
    recorded: Mapping[str, Any], base: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Any]]:
    """The recorded settings that differ from those of the options, by dotted key."""
    for key, value in recorded.items():
        if key in {PLUG_IN, TARGET}:
            continue
        dotted, other = f"{path}{key}", base.get(key)
        if canonical(value) == canonical(other):
            continue
        if (
            isinstance(value, Mapping)
            and isinstance(other, Mapping)
            and _is_open(value, other, dotted)
        ):
            yield from _differences(value, other, f"{dotted}.")
        else:
            yield dotted, value


def _is_open(value: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    """Whether the settings inside a mapping can be set one by one."""
    return {*value} == {*other} or FREE_FORM_KEYS.match(f"{key}.") is not None
