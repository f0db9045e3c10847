"""Study files: one yaml file with the words of a command, and variants that are compared.

`read_words` is for commands that take overrides: their first word may be a study file. It returns
one list of overrides for each variant, in which the command's own overrides win.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rlexp.config.config_files import DEFINITIONS, check_yaml, group_options
from rlexp.config.first_words import STUDY_FILE, check_words
from rlexp.config.overrides import format_override, is_bare, split_override
from rlexp.config.yaml_mistakes import describe_yaml_error
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.budget import RESTARTS, Budget
from rlexp.protocol.seeds import SeedPlan
from rlexp.protocol.sweep import SweepPlan

KEYS = ("name", "words", "variants", "seeds", "budget", "trackers", "sweep", "protocol")
"""The keys of a study file."""
QUESTION = "question"
"""The key of the section `protocol` that holds the question of the study."""
# Without the quotes, yaml reads no mapping.
PROTOCOL_EXAMPLE = 'protocol: {question: "Is ppo better than a2c?"}'
"""A section `protocol`, for messages."""
DEFINITION, SPACE = "definition", "space"
"""Keys of the section `sweep` beside those of a `SweepPlan`."""
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "seeds": tuple(f.name for f in fields(SeedPlan)),
    # Only `rlexp extend` sets the lengths of earlier parts.
    "budget": tuple(f.name for f in fields(Budget) if f.name != RESTARTS),
    "sweep": (DEFINITION, SPACE, *(f.name for f in fields(SweepPlan))),
    # Only `rlexp register` reads it.
    "protocol": (QUESTION, "margin", "alpha"),
}
"""The keys of each section."""
Location = tuple[str | int, ...]
"""The keys and positions that lead to a value in a file."""


@dataclass(frozen=True, slots=True)
class StudyWord:
    """An override of a study file, and the line on which it stands."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class StudyFile:
    """The content of a study file.

    Attributes:
        path: The path as it was typed.
        words: The overrides that all variants share.
        variants: The overrides of each variant, by its label.
        definition: The name of the sweep definition that the study starts from.
        sweep_line: The line of the section `sweep`; None without one.
        variants_line: The line of the section `variants`; None without one.
        protocol: The section `protocol`: the question, and settings of reports.
    """

    path: str
    words: tuple[StudyWord, ...]
    variants: Mapping[str, tuple[StudyWord, ...]]
    definition: str | None
    sweep_line: int | None
    variants_line: int | None
    protocol: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelledWords:
    """The overrides of one variant, or of a command without a study file.

    Attributes:
        label: The label of the variant; None if its configurations are named by their choices.
        overrides: Overrides in Hydra's grammar; none stands twice with two values.
        places: The file and line of each override that comes from a study file, by its key.
    """

    label: str | None
    overrides: tuple[str, ...]
    places: Mapping[str, str] = field(default_factory=dict)

    def located(self, error: ConfigError) -> ConfigError:
        """The error, with the file and line of every override that it is about."""
        text = str(error)
        for key, location in self.places.items():
            # An error about several values names the key of each at the beginning of its part.
            match = re.search(rf"(?:^|; )(?={re.escape(key)}[=: ])", text)
            if match is not None:
                text = f"{text[: match.end()]}{location}: {text[match.end() :]}"
        place_of_key = self.places.get(error.key or "")
        if text == str(error) and place_of_key is not None:
            text = f"{place_of_key}: {error}"
        return error.rephrased(text)


@dataclass(slots=True)
class _Reader:
    """Reads the content of one file and collects its mistakes."""

    path: str
    content: Mapping[str, Any]
    lines: Mapping[Location, int]
    folder: Path
    mistakes: list[str] = field(default_factory=list)

    def read(self) -> StudyFile:
        """The study.

        Raises:
            ConfigError: All mistakes of the file, each with its line.
        """
        self._check_keys(self.content, (), KEYS)
        words = self._base_words()
        variants, protocol = self._variants(), self._protocol()
        for word in (*words, *(word for several in variants.values() for word in several)):
            self._check_word(word)
        if self.mistakes:
            raise ConfigError("; ".join(dict.fromkeys(self.mistakes)), key=self.path)
        sweep = self.content.get("sweep")
        definition = sweep.get(DEFINITION) if isinstance(sweep, Mapping) else sweep
        return StudyFile(
            path=self.path,
            words=words,
            variants=variants,
            definition=definition,
            sweep_line=self.lines.get(("sweep",)) if sweep is not None else None,
            variants_line=self.lines.get(("variants",)) if variants else None,
            protocol=protocol,
        )

    def _base_words(self) -> tuple[StudyWord, ...]:
        readers: Mapping[str, Callable[[Any], Iterator[StudyWord]]] = {
            "name": self._name,
            "words": lambda value: self._words(value, ("words",)),
            "seeds": lambda value: self._section("seeds", value),
            "budget": lambda value: self._section("budget", value),
            "trackers": self._trackers,
            "sweep": self._sweep,
        }
        present = (key for key in readers if self.content.get(key) is not None)
        return tuple(word for key in present for word in readers[key](self.content[key]))

    def _shared(self) -> list[StudyWord]:
        """The words of the section `words`; its mistakes are reported where it is read."""
        mistakes = list(self.mistakes)
        words = list(self._words(self.content.get("words"), ("words",)))
        self.mistakes = mistakes
        return words

    def _variants(self) -> dict[str, tuple[StudyWord, ...]]:
        variants = self.content.get("variants")
        if variants is None:
            return {}
        if not isinstance(variants, Mapping) or not variants:
            self._wrong(("variants",), "write labels with their words: {ppo: [algorithm=ppo]}")
            return {}
        for label in variants:
            if not str(label).strip() or not str(label).isprintable():
                self._wrong(("variants", label), "a label is a text of one line")
        return {
            str(label).strip(): tuple(self._words(words, ("variants", label)))
            for label, words in variants.items()
        }

    def _protocol(self) -> Mapping[str, Any]:
        """The section `protocol`, whose values are a text and numbers."""
        section = self.content.get("protocol") or {}
        if not isinstance(section, Mapping):
            self._wrong(("protocol",), f"write the question: {PROTOCOL_EXAMPLE}", key="")
            return {}
        self._check_keys(section, ("protocol",), SECTIONS["protocol"])
        for key, value in section.items():
            if key == QUESTION and not (isinstance(value, str) and value.strip().isprintable()):
                self._wrong(("protocol", key), "write the question, a text of one line")
            elif key != QUESTION and type(value) not in {int, float, type(None)}:
                self._wrong(("protocol", key), f"{value!r} is no number")
        return section

    def _name(self, value: Any) -> Iterator[StudyWord]:
        if isinstance(value, Mapping | list):
            self._wrong(("name",), "write the experiment's name, a text")
            return
        yield self._word("experiment", str(value), ("name",))

    def _words(self, value: Any, at: Location) -> Iterator[StudyWord]:
        """The words of a list, of a text with spaces, or of a mapping of keys to values."""
        if value is None:
            return
        if isinstance(value, str):
            try:
                value = shlex.split(value)
            except ValueError as error:
                self._wrong(at, f"{error}: close the quotation, or write a list of words")
                return
        if isinstance(value, Mapping):
            yield from self._settings(value, at)
        elif isinstance(value, list):
            for position, word in enumerate(value):
                key_path = (*at, position)
                if isinstance(word, str):
                    yield StudyWord(word, self._line(key_path))
                else:
                    self._wrong(key_path, f"{word!r} is no word: write KEY=VALUE in quotes")
        else:
            self._wrong(at, "write a list of words: [algorithm=ppo, budget.steps=20000]")

    def _settings(self, settings: Mapping[Any, Any], at: Location) -> Iterator[StudyWord]:
        for key, value in settings.items():
            key_path = (*at, key)
            if isinstance(value, Mapping) and "." not in str(key):
                for name, inner in value.items():
                    yield self._word(f"{key}.{name}", inner, (*key_path, name))
            else:
                yield self._word(str(key), value, key_path)

    def _section(self, name: str, value: Any) -> Iterator[StudyWord]:
        """The words of `seeds` or `budget`; a single value stands for its usual setting."""
        if not isinstance(value, Mapping):
            of_tuning = "phase=tuning" in (word.text for word in self._shared())
            seeds = "tuning" if of_tuning else "test"
            first = {"seeds": seeds, "budget": "steps"}[name]
            yield self._word(f"{name}.{first}", value, (name,))
            return
        self._check_keys(value, (name,), SECTIONS[name])
        for key, inner in value.items():
            yield self._word(f"{name}.{key}", inner, (name, key))

    def _trackers(self, value: Any) -> Iterator[StudyWord]:
        settings = value if isinstance(value, Mapping) else {}
        names = [value] if isinstance(value, str) else list(value) if _is_several(value) else None
        if names is None or not all(isinstance(name, str) for name in names):
            self._wrong(("trackers",), "write a list of trackers: [mlflow, wandb]")
            return
        yield StudyWord(f"tracker=[{','.join(names)}]", self._line(("trackers",)))
        for name, inside in settings.items():
            if not isinstance(inside, Mapping | None):
                self._wrong(("trackers", name), "write settings of the tracker: {timeout: 30}")
                continue
            for key, inner in (inside or {}).items():
                yield self._word(f"tracker.{name}.{key}", inner, ("trackers", name, key))

    def _sweep(self, value: Any) -> Iterator[StudyWord]:
        """The words of `sweep`; a text alone is the name of a definition."""
        if isinstance(value, str):
            return
        if not isinstance(value, Mapping):
            self._wrong(("sweep",), "write settings of a sweep: {trials: 20, space: {…}}")
            return
        self._check_keys(value, ("sweep",), SECTIONS["sweep"])
        for key, inner in value.items():
            if key == SPACE:
                yield from self._space(inner, ("sweep", SPACE), "sweep.space")
            elif key != DEFINITION:
                yield self._word(f"sweep.{key}", inner, ("sweep", key))
            elif not isinstance(inner, str | None):
                self._wrong(("sweep", key), "write the name of a sweep definition, such as quick")

    def _space(self, value: Any, at: Location, key: str) -> Iterator[StudyWord]:
        """One word for each parameter of a search space."""
        if not isinstance(value, Mapping):
            yield self._word(key, value, at)
        elif {"values", "when"} & set(value):
            yield StudyWord(f"++{key}={_conditional(value)}", self._line(at))
        else:
            for name, inner in value.items():
                yield from self._space(inner, (*at, name), f"{key}.{name}")

    def _word(self, key: str, value: Any, at: Location) -> StudyWord:
        if isinstance(value, str) and is_bare(value):
            return StudyWord(f"{key}={value}", self._line(at))
        try:
            return StudyWord(format_override(key, value), self._line(at))
        except ConfigError as error:
            self._wrong(at, str(error))
            return StudyWord(f"{key}=null", self._line(at))

    def _check_word(self, word: StudyWord) -> None:
        try:
            check_words([word.text], self.folder)
        except ConfigError as error:
            # In brackets, yaml splits a word at its comma.
            split = "=" not in word.text and "; a word with a comma needs quotes in brackets"
            self.mistakes.append(f"{self._place(word.line)}: {error}{split or ''}")

    def _check_keys(
        self, content: Mapping[Any, Any], at: Location, allowed: Sequence[str]
    ) -> None:
        for key in content:
            if key not in allowed:
                name = ".".join(map(str, (*at, key)))
                near = did_you_mean(str(key), allowed)
                listed = f" (there are: {', '.join(allowed)})" if len(allowed) <= len(KEYS) else ""
                self._wrong((*at, key), f"unknown key {name!r}{near}{listed}", key="")

    def _wrong(self, at: Location, sentence: str, key: str | None = None) -> None:
        name = ".".join(map(str, at)) if key is None else key
        prefix = f"{name}: " if name else ""
        self.mistakes.append(f"{self._place(self._line(at))}: {prefix}{sentence}")

    def _line(self, at: Location) -> int:
        """The line of a value, or of the nearest value around it."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)

    def _place(self, line: int) -> str:
        return f"{self.path}, line {line}"


def _is_several(value: Any) -> bool:
    return isinstance(value, list | Mapping)


def _conditional(entry: Mapping[str, Any]) -> str:
    """A parameter with conditions in Hydra's grammar, whose keys may have dots."""
    return "{" + ",".join(f"{key}:{_text(value)}" for key, value in entry.items()) + "}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return _conditional(value)
    return format_override("value", value).partition("=")[2]


def is_study_file(word: str) -> bool:
    """Whether a word of a command names a study file, by its ending."""
    return "=" not in word and STUDY_FILE.fullmatch(word) is not None


def read_study(path: str, folder: Path) -> StudyFile:
    """Read a study file.

    Args:
        path: The path as it was typed, relative to `folder`.
        folder: The study's folder.

    Raises:
        ConfigError: The file does not exist or cannot be read, or has mistakes; all of them are
            named, each with its line.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    file = folder / Path(path).expanduser()
    _check_exists(path, file, folder)
    try:
        check_yaml(file)
    except ConfigError as error:
        raise error.rephrased(str(error).replace(str(file), path)) from error
    text = file.read_text(encoding="utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    try:
        # OmegaConf reads 1e5 as a number, like Hydra and unlike yaml 1.1. It takes no single value.
        is_single = isinstance(root, yaml.ScalarNode)
        content = None if is_single else OmegaConf.to_container(OmegaConf.create(text))
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {describe_yaml_error(error)}") from error
    if not isinstance(content, Mapping) or not content:
        raise ConfigError(
            f"{path} is no study file: write keys such as words: [algorithm=ppo]; "
            f"a file with comments is written by: rlexp init --study other.yaml"
        )
    if "defaults" in content:
        raise ConfigError(_definition_message(path, file, folder))
    settings = {str(key): value for key, value in content.items()}
    return _Reader(path, settings, dict(_lines(root, ())), folder).read()


def _check_exists(path: str, file: Path, folder: Path) -> None:
    if file.is_file():
        return
    if Path(path).stem in group_options(DEFINITIONS, folder):
        raise ConfigError(_definition_message(path, file, folder))
    what = "is a folder" if file.is_dir() else "does not exist"
    write = shlex.join(["rlexp", "init", "--study", path])
    raise ConfigError(
        f"the study file {path} {what}; write one with: {write}",
        code="unknown_option",
        key=path,
        command=write,
    )


def _definition_message(path: str, file: Path, folder: Path) -> str:
    name = file.stem
    if name in group_options(DEFINITIONS, folder):
        return f"{path} is a sweep definition: type rlexp sweep {name}"
    return f"{path} has a defaults list: such a file is an option, in conf/ or {DEFINITIONS}/"


def _lines(node: Any, at: Location) -> Iterator[tuple[Location, int]]:
    """The line of every key and item below a node of yaml."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*at, key.value), key.start_mark.line + 1
            yield from _lines(value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield (*at, position), item.start_mark.line + 1
            yield from _lines(item, (*at, position))


def read_words(arguments: Sequence[str], folder: Path) -> list[LabelledWords]:
    """The overrides of a command, one list for each variant of its study file.

    Args:
        arguments: The overrides of the command, which may begin with a study file.
        folder: The study's folder.

    Raises:
        ConfigError: The study file is wrong, or is made for `rlexp sweep`.
    """
    if not arguments or not is_study_file(arguments[0]):
        return [LabelledWords(None, tuple(arguments))]
    study, typed = read_study(arguments[0], folder), arguments[1:]
    if study.sweep_line is not None:
        raise ConfigError(
            f"{study.path}, line {study.sweep_line}: this study is a sweep: "
            f"type {shlex.join(['rlexp', 'sweep', study.path, *typed])}"
        )
    if not study.variants:
        return [_merged(None, study, (), typed)]
    return [_merged(label, study, words, typed) for label, words in study.variants.items()]


def read_sweep_words(
    path: str, typed: Sequence[str], folder: Path
) -> tuple[str | None, LabelledWords]:
    """The definition that the study file of a sweep starts from, and its overrides.

    Args:
        path: The path of the study file, as it was typed.
        typed: The overrides of the command, which win.
        folder: The study's folder.

    Raises:
        ConfigError: The study file is wrong, or has variants.
    """
    study = read_study(path, folder)
    if study.variants_line is not None:
        raise ConfigError(
            f"{study.path}, line {study.variants_line}: a sweep tunes one configuration and has "
            f"no variants; to compare variants, type {shlex.join(['rlexp', 'run', path, *typed])}"
        )
    return study.definition, _merged(None, study, (), typed)


def _merged(
    label: str | None, study: StudyFile, words: Sequence[StudyWord], typed: Sequence[str]
) -> LabelledWords:
    """The overrides of a variant: its own win over shared ones, and typed ones over all."""
    of_study = [*_without(study.words, [word.text for word in words]), *words]
    kept = _without(of_study, typed)
    places = {split_override(w.text)[0]: f"{study.path}, line {w.line}" for w in kept}
    return LabelledWords(label, (*(word.text for word in kept), *typed), places)


def _without(words: Sequence[StudyWord], winning: Sequence[str]) -> list[StudyWord]:
    """The words whose keys no winning override sets."""
    settled = dict(map(split_override, winning))

    def stays(word: StudyWord) -> bool:
        key = split_override(word.text)[0]
        group, _, rest = key.partition(".")
        # Settings of a tracker go with the list that names it.
        is_dropped = group == "tracker" and group in settled
        is_dropped = is_dropped and rest.partition(".")[0] not in settled["tracker"]
        return key not in settled and not is_dropped

    return [word for word in words if stays(word)]
