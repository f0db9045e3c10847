"""Turns plain mappings into typed plug-ins and settings; every mistake is named, all at once."""

import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar

from rlexp.config.plain_secrets import find_plain_secrets
from rlexp.config.variables import fill_variables
from rlexp.environments.composed import ComposedTask
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Failures
from rlexp.protocol.identity import without_names
from rlexp.protocol.seeds import SeedPlan
from rlexp.store.secrets import mask, secret_values

T = TypeVar("T")

HOMES = {"section": "rlexp.reports.sections."}
"""Where the plug-ins of a group are that have no package of their own name."""
COMPONENTS = "components"
"""Key of an environment under which its components are, by name."""
PLACES = {"component": f"environment.{COMPONENTS}"}
"""Where the plug-ins of a group stand in a configuration, if not under its name."""
RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
ABSENT = {"missing", "missing_argument", "missing_keyword_only_argument"}
UNKNOWN = {"unexpected_keyword_argument", "extra_forbidden"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The whole configuration; plug-ins are validated by their own classes."""

    agent: dict[str, Any]
    algorithm: dict[str, Any]
    environment: dict[str, Any]
    executor: dict[str, Any]
    tracker: dict[str, Any] | list[str]
    experiment: str | None
    phase: Literal["test", "tuning"]
    failures: Failures
    seeds: SeedPlan
    budget: Budget
    compute: Compute


PLUG_INS = ("agent", "algorithm", "environment", "executor")


@dataclass(frozen=True, slots=True)
class Parts:
    """The plug-ins of one configuration, built."""

    agent: Any
    algorithm: Any
    environment: Any
    executor: Any
    trackers: Mapping[str, Any]


def validate(plain: Mapping[str, Any], allowed: Sequence[str] = ()) -> tuple[Root, Parts]:
    """Validate a whole configuration.

    Args:
        plain: The resolved configuration.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: Every mistake in it, on one line.
    """
    mistakes = find_plain_secrets(plain)
    root = _collect(mistakes, Root, plain, "")
    parts = [_part(mistakes, plain.get(group), group, allowed) for group in PLUG_INS]
    trackers = _named(mistakes, plain.get("tracker"), "tracker", allowed)
    if mistakes or root is None:
        raise ConfigError(_told(mistakes))
    return root, Parts(**dict(zip(PLUG_INS, parts, strict=True)), trackers=trackers)


def build(plain: Mapping[str, Any], group: str, allowed: Sequence[str] = ()) -> Any:
    """Build one plug-in from its mapping, which may hold names as records do.

    Raises:
        ConfigError: Every mistake in it, on one line.
    """
    mistakes: list[str] = []
    part = _part(mistakes, _as_configured(plain), group, allowed)
    if mistakes:
        raise ConfigError(_told(mistakes))
    return part


def _as_configured(plain: Any) -> Any:
    """A plug-in's mapping, and those of its components, without what only records hold."""
    if not isinstance(plain, Mapping):
        return plain
    part, inside = without_names(plain), plain.get(COMPONENTS)
    if not isinstance(inside, Mapping):
        return part
    return {**part, COMPONENTS: {name: _as_configured(item) for name, item in inside.items()}}


def build_named(plain: Any, group: str, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Build several plug-ins of a group, by name.

    Raises:
        ConfigError: Every mistake in them, on one line.
    """
    mistakes = find_plain_secrets({group: plain})
    built = _named(mistakes, plain, group, allowed)
    if mistakes:
        raise ConfigError(_told(mistakes))
    return built


def validate_settings(kind: type[T], plain: Mapping[str, Any], prefix: str = "") -> T:
    """Validate settings that belong to no plug-in.

    Args:
        kind: Their class.
        plain: Their values.
        prefix: What stands before their names in errors.

    Raises:
        ConfigError: Every mistake in them, on one line.
    """
    mistakes: list[str] = []
    settings = _collect(mistakes, kind, fill_variables(plain), prefix)
    if settings is None:
        raise ConfigError(_told(mistakes))
    return settings


def _told(mistakes: Sequence[str]) -> str:
    return mask("; ".join(mistakes), secret_values(os.environ))


def _part(mistakes: list[str], plain: Any, group: str, allowed: Sequence[str]) -> Any:
    if not isinstance(plain, Mapping):
        mistakes.append(f"{group} must be one of the group's options, not {plain!r}")
        return None
    try:
        target = load_target(plain.get("_target_"), group, allowed)
    except ConfigError as error:
        mistakes.append(str(error))
        return None
    composed = group == "environment"
    ours = {"_target_", COMPONENTS} if composed else {"_target_"}
    settings = {k: v for k, v in plain.items() if k not in ours}
    part = _collect(mistakes, target, fill_variables(settings), f"{group}.")
    if not composed or not plain.get(COMPONENTS):
        return part
    components = _named(mistakes, plain[COMPONENTS], "component", allowed)
    return None if part is None else ComposedTask(part, components)


def _named(mistakes: list[str], plain: Any, group: str, allowed: Sequence[str]) -> dict[str, Any]:
    """Several plug-ins of a group, by name."""
    place = PLACES.get(group, group)
    if not isinstance(plain, Mapping):
        if plain != []:
            mistakes.append(f"{place} must be a list of options, {group}=[first,second]")
        return {}
    found: dict[str, Any] = {}
    for name, part in plain.items():
        own: list[str] = []
        found[name] = _part(own, part, group, allowed)
        mistakes += [
            re.sub(rf"\b{group}(?=\.|$| must)", f"{place}.{name}", text, count=1) for text in own
        ]
    return found


def load_target(path: Any, group: str, allowed: Sequence[str] = ()) -> type:
    """Import the class that a plug-in's `_target_` names.

    Raises:
        ConfigError: It is outside the allowed packages, or there is no such dataclass.
    """
    prefixes = (HOMES.get(group, f"rlexp.{group}s."), *(f"{package}." for package in allowed))
    if not isinstance(path, str) or not path.startswith(prefixes):
        raise ConfigError(
            f"{group}._target_={path!r} is not allowed: it must start with "
            f"{' or '.join(prefixes)}; allow another package with --allow-import",
        )
    module, _, name = path.rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{group}._target_={path!r} cannot be imported: {reason}") from error
    if not isinstance(target, type) or not is_dataclass(target):
        raise ConfigError(f"{group}._target_={path!r} is no plug-in: name a dataclass")
    return target


def _collect(mistakes: list[str], kind: type[T], plain: Any, prefix: str) -> T | None:
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(kind)
    try:
        value: T = _validated(adapter, plain)
    except ValidationError as error:
        found = error.errors(include_url=False)
    else:
        return value
    if repaired := _repair(plain, found):
        return _collect(mistakes, kind, repaired, prefix)
    mistakes.extend(_explain_all(found, plain, kind, prefix))
    return None


def _validated(adapter: Any, plain: Any) -> Any:
    try:
        text = json.dumps(plain)
    except TypeError as error:
        raise ConfigError(f"a value is no plain data: {error}") from error
    return adapter.validate_json(text, strict=True, extra="forbid")


def _repair(plain: Any, found: Sequence[Any]) -> Any:
    """Take `1e6` for an integer where one is meant; nothing where that repairs nothing."""
    copy, repaired = json.loads(json.dumps(plain)), False
    for item in found:
        value = item["input"]
        if item["type"] != "int_type" or not isinstance(value, float) or not value.is_integer():
            continue
        node = copy
        path = _location(item, plain)
        for part in path[:-1]:
            node = node[part]
        if node[path[-1]] == value and isinstance(node[path[-1]], float):
            node[path[-1]], repaired = int(value), True
    return copy if repaired else None


def _explain_all(found: Sequence[Any], plain: Any, kind: type, prefix: str) -> list[str]:
    """One sentence for each place; of a union's complaints, those about the value itself."""
    places: dict[tuple[Any, ...], list[Any]] = {}
    for item in found:
        places.setdefault(_location(item, plain), []).append(item)
    sentences = []
    for location, items in places.items():
        of_range = [item for item in items if item["type"] in RANGE] or items
        told = [_explain(item, location, kind, prefix) for item in of_range]
        first, *others = dict.fromkeys(told)
        sentences.append(" or ".join([first, *(other.split(": ", 1)[-1] for other in others)]))
    return sentences


def _location(item: Any, plain: Any) -> tuple[Any, ...]:
    """Where a mistake is, without the names that pydantic gives to members of a union."""
    node, path = plain, []
    last = len(item["loc"]) - 1
    for position, part in enumerate(item["loc"]):
        inside = isinstance(node, Mapping) and part in node
        inside |= isinstance(node, list | tuple) and isinstance(part, int) and part < len(node)
        if inside:
            node = node[part]
            path.append(part)
        elif position == last and item["type"] in ABSENT | UNKNOWN:
            path.append(part)
    return tuple(path)


def _explain(item: Any, place: Sequence[Any], kind: type, prefix: str) -> str:
    """One mistake in words: where, what was given, what is allowed."""
    location = [str(part) for part in place]
    path = prefix + ".".join(location)
    if item["type"] in UNKNOWN:
        known = _fields_at(kind, location[:-1])
        hint = did_you_mean(location[-1], known)
        return f"unknown key {path!r}{hint} (there are: {', '.join(known) or 'none'})"
    if item["type"] in ABSENT:
        return f"{path} is missing"
    if item["type"] == "value_error":
        return str(item["msg"]).removeprefix("Value error, ")
    message = item["msg"]
    message = message.replace("Input should", "must", 1)
    return f"{path}={json.dumps(item['input'])}: {message}"


def _fields_at(kind: Any, path: Sequence[str]) -> list[str]:
    for part in path:
        types = {f.name: f.type for f in fields(kind)} if is_dataclass(kind) else {}
        kind = types.get(part)
    return [f.name for f in fields(kind)] if is_dataclass(kind) else []
