"""The search space of a sweep, checked against the configurations that its groups compose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.config_files import group_options
from rlexp.config.parameter_entries import ParameterEntry, holds, make_space, ordered, read_domain
from rlexp.config.sweep_configurations import Composition, Configurations, value_at
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH, Choice, Domain, Parameter, Space

GroupChoices = Mapping[str, str]
"""The chosen option of each searched group that is active."""


@dataclass(frozen=True, slots=True)
class SearchedGroups:
    """The groups whose options a sweep searches; a group comes after those in its conditions.

    Attributes:
        domains: The searched options of each group.
        whens: The conditions of each group.
    """

    domains: Mapping[str, Choice]
    whens: Mapping[str, Mapping[str, tuple[Any, ...]]]

    def combinations(self) -> list[dict[str, str]]:
        """Every combination of options that a trial can have."""
        combinations: list[dict[str, str]] = [{}]
        for group, domain in self.domains.items():
            combinations = [
                more
                for combination in combinations
                for more in self._extended(combination, group, domain)
            ]
        return combinations

    def _extended(
        self, combination: GroupChoices, group: str, domain: Choice
    ) -> Iterator[dict[str, str]]:
        when = self.whens[group]
        there = self.admits(combination, when)
        if there:
            yield from ({**combination, group: option} for option in domain.values)
        # A condition on another parameter may fail in a trial, which then lacks the group.
        if not there or set(when) - set(self.domains):
            yield dict(combination)

    def admits(self, combination: GroupChoices, when: Mapping[str, tuple[Any, ...]]) -> bool:
        """Whether the conditions on groups hold; conditions on other parameters are ignored."""
        return all(
            group in combination and holds(combination[group], allowed)
            for group, allowed in when.items()
            if group in self.domains
        )

    def missing_defaults(self, chosen: GroupChoices) -> dict[str, str]:
        """The first searched option of each group whose default option is not searched."""
        now, missing = dict(chosen), {}
        for group, domain in self.domains.items():
            if domain.position(now.get(group)) is None and self.admits(now, self.whens[group]):
                # Conditions of later groups must see the option that is chosen here.
                now[group] = missing[group] = domain.values[0]
        return missing


def read_groups(
    entries: Mapping[str, ParameterEntry], names: Sequence[str], base: Composition, folder: Path
) -> SearchedGroups:
    """The parameters of a space that are groups.

    Args:
        entries: All parameters as written.
        names: The names of all groups.
        base: The default configuration.
        folder: The study's folder.

    Raises:
        ConfigError: An option does not exist.
    """
    whens = {key: entry.when or {} for key, entry in entries.items()}
    domains: dict[str, Choice] = {}
    for group in ordered(whens):
        if group in names:
            default = base.choices.get(group)
            domain = read_domain(group, entries[group].values, default)
            domains[group] = _options_domain(group, domain, folder)
    return SearchedGroups(domains, {group: whens[group] for group in domains})


def _options_domain(group: str, domain: Domain, folder: Path) -> Choice:
    existing = group_options(group, folder)
    if not isinstance(domain, Choice):
        raise ConfigError(
            f"sweep.space.{group} is a group and takes a choice of its options, not a range "
            f"({', '.join(existing)}): write choice(first, second)"
        )
    for option in domain.values:
        if option not in existing:
            raise ConfigError.unknown(
                f"sweep.space.{group}: there is no {group}={option}",
                str(option),
                existing,
                code="unknown_option",
                key=f"sweep.space.{group}",
                command=f"rlexp config list {group}",
            )
    return domain


def fit_space(
    entries: Mapping[str, ParameterEntry], groups: SearchedGroups, configurations: Configurations
) -> Space:
    """The search space, with every parameter checked in the configurations where it is active.

    Raises:
        ConfigError: A configuration lacks a parameter, or the values of one are invalid.
    """
    whens = {key: entry.when or {} for key, entry in entries.items()}
    combinations = groups.combinations()
    domains: dict[str, Domain] = {}
    for key, entry in entries.items():
        if key in groups.domains:
            domains[key] = groups.domains[key]
            continue
        admitting = [
            combination for combination in combinations if groups.admits(combination, whens[key])
        ]
        if not admitting:
            raise ConfigError(
                f"sweep.space.{key} is never active: no combination of "
                f"{', '.join(groups.domains)} meets its conditions; correct the conditions",
            )
        default = (
            None if key.startswith(SWITCH) else _common_default(key, admitting, configurations)
        )
        domains[key] = read_domain(key, entry.values, default)
    priors = {key: entry.prior for key, entry in entries.items() if entry.prior is not None}
    return make_space(domains, whens, priors)


def _common_default(
    key: str, combinations: Sequence[GroupChoices], configurations: Configurations
) -> Any:
    """The default value of a key in the first combination; all combinations must have the key."""
    values = [
        _value_in_combination(key, combination, configurations) for combination in combinations
    ]
    return values[0]


def _value_in_combination(
    key: str, combination: GroupChoices, configurations: Configurations
) -> Any:
    try:
        return value_at(configurations.composition(combination).settings, key)
    except ConfigError as error:
        where = ", ".join(f"{group}={option}" for group, option in combination.items())
        hint = f" (with {where}): write the condition with when: GROUP: OPTION" if where else ""
        raise error.rephrased(f"sweep.space: {error}{hint}") from error


def default_values(space: Space, base: Composition) -> dict[str, Any]:
    """The value of every parameter that is active in the default configuration.

    A switch is not part of a configuration: it gets the value that fits the defaults of most of
    its dependent parameters.
    """
    values: dict[str, Any] = {}
    for parameter in space.parameters:
        if not parameter.is_active(values):
            continue
        if parameter.is_switch:
            values[parameter.key] = _best_switch_value(parameter, space, base)
        else:
            values[parameter.key] = _default_value(parameter.key, base)
    return values


def _default_value(key: str, base: Composition) -> Any:
    return base.choices[key] if key in base.choices else value_at(base.settings, key)


def _best_switch_value(switch: Parameter, space: Space, base: Composition) -> Any:
    """The value of a switch that fits the defaults of most dependent parameters.

    It fits a parameter if it makes the parameter active exactly when its domain holds its default.
    """
    if not isinstance(switch.domain, Choice):
        return switch.domain.from_unit(0.5)
    dependent = [p for p in space.parameters if switch.key in p.when and not p.is_switch]

    def agreement(value: Any) -> int:
        return sum(holds(value, p.when[switch.key]) == _default_fits(p, base) for p in dependent)

    return max(switch.domain.values, key=agreement)


def _default_fits(parameter: Parameter, base: Composition) -> bool:
    try:
        value = _default_value(parameter.key, base)
    except ConfigError:
        return False
    return parameter.domain.to_unit(value) is not None
