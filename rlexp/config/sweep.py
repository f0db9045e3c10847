"""A sweep as asked for: composed from its definition and words, its space read and checked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rlexp.config.matrix import as_one_cell
from rlexp.config.options import DEFINITIONS
from rlexp.config.search_space import default_values, fit_space, read_groups
from rlexp.config.sources import group_options, groups
from rlexp.config.space import ParameterEntry, holds, ordered, read_entries
from rlexp.config.sweep_configurations import (
    Composition,
    Configurations,
    compose_overrides,
    copy_values,
    value_at,
)
from rlexp.config.sweep_overrides import (
    SweepOverrides,
    check_name,
    check_searchable,
    sort_overrides,
)
from rlexp.config.validate import validate_settings
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH, Space
from rlexp.protocol.sweep import SweepPlan

Lookup = Callable[[str], Any]
"""From a key to its value in the default configuration; a ConfigError where there is none."""


@dataclass(frozen=True, slots=True)
class MergedSpace:
    """Parameters by key, and the keys that are settled: fixed by a word, or taken out."""

    entries: dict[str, ParameterEntry]
    settled: frozenset[str]


def merge_overrides(
    definition: Mapping[str, ParameterEntry | None],
    overrides: SweepOverrides,
    groups: Collection[str],
) -> MergedSpace:
    """Put the words over the definition; a word with values only keeps the conditions.

    Raises:
        ConfigError: A parameter is the same for every trial, or is taken out and was never there.
    """
    fixed = [key for key in definition if _is_fixed(key, overrides.fixed, groups)]
    entries = {key: None if key in fixed else entry for key, entry in definition.items()}
    for key, entry in overrides.written.items():
        _check_taken_out(key, entry, definition)
        entries[key] = entry if entry is None else _with_conditions(definition.get(key), entry)
    settled = frozenset({*overrides.fixed, *(k for k, v in entries.items() if v is None)})
    left = {k: v for k, v in entries.items() if v is not None}
    for key in left:
        check_searchable(key, f"sweep.space.{key}")
    return MergedSpace(left, settled)


def _check_taken_out(key: str, entry: ParameterEntry | None, definition: Collection[str]) -> None:
    if entry is None and key not in definition:
        raise ConfigError.unknown(
            f"sweep.space.{key}=null takes out a parameter that the space does not have",
            key,
            definition,
            code="unknown_setting",
            key=f"sweep.space.{key}",
        )


def _with_conditions(before: ParameterEntry | None, entry: ParameterEntry) -> ParameterEntry:
    return replace(entry, when=before.when) if before and entry.when is None else entry


def _is_fixed(key: str, fixed: Collection[str], groups: Collection[str]) -> bool:
    """Whether a word gives the key a value, or a mapping that holds it."""
    return any(
        key == word or (word not in groups and key.startswith(f"{word}.")) for word in fixed
    )


def drop_settled_conditions(remaining: MergedSpace, lookup: Lookup) -> dict[str, ParameterEntry]:
    """Decide conditions on what is not searched: they always hold, or never.

    A parameter that can never be there goes where a word has settled so; else that is a mistake.

    Raises:
        ConfigError: A parameter would never be there.
    """
    entries = dict(remaining.entries)
    gone: set[str] = set()
    for key in ordered({k: e.when or {} for k, e in entries.items()}):
        when = entries[key].when or {}
        if any(
            parent in gone or not _may_hold(key, parent, allowed, remaining, lookup)
            for parent, allowed in when.items()
        ):
            gone.add(key)
            continue
        open_ = {p: a for p, a in when.items() if p in entries or not _has_value(p, lookup)}
        entries[key] = ParameterEntry(entries[key].values, open_)
    return {key: entry for key, entry in entries.items() if key not in gone}


def _may_hold(
    key: str, parent: str, allowed: tuple[Any, ...], remaining: MergedSpace, lookup: Lookup
) -> bool:
    if parent in remaining.entries:
        return True
    try:
        value = lookup(parent)
    except ConfigError as error:
        if parent in remaining.settled and parent.startswith(SWITCH):
            raise ConfigError(
                f"sweep.space.{key} depends on {parent}, which is taken out; "
                f"say {parent}=VALUE, or take {key} out too",
            ) from error
        return True
    if holds(value, allowed) or parent in remaining.settled:
        return holds(value, allowed)
    raise ConfigError(
        f"sweep.space.{key} would never be there: it depends on {parent}, which is not searched "
        f"and is {value}; search {parent} too, or correct the condition",
    )


def _has_value(key: str, lookup: Lookup) -> bool:
    try:
        lookup(key)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """What one command asks of a sweep.

    Attributes:
        plain: The default configuration, as `rlexp run` would have it.
        space: Where to search.
        default: The value of every parameter that is there in the default configuration.
        plan: How; its `lag` may be open.
        tuner: Settings of the tuner, with `_target_`.
        pruner: Settings of the pruner, with `_target_`.
        configurations: What the values of parameters lead to.
    """

    plain: dict[str, Any]
    space: Space
    default: Mapping[str, Any]
    plan: SweepPlan
    tuner: dict[str, Any]
    pruner: dict[str, Any]
    configurations: Configurations

    def configure(self, parameters: Mapping[str, Any], steps: int | None = None) -> dict[str, Any]:
        """The configuration of a trial, as `rlexp run` would have it.

        Args:
            parameters: Values of those parameters that are there.
            steps: Environment steps of each of its runs, if not those of the configuration.

        Raises:
            ConfigError: The space or the configuration has no such key.
        """
        for key in parameters:
            if key not in self.space.keys:
                raise ConfigError.unknown(
                    f"{key} is no parameter of the space",
                    key,
                    self.space.keys,
                    code="unknown_setting",
                    key=key,
                )
        real = [p.key for p in self.space.parameters if not p.is_switch and p.key in parameters]
        return self.configurations.configure({key: parameters[key] for key in real}, steps)


def compose_sweep(name: str | None, overrides: Sequence[str], folder: Path) -> SweepRequest:
    """Compose a sweep; words win over its definition.

    Args:
        name: Of a definition in `sweeps/`; without one, the words say everything.
        overrides: Overrides in Hydra's grammar. A word with several values searches them, one with a
            single value takes its key out of the space.
        folder: The study's folder, whose `conf/` and `sweeps/` win over the packaged ones.

    Raises:
        ConfigError: Something in them is unknown, mistyped or out of range.
    """
    if name is not None:
        check_name(name, folder)
    sorted_overrides = sort_overrides(overrides, folder)
    of_the_run = as_one_cell(sorted_overrides.for_hydra, folder)
    complete = [*([f"+{DEFINITIONS}={name}"] if name is not None else []), *of_the_run]
    base = compose_overrides(complete, folder)
    _check_package(base, name)
    tuner, pruner = (_plug_in(base, group, folder) for group in ("tuner", "pruner"))
    plan = _sweep_plan(base)
    configurations, space = _search_space(base, complete, sorted_overrides, folder)
    return SweepRequest(
        plain=configurations.base.of_a_run,
        space=space,
        default=default_values(space, configurations.base),
        plan=plan,
        tuner=tuner,
        pruner=pruner,
        configurations=configurations,
    )


def _check_package(base: Composition, name: str | None) -> None:
    if {DEFINITIONS, "space"} & set(base.settings):
        raise ConfigError(
            f"sweeps/{name}.yaml must begin with the line '# @package _global_', and a shared "
            "space that it includes with '# @package sweep.space'",
        )


def _search_space(
    base: Composition, complete: Sequence[str], overrides: SweepOverrides, folder: Path
) -> tuple[Configurations, Space]:
    names = groups(folder)
    definition = read_entries((base.settings.get("sweep") or {}).get("space"))

    def lookup(key: str) -> Any:
        if key in overrides.fixed and key.startswith(SWITCH):
            return overrides.fixed[key]
        return base.choices[key] if key in base.choices else value_at(base.settings, key)

    entries = drop_settled_conditions(merge_overrides(definition, overrides, names), lookup)
    chosen = read_groups(entries, names, base, folder)
    unopened = Configurations(tuple(complete), folder, tuple(chosen.domains), base)
    started = unopened.started_from(chosen.missing_defaults(base.choices))
    return started, fit_space(entries, chosen, started)


def _sweep_plan(base: Composition) -> SweepPlan:
    settings = {k: v for k, v in (base.settings.get("sweep") or {}).items() if k != "space"}
    allowed = ["space", *(f.name for f in fields(SweepPlan))]
    for key in settings:
        if key not in allowed:
            raise ConfigError.unknown(
                f"unknown key 'sweep.{key}'",
                key,
                allowed,
                code="unknown_setting",
                key=f"sweep.{key}",
            )
    return validate_settings(SweepPlan, settings, "sweep.")


def _plug_in(base: Composition, group: str, folder: Path) -> dict[str, Any]:
    settings = base.settings.get(group)
    if not isinstance(settings, Mapping):
        options = ", ".join(group_options(group, folder))
        raise ConfigError(f"a sweep needs a {group}: choose one with {group}=… ({options})")
    return {str(key): copy_values(value) for key, value in settings.items()}
