"""Configurations between two others: with some of the changes that lead from one to the other.

Changes are found in the words of both configurations, and every configuration between them is
composed and validated like one that a user types. Settings that exist only under the value of
another one move together with it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from rlexp.app.execution.configuration_words import (
    COMPONENT_KEY,
    WRAPPING,
    ConfigurationWords,
    composed_configuration,
    sections_of,
    value_at,
    words_of,
)
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Space
from rlexp.protocol.units import differing_units

MOST_JOINED = 2
"""Most keys whose names are joined to the name of a change."""


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that move together from one configuration to the other.

    Attributes:
        name: Its short name, unique among the changes.
        groups: Groups with another option.
        keys: Dotted keys of settings.
    """

    name: str
    groups: tuple[str, ...]
    keys: tuple[str, ...]

    def covers(self, key: str) -> bool:
        """Whether a dotted key or a group belongs to the change."""
        return any(_overlap(key, mine) for mine in (*self.groups, *self.keys))


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Two configurations of one task and budget, with the words that lead to them.

    Attributes:
        old: The configuration without any change.
        new: The configuration with all changes.
        old_words: The words of `old`.
        new_words: The words of `new`.
        changes: What differs, in the order of the words.
        workspace: The workspace whose options the words name.
    """

    old: Configuration
    new: Configuration
    old_words: ConfigurationWords
    new_words: ConfigurationWords
    changes: tuple[Change, ...]
    workspace: Workspace

    @classmethod
    def of(
        cls,
        old: Configuration,
        new: Configuration,
        workspace: Workspace,
        tied: Sequence[Collection[str]] = (),
    ) -> Self:
        """The endpoints of an ablation.

        Args:
            old: The configuration without any change.
            new: The configuration with all changes.
            workspace: The workspace.
            tied: Sets of keys that move together.

        Raises:
            ConfigError: The configurations do not differ, differ in task or budget, or cannot be
                written as words.
        """
        _check_comparable(old, new)
        old_words, new_words = words_of(old, workspace), words_of(new, workspace)
        changes = _changes(old_words, new_words, tied)
        return cls(old, new, old_words, new_words, changes, workspace)

    def between(self, taken: Collection[Change], label: str) -> Configuration:
        """The old configuration with some of the changes.

        Raises:
            ConfigError: These settings do not go together.
        """
        if len(taken) == len(self.changes):
            return replace(self.new, label=label)
        if not taken:
            return replace(self.old, label=label)
        words = self._words_with(taken)
        composed = composed_configuration(words, self.workspace)
        # What counts as an equal budget must stay equal, whatever conf/ says by now.
        return replace(composed, label=label, budget=self.old.budget, compute=self.old.compute)

    def _words_with(self, taken: Collection[Change]) -> ConfigurationWords:
        groups = {group for change in taken for group in change.groups}
        keys = {key for change in taken for key in change.keys}
        return ConfigurationWords(
            _replaced(self.old_words.options, self.new_words.options, groups),
            _replaced(self.old_words.settings, self.new_words.settings, keys),
        )

    def values(self, change: Change, *, new: bool) -> dict[str, Any]:
        """The value of each key of a change in one of the configurations."""
        words = self.new_words if new else self.old_words
        sections = sections_of(self.new if new else self.old)
        options = {group: words.options.get(group) for group in change.groups}
        chosen = {
            group: None if names is None else ", ".join(names) for group, names in options.items()
        }
        return {**chosen, **{key: value_at(sections, key) for key in change.keys}}


def tied_keys(
    space: Space, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[frozenset[str]]:
    """Sets of parameters that move together between two points of a search space.

    A parameter that is active in only one of the points exists there because of the values of the
    parameters in its conditions.
    """
    active = [{p.key for p in space.active(values)} for values in (old, new)]
    return [
        frozenset({parameter.key, *parameter.when})
        for parameter in space.parameters
        if parameter.when and (parameter.key in active[0]) != (parameter.key in active[1])
    ]


def _check_comparable(old: Configuration, new: Configuration) -> None:
    if old.task != new.task:
        raise ConfigError(
            f"{old.label} is trained on {old.task} and {new.label} on {new.task}: an ablation "
            "compares configurations on one task"
        )
    if words := differing_units((c.label, c.unit) for c in (old, new)):
        raise ConfigError(
            f"budgets would be {words}, and units are never mixed: an ablation compares configurations "
            "with the same environment.unit",
            key="environment.unit",
        )
    for section in ("budget", "compute"):
        sides = [getattr(c, section).defining() for c in (old, new)]
        differing = [k for k in sides[0] if sides[0][k] != sides[1][k]]
        if differing:
            key = differing[0]
            raise ConfigError(
                f"{old.label} and {new.label} differ in {section}.{key} ({sides[0][key]} and "
                f"{sides[1][key]}): an ablation compares configurations with the same budget; "
                f"train one of them with {section}.{key}={sides[0][key]}"
            )
    if old.fingerprint == new.fingerprint:
        raise ConfigError(
            f"{old.label} and {new.label} are the same configuration: nothing differs, so there is "
            "nothing to ablate"
        )


def _changes(
    old: ConfigurationWords, new: ConfigurationWords, tied: Sequence[Collection[str]]
) -> tuple[Change, ...]:
    groups = _differing(old.options, new.options)
    keys = _differing(old.settings, new.settings)
    clusters = [[item] for item in (*groups, *keys)]
    for tie in _ties(groups, keys, tied):
        joined = [c for c in clusters if any(_overlap(i, t) for i in c for t in tie)]
        if len(joined) > 1:
            first = clusters.index(joined[0])
            clusters = [c for c in clusters if c not in joined]
            clusters.insert(first, [item for cluster in joined for item in cluster])
    names = _names(clusters)
    return tuple(
        Change(
            name,
            tuple(item for item in cluster if item in groups),
            tuple(item for item in cluster if item not in groups),
        )
        for name, cluster in zip(names, clusters, strict=True)
    )


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        key
        for key in dict.fromkeys((*old, *new))
        if (key in old) != (key in new) or canonical(old[key]) != canonical(new[key])
    ]


def _ties(
    groups: Sequence[str], keys: Sequence[str], tied: Sequence[Collection[str]]
) -> Iterator[Collection[str]]:
    """Sets of items that move together: settings of another option, and those that are tied."""
    yield from tied
    for group in groups:
        prefix = COMPONENT_KEY if group in WRAPPING else f"{group}."
        yield [group, *(key for key in keys if key.startswith(prefix))]
    # A mapping that is set as a whole moves with settings inside it.
    yield from ([key, other] for key in keys for other in keys if other.startswith(f"{key}."))


def _overlap(first: str, second: str) -> bool:
    return (
        first == second or first.startswith(f"{second}.") or second.startswith(f"{first}.")
    ) and ("." in first) == ("." in second)


def _names(clusters: Sequence[Sequence[str]]) -> list[str]:
    """A short name for each cluster: the last parts of its keys, or whole keys where needed."""
    short = [item.rpartition(".")[2] for cluster in clusters for item in cluster]
    names = []
    for cluster in clusters:
        parts = [
            last if short.count(last := item.rpartition(".")[2]) == 1 else item for item in cluster
        ]
        more = len(parts) - MOST_JOINED
        names.append("+".join(parts) if more <= 0 else f"{parts[0]}+{more + 1} more")
    return names


def _replaced(
    old: Mapping[str, Any], new: Mapping[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """The old mapping, in which some keys are as in the new one."""
    result = dict(old)
    for key in keys:
        if key in new:
            result[key] = new[key]
        else:
            result.pop(key, None)
    return result
