"""Words of the command line, in Hydra's override grammar: read, and refused where misplaced."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.budget import OPERATIONAL

EXPERIMENT_KEYS = ("experiment", "phase", "failures", "seeds", "executor", "tracker")
"""What neither a grid nor a sweep can vary: it belongs to the experiment, not to a configuration."""
OF_REPORTS = ("metric", "section")
"""Groups that no run has."""
SWEEP_GROUPS = ("tuner", "pruner", "sweep", "sweeps")
"""What only a sweep has."""
OF_THE_ATTEMPT = tuple(f"budget.{name}" for name in OPERATIONAL)
"""What a grid cannot vary either: it changes no number of a run."""

MAPPING_KEY = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""A key inside a value."""
FREE_FORM_KEYS = re.compile(
    r"(environment\.arguments|agent\.policy_kwargs|algorithm\.settings)[.=]"
)
"""Keys whose content is the library's, not ours: any may be set without a `+`."""
TEXT_VALUE = re.compile(r"(algorithm\.command=)([^'\"].*)", re.DOTALL)
"""A value that is text as it stands, braces, commas and signs included, unless it is quoted."""


def parse_words(overrides: Sequence[str]) -> list[Any]:
    """Read words as Hydra's overrides.

    Raises:
        ConfigError: A word cannot be parsed.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parsed = []
    for word in overrides:
        try:
            parsed.append(OverridesParser.create().parse_override(_quote_text(word)))
        except HydraException as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"cannot read {word!r}: {reason}; write key=value", code="wrong_type", key=word
            ) from error
    return parsed


def split_word(word: str) -> tuple[str, str]:
    """The key of a word, without what stands before it, and the text of its value."""
    key, _, value = word.lstrip("+").partition("=")
    return key, value


def format_override(key: str, value: Any) -> str:
    """The word that sets a key to a value of JSON.

    Raises:
        ConfigError: A name in the value cannot be written in the grammar.
    """
    word = f"{key}={_format_value(value, key)}"
    return f"++{word}" if FREE_FORM_KEYS.match(word) else word


def _format_value(value: Any, key: str) -> str:
    if isinstance(value, Mapping):
        for name in value:
            if not MAPPING_KEY.fullmatch(str(name)):
                raise ConfigError(f"{key}: {name!r} is no name: use letters, digits and _")
        inside = (f"{name}:{_format_value(item, key)}" for name, item in value.items())
        return "{" + ",".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_format_value(item, key) for item in value) + "]"
    if isinstance(value, str):
        return quoted(value)
    return "null" if value is None else str(value).lower()


def quoted(text: str) -> str:
    """Quote for Hydra's grammar, which reads backslashes as such but before a quote."""
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    return "'" + re.sub(r"(\\+)$", r"\1\1", escaped) + "'"


def normalise_overrides(overrides: Sequence[str]) -> list[str]:
    """The words, such that keys of free form need no `+`, and text no quotes."""
    return [f"++{word}" if FREE_FORM_KEYS.match(word) else _quote_text(word) for word in overrides]


def _quote_text(word: str) -> str:
    match = TEXT_VALUE.fullmatch(word)
    return f"{match[1]}{quoted(match[2])}" if match else word


def check_override(word: str, parsed: Any, groups: Collection[str]) -> None:
    """Refuse a word that is about something that no configuration of a run has.

    Args:
        word: As it was written.
        parsed: As Hydra reads it.
        groups: The groups there are.

    Raises:
        ConfigError: It is of reports, or names a group that does not exist.
    """
    key = parsed.key_or_group
    if key in OF_REPORTS:
        raise ConfigError(
            f"{word}: no run has a {key}, reports have: rlexp report … --set {key}=…"
        )
    if key == "tracker" and parsed.is_delete():
        raise ConfigError(f"{word}: name the trackers that are wanted, or none: tracker=[]")
    if key == "tracker" and parsed.is_sweep_override():
        names = split_word(word)[1]
        raise ConfigError(f"{word}: several trackers are a list: tracker=[{names}]")
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
    """Refuse a word about tuning where a run is meant.

    Raises:
        ConfigError: Only a sweep has it.
    """
    first = re.split(r"[./]", key)[0]
    if first not in SWEEP_GROUPS:
        return
    if first == "sweeps":
        raise ConfigError(
            f"{word}: a definition is no word of a run; use it with: rlexp sweep NAME"
        )
    what = "sweep settings" if first == "sweep" else f"a {first}"
    raise ConfigError(
        f"{word}: no run has {what}, sweeps have: rlexp sweep NAME {word.lstrip('+~')}"
    )


def choice_texts(word: str, parsed: Any) -> list[str]:
    """The values that a word chooses from, each in Hydra's grammar.

    Raises:
        ConfigError: They are no values one by one.
    """
    from hydra.errors import HydraException

    try:
        return list(parsed.sweep_string_iterator())
    except HydraException as error:
        raise ConfigError(
            f"{word}: a grid needs its values one by one: key=first,second or range(…)",
        ) from error
