"""The space of a sweep, fitted to the configurations that it leads to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.sources import group_options
from rlexp.config.space import ParameterEntry, holds, make_space, ordered, read_domain
from rlexp.config.sweep_configurations import Composition, Configurations, value_at
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH, Choice, Domain, Parameter, Space

GroupChoices = Mapping[str, str]
"""An option for each group that is searched and is there."""


@dataclass(frozen=True, slots=True)
class SearchedGroups:
    """The groups that a sweep chooses from, those before others that these depend on.

    Attributes:
        domains: The options of each.
        whens: The conditions of each.
    """

    domains: Mapping[str, Choice]
    whens: Mapping[str, Mapping[str, tuple[Any, ...]]]

    def combinations(self) -> list[dict[str, str]]:
        """Every choice of options that a trial may make."""
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
        if not there or set(when) - set(self.domains):
            yield dict(combination)

    def admits(self, combination: GroupChoices, when: Mapping[str, tuple[Any, ...]]) -> bool:
        """Whether conditions on groups hold, whatever else they ask for."""
        return all(
            group in combination and holds(combination[group], allowed)
            for group, allowed in when.items()
            if group in self.domains
        )

    def missing_defaults(self, chosen: GroupChoices) -> dict[str, str]:
        """First options, for groups whose default option is not among those searched."""
        now, missing = dict(chosen), {}
        for group, domain in self.domains.items():
            if domain.position(now.get(group)) is None and self.admits(now, self.whens[group]):
                now[group] = missing[group] = domain.values[0]
        return missing


def read_groups(
    entries: Mapping[str, ParameterEntry], names: Sequence[str], base: Composition, folder: Path
) -> SearchedGroups:
    """The groups among the parameters.

    Args:
        entries: The parameters, as they are written.
        names: The groups there are.
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
            f"sweep.space.{group} is a group: choose from its options ({', '.join(existing)})"
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
    """Read every parameter against the configurations in which it is there.

    Raises:
        ConfigError: A configuration lacks a key, or values are none.
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
                f"sweep.space.{key} would never be there: no combination of "
                f"{', '.join(groups.domains)} meets its conditions; correct them",
            )
        default = (
            None if key.startswith(SWITCH) else _common_default(key, admitting, configurations)
        )
        domains[key] = read_domain(key, entry.values, default)
    return make_space(domains, whens)


def _common_default(
    key: str, combinations: Sequence[GroupChoices], configurations: Configurations
) -> Any:
    """The value that a key has by default in the first combination; it must be in all of them."""
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
        hint = f", where {where}; say with when: where it is there" if where else ""
        raise error.rephrased(f"sweep.space: {error}{hint}") from error


def default_values(space: Space, base: Composition) -> dict[str, Any]:
    """The value of every parameter that is there in the default configuration.

    A switch has none of its own: it takes the value that agrees best with what depends on it.
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
    """The value at which most parameters are there just where their default is one of theirs."""
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
