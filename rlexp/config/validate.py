"""Validation: from dictionaries to typed settings and plug-ins, with all mistakes in one error."""

import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args, get_origin

from rlexp.algorithms.schedules import may_change
from rlexp.config.callback_classes import as_plug_in, is_library_callback
from rlexp.config.secret_check import fill_variables, find_secrets
from rlexp.environments.composed import ComposedTask
from rlexp.errors import ConfigError
from rlexp.protocol.budget import RESTARTS, Budget, Compute
from rlexp.protocol.experiment import Failures
from rlexp.protocol.identity import without_names
from rlexp.protocol.seeds import SeedPlan
from rlexp.store.secrets import mask, secret_values

T = TypeVar("T")

PLUG_IN_PACKAGES = {"section": "rlexp.reports.sections.", "replay": "rlexp.replay."}
"""Packages of the plug-ins of a group, if not `rlexp.GROUPs.`"""
COMPONENTS = "components"
"""The key of an environment that holds its components by name."""
CONFIGURATION_KEYS = {"component": f"environment.{COMPONENTS}"}
"""Keys of the plug-ins of a group in a configuration, if not the name of the group."""
RANGE_ERRORS = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "finite_number",
}
MISSING_ERRORS = {"missing", "missing_argument", "missing_keyword_only_argument"}
TYPE_ERRORS = {"float_type", "int_type", "bool_type", "string_type"}
SHAPE = "shape"
"""The key that names the form of a schedule."""
STEPS = "steps"
"""The word for the form of a schedule by steps."""
UNKNOWN_KEY_ERRORS = {"unexpected_keyword_argument", "extra_forbidden"}
CHOICE_ERRORS = {"literal_error", "enum"}
QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedSettings:
    """The whole configuration. The classes of the plug-ins validate their own settings."""

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
    callback: dict[str, Any] | list[str] = field(default_factory=dict)
    replay: dict[str, Any] | None = None
    dataset: dict[str, Any] | None = None


PLUG_INS = ("agent", "algorithm", "environment", "executor")
LATER_GROUPS = ("replay", "dataset")
"""Groups that a study's conf/config.yaml may not have, because they came later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlugIns:
    """The built plug-ins that determine how a run learns."""

    agent: Any
    algorithm: Any
    environment: Any
    replay: Any = None
    dataset: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugIns(LearningPlugIns):
    """All built plug-ins of one configuration."""

    executor: Any
    trackers: Mapping[str, Any]
    callbacks: Mapping[str, Any]


def validate(
    settings: Mapping[str, Any], allowed: Sequence[str] = ()
) -> tuple[ValidatedSettings, PlugIns]:
    """Validate a whole configuration and build its plug-ins.

    Args:
        settings: The resolved configuration.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: All mistakes of the configuration, on one line.
    """
    mistakes = _secret_errors(settings)
    root = _validate_into(mistakes, ValidatedSettings, settings, "")
    if root is not None and root.budget.restarts is not None:
        mistakes.append(_restarts_error())
    parts = [_build_plug_in(mistakes, settings.get(group), group, allowed) for group in PLUG_INS]
    # A study's conf/config.yaml from before these groups existed chooses no option of them.
    later = {
        group: _build_plug_in(mistakes, settings[group], group, allowed)
        for group in LATER_GROUPS
        if settings.get(group) is not None
    }
    trackers = _build_named_plug_ins(mistakes, settings.get("tracker"), "tracker", allowed)
    named = settings.get("callback") or {}
    callbacks = _build_named_plug_ins(mistakes, named, "callback", allowed)
    if mistakes or root is None:
        raise _combined(mistakes)
    every = dict(zip(PLUG_INS, parts, strict=True))
    return root, PlugIns(**every, **later, trackers=trackers, callbacks=callbacks)


def build(settings: Mapping[str, Any], group: str, allowed: Sequence[str] = ()) -> Any:
    """Build one plug-in from its settings, as configured or as recorded.

    Recorded settings also hold the identity of the plug-in, which is ignored.

    Raises:
        ConfigError: All mistakes of the settings, on one line.
    """
    mistakes: list[ConfigError] = []
    part = _build_plug_in(mistakes, _without_recorded_names(settings), group, allowed)
    if mistakes:
        raise _combined(mistakes)
    return part


def _without_recorded_names(settings: Any) -> Any:
    """The settings of a plug-in and its components without the identities that records add."""
    if not isinstance(settings, Mapping):
        return settings
    part, inside = without_names(settings), settings.get(COMPONENTS)
    if not isinstance(inside, Mapping):
        return part
    return {
        **part,
        COMPONENTS: {name: _without_recorded_names(item) for name, item in inside.items()},
    }


def build_named(settings: Any, group: str, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Build several plug-ins of a group, by name.

    Raises:
        ConfigError: All mistakes of their settings, on one line.
    """
    mistakes = _secret_errors({group: settings})
    if isinstance(settings, Mapping):
        settings = {name: _without_recorded_names(part) for name, part in settings.items()}
    built = _build_named_plug_ins(mistakes, settings, group, allowed)
    if mistakes:
        raise _combined(mistakes)
    return built


def validate_settings(kind: type[T], settings: Mapping[str, Any], prefix: str = "") -> T:
    """Validate settings that belong to no plug-in.

    Args:
        kind: The dataclass of the settings.
        settings: The values.
        prefix: Text before the keys in errors, such as `sweep.`.

    Raises:
        ConfigError: All mistakes of the settings, on one line.
    """
    mistakes: list[ConfigError] = []
    validated = _validate_into(mistakes, kind, fill_variables(settings), prefix)
    if validated is None:
        raise _combined(mistakes)
    return validated


def validate_arguments(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """Validate arguments that another program gives; none of them may refer to a variable.

    Args:
        kind: The dataclass of the arguments.
        arguments: The values.

    Raises:
        ConfigError: All mistakes of the arguments, on one line.
    """
    mistakes: list[ConfigError] = []
    # A reference would be filled in, and an error would show the value of the variable.
    if "${" in json.dumps(arguments):
        raise ConfigError(
            "an argument refers to another value or to an environment variable with ${…}: write "
            "the value itself",
            code="not_allowed",
        )
    validated = _validate_into(mistakes, kind, arguments, "")
    if validated is None:
        raise _combined(mistakes)
    return validated


def _restarts_error() -> ConfigError:
    key = f"budget.{RESTARTS}"
    text = f"{key} is set by rlexp extend alone: leave it out, or type rlexp extend EXPERIMENT"
    return ConfigError(text, code="not_allowed", key=key)


def _secret_errors(settings: Mapping[str, Any]) -> list[ConfigError]:
    return [ConfigError(sentence) for sentence in find_secrets(settings)]


def _combined(mistakes: Sequence[ConfigError]) -> ConfigError:
    """All mistakes as one error, with the code, the key and the allowed values of the first."""
    first = mistakes[0] if mistakes else ConfigError()
    # A mistake quotes the given value, which may come from a secret environment variable.
    return first.rephrased(mask("; ".join(map(str, mistakes)), secret_values(os.environ)))


def _build_plug_in(
    mistakes: list[ConfigError], settings: Any, group: str, allowed: Sequence[str]
) -> Any:
    if not isinstance(settings, Mapping):
        text = f"{group} must be one of the group's options, not {settings!r}"
        command = f"rlexp config list {group}"
        mistakes.append(ConfigError(text, code="unknown_option", key=group, command=command))
        return None
    try:
        target = load_target(settings.get("_target_"), group, allowed)
    except ConfigError as error:
        mistakes.append(error)
        return None
    composed = group == "environment"
    ours = {"_target_", COMPONENTS} if composed else {"_target_"}
    fields = {k: v for k, v in settings.items() if k not in ours}
    part = _validate_into(mistakes, target, fill_variables(fields), f"{group}.")
    if not composed or not settings.get(COMPONENTS):
        return part
    components = _build_named_plug_ins(mistakes, settings[COMPONENTS], "component", allowed)
    return None if part is None else ComposedTask(part, components)


def _build_named_plug_ins(
    mistakes: list[ConfigError], settings: Any, group: str, allowed: Sequence[str]
) -> dict[str, Any]:
    """Several plug-ins of a group, by name."""
    key = CONFIGURATION_KEYS.get(group, group)
    if not isinstance(settings, Mapping):
        if settings != []:
            text = f"{key} must be a list of options, {group}=[first,second]"
            mistakes.append(ConfigError(text, code="wrong_type", key=key))
        return {}
    plug_ins: dict[str, Any] = {}
    for name, part in settings.items():
        in_plug_in: list[ConfigError] = []
        plug_ins[name] = _build_plug_in(in_plug_in, part, group, allowed)
        mistakes += [_with_path(mistake, group, f"{key}.{name}") for mistake in in_plug_in]
    return plug_ins


def _with_path(mistake: ConfigError, group: str, path: str) -> ConfigError:
    """The mistake of a plug-in, with the key of the plug-in in the configuration."""

    def with_path(text: str) -> str:
        return re.sub(rf"\b{group}(?=\.|$| must)", path, text, count=1)

    return ConfigError(
        with_path(str(mistake)),
        code=mistake.code,
        key=mistake.key and with_path(mistake.key),
        allowed=mistake.allowed,
        command=mistake.command,
    )


def load_target(path: Any, group: str, allowed: Sequence[str] = ()) -> type:
    """Import the class that a plug-in's `_target_` names.

    Raises:
        ConfigError: The class is outside the allowed packages, or is not an importable dataclass.
    """
    prefixes = (
        PLUG_IN_PACKAGES.get(group, f"rlexp.{group}s."),
        *(f"{package}." for package in allowed),
    )
    # Checked before the import, which would run code that a foreign configuration names.
    if not isinstance(path, str) or not path.startswith(prefixes):
        raise ConfigError(
            f"{group}._target_={path!r} is not allowed: it must start with "
            f"{' or '.join(prefixes)}; allow another package with --allow-import",
            code="not_allowed",
            key=f"{group}._target_",
            allowed=prefixes,
        )
    module, _, name = path.rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs arbitrary code, which may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{group}._target_={path!r} cannot be imported: {reason}") from error
    if group == "callback" and is_library_callback(target) and not is_dataclass(target):
        return as_plug_in(target)
    if not isinstance(target, type) or not is_dataclass(target):
        raise ConfigError(
            f"{group}._target_={path!r} is not a plug-in: write the path of a dataclass"
        )
    return target


def _validate_into(
    mistakes: list[ConfigError], kind: type[T], settings: Any, prefix: str
) -> T | None:
    from pydantic import ValidationError

    try:
        adapter: Any = _adapter_of(kind)  # type: ignore[arg-type]
        value: T = _validated(adapter, settings)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    else:
        return value
    # Validate once more after the repair; a repair that changes nothing returns None, so this ends.
    if repaired := _repair(settings, problems):
        return _validate_into(mistakes, kind, repaired, prefix)
    mistakes.extend(_explain_problems(problems, settings, kind, prefix))
    return None


@lru_cache(maxsize=256)
def _adapter_of(kind: Any) -> Any:
    """What validates settings of a class; made once, because a grid has many of one class."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _validated(adapter: Any, settings: Any) -> Any:
    try:
        text = json.dumps(settings)
    except TypeError as error:
        raise ConfigError(
            f"a value is not JSON: {error}; use numbers, texts, lists and mappings"
        ) from error
    # Through JSON, pydantic takes a list for a tuple and a text for an enum, and stays strict
    # about everything else.
    return adapter.validate_json(text, strict=True, extra="forbid")


def _repair(settings: Any, problems: Sequence[Any]) -> Any:
    """The settings with whole floats (`1e6`) as integers where required; None without a change."""
    # YAML and Hydra read 1e6 as a float, and users write step counts like this.
    copy, repaired = json.loads(json.dumps(settings)), False
    for item in problems:
        value = item["input"]
        if item["type"] != "int_type" or not isinstance(value, float) or not value.is_integer():
            continue
        node = copy
        path = _location(item, settings)
        for part in path[:-1]:
            node = node[part]
        # A union reports a value once for each member: after the first time it is an integer.
        if node[path[-1]] == value and isinstance(node[path[-1]], float):
            node[path[-1]], repaired = int(value), True
    return copy if repaired else None


def _explain_problems(
    problems: Sequence[Any], settings: Any, kind: type, prefix: str
) -> list[ConfigError]:
    """One mistake for each key with problems.

    For a union, pydantic reports a problem for every member. Problems inside a value say more than
    that the value should have another form, and problems of range, if any, say most.
    """
    places: dict[tuple[Any, ...], list[Any]] = {}
    for item in _of_meant_forms(problems, settings):
        places.setdefault(_location(item, settings), []).append(item)
    shapeless = {at[:-1] for at, items in places.items() if _lacks_shape(at, items)}
    mistakes = [_shapeless_error(prefix + ".".join(map(str, each))) for each in sorted(shapeless)]
    for location, items in places.items():
        if location[:-1] in shapeless:
            continue
        depth = len(location)
        if any(len(other) > depth and other[:depth] == location for other in places):
            continue
        of_range = [item for item in items if item["type"] in RANGE_ERRORS] or items
        explained = [_explain_problem(item, location, kind, prefix) for item in of_range]
        first, *others = dict.fromkeys(str(mistake) for mistake in explained)
        others = [other.split(": ", 1)[-1].removeprefix("must be ") for other in others]
        text = " or ".join([first, *others])
        mistakes.append(explained[0].rephrased(text))
    return mistakes


def _lacks_shape(location: tuple[Any, ...], items: Sequence[Any]) -> bool:
    """Whether problems are that a mapping in place of a value does not name its form."""
    # The name of the form stands before the key in the path of pydantic, and not in that of settings.
    return location[-1:] == (SHAPE,) and all(
        item["type"] in MISSING_ERRORS and len(item["loc"]) > len(location) for item in items
    )


def _shapeless_error(path: str) -> ConfigError:
    """The error of a mapping that is no schedule, where a value or a schedule is expected."""
    example = f"'{path}={{shape: steps, steps: [0, 1000], values: [FIRST, SECOND]}}'"
    return ConfigError(
        f"{path} is one value, or a schedule whose mapping has a shape: write {path}=VALUE or "
        f"{example}",
        code="wrong_type",
        key=path,
    )


def _of_meant_forms(problems: Sequence[Any], settings: Any) -> list[Any]:
    """The problems without those of forms of a setting that its word for the form rules out.

    A mapping may have one of several forms (`shape: steps`), and pydantic reports a problem for each.
    """
    forms: dict[tuple[Any, ...], set[Any]] = {}
    others: dict[tuple[Any, ...], set[Any]] = {}
    for item in problems:
        prefix = item["loc"][:-2]
        if item["type"] == "literal_error" and prefix and _is_form(item["loc"], settings):
            forms.setdefault(prefix, set()).add(item["loc"][-2])
    for prefix, ruled_out in forms.items():
        members = {i["loc"][len(prefix)] for i in problems if _is_inside(i, prefix)}
        others[prefix] = members - ruled_out
    return [item for item in problems if not _is_ruled_out(item, forms, others)]


def _is_form(location: Sequence[Any], settings: Any) -> bool:
    """Whether the last part but one of a location names a form, and not a key of the settings."""
    node = settings
    for part in location[:-2]:
        inside = isinstance(node, Mapping) and part in node
        node = node[part] if inside else None
    return isinstance(node, Mapping) and location[-2] not in node


def _is_inside(item: Any, prefix: tuple[Any, ...]) -> bool:
    """Whether a problem is one of a mapping of one of the forms at a prefix of its location."""
    location, depth = item["loc"], len(prefix)
    of_mapping = len(location) > depth + 1 or item["type"] == "value_error"
    return of_mapping and len(location) > depth and tuple(location[:depth]) == prefix


def _is_ruled_out(
    item: Any,
    forms: Mapping[tuple[Any, ...], set[Any]],
    others: Mapping[tuple[Any, ...], set[Any]],
) -> bool:
    location = item["loc"]
    for prefix, ruled_out in forms.items():
        if tuple(location[: len(prefix)]) != prefix or len(location) <= len(prefix):
            continue
        # Where no form is meant, the word for the form is the mistake.
        if others[prefix]:
            return location[len(prefix)] not in others[prefix]
        return location[len(prefix)] not in ruled_out or item["type"] != "literal_error"
    return False


def _location(item: Any, settings: Any) -> tuple[Any, ...]:
    """The path of a problem in the settings."""
    # pydantic puts the names of union members into the path; a part is kept if the settings have it.
    node, path = settings, []
    last = len(item["loc"]) - 1
    for position, part in enumerate(item["loc"]):
        inside = isinstance(node, Mapping) and part in node
        inside |= isinstance(node, list | tuple) and isinstance(part, int) and part < len(node)
        if inside:
            node = node[part]
            path.append(part)
        elif position == last and item["type"] in MISSING_ERRORS | UNKNOWN_KEY_ERRORS:
            path.append(part)
    return tuple(path)


def _explain_problem(
    item: Any, location_parts: Sequence[Any], kind: type, prefix: str
) -> ConfigError:
    """A problem of pydantic as an error: the key, the given value and what is allowed."""
    location = [str(part) for part in location_parts]
    path = prefix + ".".join(location)
    if item["type"] in UNKNOWN_KEY_ERRORS:
        allowed = _fields_at(kind, location[:-1])
        text = f"unknown key {path!r}"
        return ConfigError.unknown(text, location[-1], allowed, code="unknown_setting", key=path)
    if item["type"] in MISSING_ERRORS:
        return ConfigError(
            f"{path} is missing: give it a value with {path}=…", code="missing_value", key=path
        )
    if item["type"] == "value_error":
        return _class_error(item, path)
    return _value_error(item, path, kind)


def _value_error(item: Any, path: str, kind: type) -> ConfigError:
    """The error of a value of another type, out of its range, or that is no choice."""
    given = item["input"]
    if isinstance(given, Mapping) and given.get("shape") == STEPS and item["type"] in TYPE_ERRORS:
        return _constant_error(path, kind)
    message = str(item["msg"])
    text = f"{path}={json.dumps(item['input'])}: {_in_words(message)}"
    if item["type"] in RANGE_ERRORS:
        bounds = [message.removeprefix("Input should be ")]
        return ConfigError(text, code="out_of_range", key=path, allowed=bounds)
    if item["type"] in CHOICE_ERRORS:
        values = QUOTED.findall(str(item["ctx"]["expected"]))
        return ConfigError(text, code="unknown_value", key=path, allowed=values)
    return ConfigError(text, code="wrong_type", key=path)


def _constant_error(path: str, kind: type) -> ConfigError:
    """The error of a schedule for a setting that has one value for the whole training."""
    changing = [f.name for f in fields(kind) if may_change(f.type)] if is_dataclass(kind) else []
    text = f"{path} cannot change while a run trains: give it one value"
    names = f"; these settings can change: {', '.join(changing)}" if changing else ""
    return ConfigError(f"{text}{names}", code="wrong_type", key=path, allowed=changing)


def _in_words(message: str) -> str:
    """A message of pydantic about a value, in the words of a YAML file."""
    message = message.replace("Input should", "must", 1).replace("be an object", "be a mapping")
    message = message.replace("be a valid ", "be a ").replace("be a integer", "be an integer")
    return message.replace("a array", "a list").replace("an array", "a list")


def _class_error(item: Any, path: str) -> ConfigError:
    """The error that a class raised about its own settings."""
    text = str(item["msg"]).removeprefix("Value error, ")
    raised = item.get("ctx", {}).get("error")
    if isinstance(raised, ConfigError):
        # The class of a nested setting does not know its key.
        nested = raised.key is None and "." in path.rstrip(".") and path not in text
        return raised.rephrased(f"{path}: {text}" if nested else text)
    return ConfigError(text, key=path.removesuffix(".") or None)


def _fields_at(kind: Any, path: Sequence[str]) -> list[str]:
    for part in path:
        if get_origin(kind) is dict:
            # A mapping has free keys; its values have a class.
            kind = get_args(kind)[1]
            continue
        types = {f.name: f.type for f in fields(kind)} if is_dataclass(kind) else {}
        kind = types.get(part)
    return [f.name for f in fields(kind)] if is_dataclass(kind) else []
