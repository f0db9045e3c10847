"""Completes the words of a command line: groups, their options, dotted keys and values.

A shell waits for this at every press of a key: neither Hydra nor pydantic is imported, and only the
files of the settings in question are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rlexp.config.config_files import (
    DEFINITIONS,
    defaults,
    group_options,
    groups,
    options,
    search_path,
)
from rlexp.config.option_lookup import read_option
from rlexp.config.overrides import (
    REPORT_GROUPS,
    SWEEP_GROUPS,
    format_override,
    is_bare,
    split_override,
)
from rlexp.config.word_search import (
    PREFIXES,
    WITHOUT_SETTINGS,
    SettingEntry,
    file_settings,
)
from rlexp.protocol.experiment import Failures
from rlexp.protocol.measures import SCORE_RULES

CHOICES: Mapping[str, Sequence[str]] = {
    "phase": ("test", "tuning"),
    "failures": get_args(Failures),
    "budget.score": SCORE_RULES,
    "compute.device": ("cpu", "cuda", "mps"),
}
"""The values of settings that take one of a few words."""
RUN_FILES = ("config.yaml",)
"""Files with settings outside groups, for commands that train without a search."""
SWEEP_FILES = ("config.yaml", "sweep.yaml")
"""The same for sweeps."""
LIST_MARKS = ",[ "
"""Characters after which another value begins."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A word that may follow, with its meaning; the meaning may be empty."""

    word: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class WordCompleter:
    """Completes words for one command.

    Attributes:
        folder: The study's folder, whose `conf/` wins over the packaged one.
        words: The complete words of the command line, which choose options of groups.
        sweeping: Whether the command is a sweep, which has further groups and settings.
    """

    folder: Path
    words: Sequence[str]
    sweeping: bool = False

    def complete(self, incomplete: str) -> list[Completion]:
        """The words that begin with an incomplete one.

        A shell adds a space after a single answer. A key is therefore never the only answer: its
        values, or the keys below it, come with it.
        """
        matches = self._starting_with(incomplete)
        while len(matches) == 1 and matches[0].word.endswith((".", "=")):
            (only,) = matches
            below = self._starting_with(only.word)
            matches = [c for c in below if c != only]
            if only.word.endswith("="):
                return [only, *matches]
        return matches

    def _starting_with(self, text: str) -> list[Completion]:
        key, sign, _ = text.partition("=")
        candidates = self._values(key, text) if sign else self._keys(text)
        unique = {c.word: c for c in candidates if c.word.startswith(text)}
        return list(unique.values())

    def _groups(self) -> list[str]:
        hidden = REPORT_GROUPS if self.sweeping else (*REPORT_GROUPS, *SWEEP_GROUPS)
        return [name for name in groups(self.folder) if name not in hidden]

    def _keys(self, text: str) -> Iterator[Completion]:
        if "." in text:
            yield from (Completion(f"{e.key}=", e.meaning) for e in self._settings(text))
            return
        for group in self._groups():
            yield Completion(f"{group}=")
            if group not in WITHOUT_SETTINGS and group not in PREFIXES:
                yield Completion(f"{group}.")
        for entry in self._general_settings():
            section, dot, _ = entry.key.partition(".")
            yield Completion(f"{section}.") if dot else Completion(f"{section}=", entry.meaning)

    def _values(self, key: str, text: str) -> Iterator[Completion]:
        if key in self._groups():
            # Of `algorithm=ppo,a2` and `tracker=[mlflow,w` the last value is completed.
            end = max(text.rfind(mark) for mark in (*LIST_MARKS, "=")) + 1
            for option in options(key, self.folder):
                yield Completion(f"{text[:end]}{option.name}", option.description)
            return
        for value in CHOICES.get(key, ()):
            yield Completion(f"{key}={value}")
        for entry in self._settings(text):
            if entry.key == key:
                yield from _values_of(entry)

    def _settings(self, text: str) -> Iterator[SettingEntry]:
        """The settings that a key may name, as far as its first part decides."""
        first = text.partition(".")[0].partition("=")[0]
        for group in self._groups():
            prefix = PREFIXES.get(group, f"{group}.")
            if prefix.startswith(f"{first}.") and group not in WITHOUT_SETTINGS:
                yield from self._settings_of_group(group, prefix)
        for entry in self._general_settings():
            if entry.key.partition(".")[0] == first:
                yield entry

    def _settings_of_group(self, group: str, prefix: str) -> Iterator[SettingEntry]:
        existing = {option.name: option for option in options(group, self.folder)}
        for name in self._chosen(group):
            # An option may begin with the settings of another one: `defaults: [gymnasium, _self_]`.
            for each in (name, *self._inherited(group, name)):
                if each in existing:
                    yield from file_settings(existing[each].path, prefix, (each,))

    def _inherited(self, group: str, name: str) -> list[str]:
        entries = read_option(group, name, self.folder).get("defaults")
        return [e for e in entries if isinstance(e, str)] if isinstance(entries, list) else []

    def _chosen(self, group: str) -> list[str]:
        """The options of a group that the words choose, else its default, else all of them."""
        texts = [value for key, value in map(split_override, self.words) if key == group]
        text = texts[-1] if texts else defaults(self.folder).get(group, "")
        if not text and self.sweeping:
            text = defaults(self.folder, SWEEP_FILES[-1]).get(group, "")
        names = text.replace("[", ",").replace("]", ",").split(",")
        return [name.strip() for name in names if name.strip()] or group_options(
            group, self.folder
        )

    def _general_settings(self) -> Iterator[SettingEntry]:
        """The settings outside groups."""
        names = set(groups(self.folder))
        for file in SWEEP_FILES if self.sweeping else RUN_FILES:
            places = (root / file for root in search_path(self.folder))
            path = next((candidate for candidate in places if candidate.is_file()), None)
            settings = () if path is None else file_settings(path, "", ())
            yield from (entry for entry in settings if entry.key not in names)


def _values_of(entry: SettingEntry) -> Iterator[Completion]:
    """Both values of a switch, or the default of a setting."""
    values = (True, False) if isinstance(entry.default, bool) else (entry.default,)
    for value in values:
        if isinstance(value, str) and is_bare(value):
            yield Completion(f"{entry.key}={value}", entry.meaning)
        elif value not in (None, "", "???"):
            yield Completion(format_override(entry.key, value).lstrip("+"), entry.meaning)


def complete_definition(folder: Path) -> list[Completion]:
    """The names of sweep definitions, which are the first word of a sweep."""
    if not group_options(DEFINITIONS, folder):
        return []
    return [Completion(option.name, option.description) for option in options(DEFINITIONS, folder)]
