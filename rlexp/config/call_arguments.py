"""Arguments of the functions of the Python API, as the words and names that commands take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlexp.errors import ConfigError

Setting = str | Mapping[str, Any]
"""A word in Hydra's grammar, or values by key."""


def call_words(
    function: Callable[..., Any],
    settings: Sequence[Setting],
    keywords: Mapping[str, Any],
    *,
    searching: bool = False,
) -> tuple[str, ...]:
    """The settings of a call as words in Hydra's grammar.

    Args:
        function: The function that was called.
        settings: Its words and mappings.
        keywords: Its further keywords, by the first key of a setting.
        searching: Whether a text such as `"interval(0, 1)"` is a range to search.

    Raises:
        ConfigError: A setting cannot stand in a configuration, or a keyword is misspelt.
    """
    # Imported here: functions without settings do not wait for Hydra.
    from rlexp.config.override_words import check_keywords, override_words

    check_keywords(function, keywords)
    return override_words((*settings, keywords), searching=searching)


def report_words(settings: Setting | Sequence[Setting]) -> tuple[str, ...]:
    """The settings of a report as words in Hydra's grammar.

    Raises:
        ConfigError: A setting cannot stand in a configuration.
    """
    from rlexp.config.override_words import override_words

    return override_words((settings,) if isinstance(settings, str | Mapping) else settings)


def as_strings(strings: str | Sequence[str]) -> tuple[str, ...]:
    """The strings as a tuple; a single string gives a tuple of one.

    Raises:
        ConfigError: One of them is not a string.
    """
    several = (strings,) if isinstance(strings, str) else tuple(strings)
    for string in several:
        if not isinstance(string, str):
            raise ConfigError(f"{type(string).__name__} is not allowed here: write a string")
    return several
