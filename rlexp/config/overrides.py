"""Overrides of the command line in Hydra's grammar: parsing, formatting and first checks."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.budget import LEAN, OPERATIONAL

EXPERIMENT_KEYS = ("experiment", "phase", "failures", "seeds", "executor", "tracker")
"""Keys of the whole experiment: neither a grid nor a sweep can vary them."""
SEED_LISTS = ("seeds.tuning", "seeds.selection", "seeds.test")
"""Keys whose value is a number of seeds, or a list of seeds."""
REPORT_GROUPS = ("metric", "section")
"""Groups that only reports have."""
SWEEP_GROUPS = ("tuner", "pruner", "sweep", "sweeps")
"""Groups that only sweeps have."""
ATTEMPT_KEYS = (*(f"budget.{name}" for name in OPERATIONAL), f"compute.{LEAN}")
"""Keys that do not change the results of a run; a grid cannot vary them either."""

CONSTANT = re.compile(r"null|true|false|nan|inf", re.IGNORECASE)
"""A word that Hydra's grammar takes for a constant."""
MAPPING_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
"""A key of a mapping inside a value, unless it is a `CONSTANT`."""
BARE = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
"""A text that Hydra's grammar takes without quotes, unless it is a `CONSTANT`."""
FREE_FORM_KEYS = re.compile(
    r"(environment\.arguments|environment\.measures|agent\.policy_kwargs|algorithm\.settings"
    r"|callback\.\w+\.values)[.=]"
)
"""Keys with free content, such as the arguments of a library. Any key below them needs no `+`."""
TEXT_VALUE = re.compile(r"(algorithm\.command=)([^'\"].*)", re.DOTALL)
"""An override whose unquoted value is text, including braces, commas and signs."""


def parse_overrides(overrides: Sequence[str]) -> list[Any]:
    """Parse overrides with Hydra's parser.

    Raises:
        ConfigError: An override cannot be parsed.
    """
    if not overrides:
        # A command without overrides does without the import, which takes a third of a second.
        return []
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parsed = []
    for word in overrides:
        try:
            parsed.append(OverridesParser.create().parse_override(_quote_text(word)))
        except HydraException as error:
            reason = str(error).splitlines()[0]
            hint = f"{reason}; write KEY=VALUE" if "=" in word else f"write {word}=VALUE"
            raise ConfigError(
                f"cannot read {word!r}: {hint}", code="wrong_type", key=word
            ) from error
    return parsed


def split_override(word: str) -> tuple[str, str]:
    """The key of an override, without a leading `+`, and the text of its value."""
    key, _, value = word.lstrip("+").partition("=")
    return key, value


def format_override(key: str, value: Any) -> str:
    """The override that sets a key to a JSON value.

    Raises:
        ConfigError: The value holds a key that Hydra's grammar cannot express.
    """
    word = f"{key}={_format_value(value, key)}"
    # A free-form key may exist or not: `++` is right in both cases, `+` and no sign in one each.
    return f"++{word}" if FREE_FORM_KEYS.match(word) else word


def _format_value(value: Any, key: str) -> str:
    if isinstance(value, Mapping):
        for name in value:
            if not MAPPING_KEY.fullmatch(str(name)) or CONSTANT.fullmatch(str(name)):
                raise ConfigError(
                    f"{key}: {name!r} is not a valid key: use letters, digits, _, . and -, and none "
                    "of null, true, false, nan and inf"
                )
        inside = (f"{name}:{_format_value(item, key)}" for name, item in value.items())
        return "{" + ",".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_format_value(item, key) for item in value) + "]"
    if isinstance(value, str):
        return quoted(value)
    return "null" if value is None else str(value).lower()


def is_bare(text: str) -> bool:
    """Whether a text needs no quotes in Hydra's grammar."""
    return BARE.fullmatch(text) is not None and not CONSTANT.fullmatch(text)


def quoted(text: str) -> str:
    """A text in quotes for Hydra's grammar."""
    # Hydra keeps a backslash as it is, except before a quote, where two stand for one.
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    # Backslashes at the end stand before the closing quote, so they are doubled as well.
    return "'" + re.sub(r"(\\+)$", r"\1\1", escaped) + "'"


def normalise_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides with `++` before free-form keys and with quotes around free text."""
    return [f"++{word}" if FREE_FORM_KEYS.match(word) else _quote_text(word) for word in overrides]


def _quote_text(word: str) -> str:
    match = TEXT_VALUE.fullmatch(word)
    return f"{match[1]}{quoted(match[2])}" if match else word


def check_override(word: str, parsed: Any, groups: Collection[str]) -> None:
    """Refuse an override of a key that the configuration of a run does not have.

    Args:
        word: The override as the user wrote it.
        parsed: The override as Hydra parsed it.
        groups: The names of all groups.

    Raises:
        ConfigError: The key belongs to reports, or the group does not exist.
    """
    key = parsed.key_or_group
    if key in REPORT_GROUPS:
        raise ConfigError(
            f"{word}: {key} belongs to reports, not to runs; use it with: "
            f"rlexp report … --set {key}=…"
        )
    if key == "tracker" and parsed.is_delete():
        raise ConfigError(
            f"{word}: trackers cannot be deleted one by one: write the list of all trackers, "
            "tracker=[mlflow,wandb], or tracker=[] for none"
        )
    if key == "tracker" and parsed.is_sweep_override():
        names = split_override(word)[1]
        raise ConfigError(f"{word}: several trackers must be a list: write tracker=[{names}]")
    if parsed.is_add() and key not in groups and "." not in key and "/" not in key:
        raise ConfigError.unknown(
            f"{word}: there is no group {key!r}",
            key,
            sorted(groups),
            code="unknown_group",
            key=key,
            command="rlexp config list",
        )


def check_no_sweep_override(word: str, key: str) -> None:
    """Refuse an override that only `rlexp sweep` understands.

    Raises:
        ConfigError: The key belongs to sweeps.
    """
    first = re.split(r"[./]", key)[0]
    if first not in SWEEP_GROUPS:
        return
    if first == "sweeps":
        raise ConfigError(
            f"{word}: sweep definitions cannot be used with `rlexp run`; "
            "use them with: rlexp sweep NAME"
        )
    what = "sweep settings belong" if first == "sweep" else f"{first} belongs"
    raise ConfigError(
        f"{word}: {what} to sweeps, not to runs; use it with: rlexp sweep NAME {word.lstrip('+~')}"
    )


def choice_texts(word: str, parsed: Any) -> list[str]:
    """The values that an override chooses from, each in Hydra's grammar.

    Raises:
        ConfigError: The values are an interval or a pattern, which a grid cannot list.
    """
    from hydra.errors import HydraException

    try:
        return list(parsed.sweep_string_iterator())
    except HydraException as error:
        raise ConfigError(
            f"{word}: a grid needs a list of values: write key=first,second or key=range(…)",
        ) from error


def lacking_option(
    error: ConfigError,
    groups: Sequence[Sequence[tuple[Any, str]]],
    chosen: Sequence[str],
    exists: Callable[[Sequence[str]], bool],
) -> ConfigError:
    """The error of an unknown key; if only some compared options have it, with the way to compare them.

    Args:
        error: The error.
        groups: The compared options of each group, parsed and as words.
        chosen: The option of each group that led to the error.
        exists: Whether the key exists with other options.
    """
    key = error.key or ""
    for choices, option in zip(groups, chosen, strict=True):
        if error.code != "unknown_setting" or split_override(option)[0] != key.partition(".")[0]:
            continue
        for _, other in choices:
            with suppress(ConfigError):
                if exists([other if word == option else word for word in chosen]):
                    return error.rephrased(
                        f"unknown key {key!r}: {other} has it, and {option} does not; to compare "
                        "options with settings of their own, give each variant of a study file its "
                        "words: rlexp init --study"
                    )
    return error
