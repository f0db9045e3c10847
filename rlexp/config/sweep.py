"""A sweep request: a sweep definition and overrides, composed into settings and a search space."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rlexp.config.config_files import DEFINITIONS, group_options, groups
from rlexp.config.first_words import check_words
from rlexp.config.matrix import as_one_cell
from rlexp.config.parameter_entries import ParameterEntry, holds, ordered, read_entries
from rlexp.config.search_space import default_values, fit_space, read_groups
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
from rlexp.protocol.shared_experience import EXPERIENCE_KEY
from rlexp.protocol.space import SWITCH, Space
from rlexp.protocol.sweep import SweepPlan

Lookup = Callable[[str], Any]
"""A function from a key to its default value, which raises ConfigError for an unknown key."""


@dataclass(frozen=True, slots=True)
class MergedSpace:
    """The searched parameters, and the keys that an override fixed or removed from the space."""

    entries: dict[str, ParameterEntry]
    settled: frozenset[str]


def merge_overrides(
    definition: Mapping[str, ParameterEntry | None],
    overrides: SweepOverrides,
    groups: Collection[str],
) -> MergedSpace:
    """Merge overrides into a definition; an override with values only keeps the conditions.

    Raises:
        ConfigError: A parameter must not vary between trials, or an override removes a parameter
            that the definition does not have.
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
            f"sweep.space.{key}=null removes a parameter that the space does not have",
            key,
            definition,
            code="unknown_setting",
            key=f"sweep.space.{key}",
        )


def _with_conditions(before: ParameterEntry | None, entry: ParameterEntry) -> ParameterEntry:
    if before is None:
        return entry
    when = before.when if entry.when is None else entry.when
    return replace(entry, when=when, prior=before.prior if entry.when is None else entry.prior)


def _is_fixed(key: str, fixed: Collection[str], groups: Collection[str]) -> bool:
    """Whether an override sets the key, or a mapping that contains it."""
    # An override of a group chooses an option, which leaves the keys below it searched.
    return any(
        key == word or (word not in groups and key.startswith(f"{word}.")) for word in fixed
    )


def drop_settled_conditions(remaining: MergedSpace, lookup: Lookup) -> dict[str, ParameterEntry]:
    """Evaluate the conditions on keys that are not searched, and drop them.

    Without its searched keys, such a condition always holds or never. If it never holds because
    of an override, the parameter is dropped; otherwise the definition is wrong.

    Raises:
        ConfigError: A parameter can never be active, and no override is the reason.
    """
    entries = dict(remaining.entries)
    gone: set[str] = set()
    # Parents come first, because a parameter is dropped together with its parent.
    for key in ordered({k: e.when or {} for k, e in entries.items()}):
        when = entries[key].when or {}
        if any(
            parent in gone or not _may_hold(key, parent, allowed, remaining, lookup)
            for parent, allowed in when.items()
        ):
            gone.add(key)
            continue
        open_ = {p: a for p, a in when.items() if p in entries or not _has_value(p, lookup)}
        entries[key] = replace(entries[key], when=open_)
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
                f"sweep.space.{key} depends on {parent}, which an override removes from the "
                f"space; write {parent}=VALUE, or remove {key} too with sweep.space.{key}=null",
            ) from error
        return True
    if holds(value, allowed) or parent in remaining.settled:
        return holds(value, allowed)
    raise ConfigError(
        f"sweep.space.{key} is never active: it depends on {parent}, which is not searched "
        f"and has the value {value}; search {parent} too, or correct the condition",
    )


def _has_value(key: str, lookup: Lookup) -> bool:
    try:
        lookup(key)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A composed sweep: what to search, how, and from which default configuration.

    Attributes:
        plain: The default configuration, equal to that of `rlexp run` with the same overrides.
        space: The search space.
        default: The value of every parameter that is active in the default configuration.
        plan: Settings of the search; `lag` may be unset.
        tuner: Settings of the tuner, with `_target_`.
        pruner: Settings of the pruner, with `_target_`.
        configurations: Composes the configuration of a trial.
    """

    plain: dict[str, Any]
    space: Space
    default: Mapping[str, Any]
    plan: SweepPlan
    tuner: dict[str, Any]
    pruner: dict[str, Any]
    configurations: Configurations

    def configure(self, parameters: Mapping[str, Any], steps: int | None = None) -> dict[str, Any]:
        """The configuration of a trial, in the form that `rlexp run` uses.

        Args:
            parameters: Values of the active parameters.
            steps: Environment steps of each run, if not those of the configuration.

        Raises:
            ConfigError: The space or the configuration does not have a key.
        """
        for key in parameters:
            if key not in (*self.space.keys, EXPERIENCE_KEY):
                raise ConfigError.unknown(
                    f"{key} is not a parameter of the space",
                    key,
                    self.space.keys,
                    code="unknown_setting",
                    key=key,
                )
        real = [p.key for p in self.space.parameters if not p.is_switch and p.key in parameters]
        # A population adds the transitions that its members share.
        values = {key: parameters[key] for key in (*real, EXPERIENCE_KEY) if key in parameters}
        return self.configurations.configure(values, steps)


def compose_sweep(name: str | None, overrides: Sequence[str], folder: Path) -> SweepRequest:
    """Compose a sweep; overrides win over its definition.

    Args:
        name: The name of a definition in `sweeps/`; None for a sweep of overrides only.
        overrides: Overrides in Hydra's grammar. An override with several values adds its key to
            the space; one with a single value removes its key from the space.
        folder: The study's folder, whose `conf/` and `sweeps/` win over the packaged ones.

    Raises:
        ConfigError: The definition or an override is unknown, mistyped or out of range.
    """
    check_words(overrides, folder)
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
    # Without its package line, Hydra puts the content of a file below the name of its group.
    if {DEFINITIONS, "space"} & set(base.settings):
        raise ConfigError(
            f"sweeps/{name}.yaml must begin with the line '# @package _global_', and a file with "
            "a shared space that it includes must begin with '# @package sweep.space'",
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
