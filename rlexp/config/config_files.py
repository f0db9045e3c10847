"""The folders that hold yaml files, and the checks that a file passes before it is parsed."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rlexp.config.yaml_mistakes import describe_yaml_error
from rlexp.config.yaml_parsers import packaged_configuration, parsed
from rlexp.errors import ConfigError

MAX_LINE_LENGTH = 1000
CONSTANT_REFERENCE = re.compile(r"\$\{(oc\.select:)?[\w.,\[\]-]*\}")
"""A reference to another value. Every other one may depend on more than on files and words."""
DEFINITIONS = "sweeps"
"""The folder of sweep definitions, beside `conf/`."""


@dataclass(frozen=True, slots=True)
class Option:
    """A yaml file of a group; `own` is true if the file belongs to the study, not to rlexp."""

    name: str
    description: str
    path: Path
    own: bool


def options(group: str, folder: Path) -> list[Option]:
    """The options of a group, sorted by name; a study's option hides the packaged one.

    Raises:
        ConfigError: The group does not exist.
    """
    existing = listed_groups(folder)
    if group not in existing:
        raise ConfigError.unknown(
            f"there is no group {group!r}",
            group,
            existing,
            code="unknown_group",
            key=group,
            command="rlexp config list",
        )
    paths: dict[str, Path] = {}
    # The study's folder stands first in the path: in reverse, its files replace packaged ones.
    for root in reversed(search_path(folder)):
        paths |= {_option_name(path, root / group): path for path in _files_of(root / group)}
    return [
        Option(name, _description(path), path, own=not is_packaged(path))
        for name, path in sorted(paths.items())
    ]


def _files_of(folder: Path) -> list[Path]:
    """The yaml files of a group; those of algorithms may be in folders (`algorithm/recipe`)."""
    nested = folder.glob("*/*.yaml") if folder.name == NESTED else ()
    return [*folder.glob("*.yaml"), *nested]


def _option_name(path: Path, folder: Path) -> str:
    """The name of an option, with the folder in which its file is (`recipe/sbx_ppo`)."""
    return path.relative_to(folder).with_suffix("").as_posix()


def listed_groups(folder: Path) -> list[str]:
    """The names of all groups, and `sweeps` if there are sweep definitions."""
    return sorted(
        {*groups(folder), *([DEFINITIONS] if group_options(DEFINITIONS, folder) else [])}
    )


def is_packaged(path: Path) -> bool:
    """Whether a yaml file belongs to rlexp, and not to a study."""
    root = packaged_root()
    folders = (root / "conf", root / DEFINITIONS, packaged_entry())
    return any(path.is_relative_to(folder) for folder in folders)


def defaults(folder: Path, file: str = "config.yaml") -> dict[str, str]:
    """The default option of each group, as the defaults list of a file states it."""
    for root in search_path(folder):
        path = root / file
        if path.is_file():
            chosen: dict[str, str] = {}
            for entry in _read(path).get("defaults") or []:
                if isinstance(entry, dict):
                    chosen |= {str(k): _default_text(v) for k, v in entry.items() if v}
            return chosen
    return {}


def _default_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read(path: Path) -> dict[str, Any]:
    check_yaml(path)
    return parse_mapping(path.read_text(encoding="utf-8"), path)


def _description(path: Path) -> str:
    """The first comment of a yaml file, which describes the option; empty without a comment."""
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline(MAX_LINE_LENGTH)
            if first.startswith("# @package"):
                first = file.readline(MAX_LINE_LENGTH)
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
    return first.removeprefix("#").strip() if first.startswith("#") else ""


@dataclass(slots=True)
class Reading:
    """What one composition has read.

    Attributes:
        answers: Whether a file or a folder exists, by the question and the path.
        loaded: The files whose content was parsed.
        open_ended: Whether it read something that is not recorded here.
    """

    answers: dict[str, bool] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    open_ended: bool = False

    def note_answer(self, question: str, *, answer: bool) -> bool:
        """Record an answer to a question (`folder PATH` or `file PATH`), and return it."""
        self.answers[question] = answer
        return answer

    def note_words(self, words: Sequence[str]) -> None:
        """Record that words were composed."""
        self.open_ended = self.open_ended or not is_constant(" ".join(words))


def is_still(question: str) -> bool:
    """The present answer to a question of a `Reading`."""
    kind, _, path = question.partition(" ")
    return Path(path).is_dir() if kind == "folder" else Path(path).is_file()


def is_constant(text: str) -> bool:
    """Whether references in a text mean the same in every process."""
    return "${" not in CONSTANT_REFERENCE.sub("", text)


@contextmanager
def checked_yaml_files(reading: Reading) -> Iterator[None]:
    """Make Hydra check every file before it parses it, inside a `with` block.

    `check_yaml_files` checks the usual folders only; a defaults list may name files elsewhere.
    `reading` records what Hydra asks and reads.
    """
    from hydra._internal.core_plugins import file_config_source
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigResult

    class FileConfigSource(file_config_source.FileConfigSource):
        """A folder of yaml files that are checked before they are parsed."""

        def load_config(self, config_path: str) -> Any:
            """Check a file, then parse it."""
            name = self._normalize_file_name(config_path)
            _check(self.path, config_path, name)
            path = Path(self.path, name)
            reading.loaded.add(str(path))
            if is_packaged(path) and path.is_file():
                text = path.read_text(encoding="utf-8")
                if (config := packaged_configuration(text)) is not None:
                    header = self._get_header_dict(text)
                    return ConfigResult(
                        self.provider, f"{self.scheme()}://{self.path}", config, header
                    )
            return super().load_config(config_path)

        def is_group(self, config_path: str) -> bool:
            """Whether there is a folder."""
            question = f"folder {Path(self.path, config_path)}"
            return reading.note_answer(question, answer=super().is_group(config_path))

        def is_config(self, config_path: str) -> bool:
            """Whether there is a file."""
            question = f"file {Path(self.path, self._normalize_file_name(config_path))}"
            return reading.note_answer(question, answer=super().is_config(config_path))

        def list(self, config_path: str, results_filter: Any) -> Any:
            """The names in a folder."""
            reading.open_ended = True
            return super().list(config_path, results_filter)

    # Hydra registers its own class when its plug-ins load: load them first, then replace the class.
    Plugins.instance()
    sources = SourcesRegistry.instance().types
    before = sources[FileConfigSource.scheme()]
    sources[FileConfigSource.scheme()] = FileConfigSource
    try:
        yield
    finally:
        sources[FileConfigSource.scheme()] = before


def _check(folder: str, name: str, file: str) -> None:
    # A defaults list in a foreign study could otherwise name any file of the machine.
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise ConfigError(
            f"the yaml file {name!r} lies outside of {folder}: move the file into conf/"
        )
    path = Path(folder, file)
    if path.is_file() and not path.resolve().is_relative_to(packaged_root()):
        check_yaml(path)


MAX_YAML_BYTES = 1 << 20
MAX_NODES = 10_000
MAX_DEPTH = 50
NESTED = "algorithm"
"""The group whose options may be in folders of the group."""
CONF_PATTERNS = ("*.yaml", "*/*.yaml", "*/*/*.yaml")
SWEEP_PATTERNS = ("sweeps/*.yaml", "sweeps/*/*.yaml")


class InvalidYamlError(ConfigError):
    """A file is not valid yaml."""


def packaged_root() -> Path:
    """The folder that holds the packaged `conf/` and `sweeps/`, in a wheel or a checkout."""
    package = Path(__file__).parent.parent
    return package if (package / "conf").is_dir() else package.parent


def packaged_entry() -> Path:
    """The folder of the primary files, which hold a defaults list only: a study can replace all else."""
    return Path(__file__).parent.parent / "entry"


def search_path(folder: Path) -> list[Path]:
    """The folders that may hold groups: the study's `conf/` first, then the packaged one."""
    packaged = packaged_root()
    # Folders beside `conf/` are searched, too, because `sweeps/` lies there.
    places = [folder.resolve() / "conf", packaged / "conf", folder.resolve(), packaged]
    # In a checkout of rlexp, the study's folder and the packaged one can be the same.
    return [p for p in dict.fromkeys(places) if p.is_dir()]


def group_options(group: str, folder: Path) -> list[str]:
    """The names of the options of a group (`ppo`, `a2c` … in `algorithm`)."""
    names = set()
    for root in search_path(folder):
        names |= {_option_name(path, root / group) for path in _files_of(root / group)}
    return sorted(names)


def groups(folder: Path) -> list[str]:
    """The names of all groups, sorted."""
    # Beside `conf/`, folders with yaml files may be anything, and need not be groups.
    roots = [root for root in search_path(folder) if root.name == "conf"]
    return sorted({p.parent.name for conf in roots for p in conf.glob("*/*.yaml")})


def check_yaml_files(roots: Sequence[Path]) -> None:
    """Refuse yaml files of a study that are too large, too deep or full of aliases.

    Raises:
        ConfigError: A file exceeds a limit. The error names the file and the limit.
    """
    packaged = packaged_root()
    for root in roots:
        if root in {packaged, packaged / "conf"}:
            continue
        patterns = CONF_PATTERNS if root.name == "conf" else SWEEP_PATTERNS
        for path in sorted({match for pattern in patterns for match in root.glob(pattern)}):
            try:
                check_yaml(path)
            except InvalidYamlError:
                # An unfinished sweep definition must not stop commands that do not use it.
                if patterns is CONF_PATTERNS:
                    raise


def _expanded_size(path: Path, loader: Any) -> tuple[int, int]:
    """The number of nodes with every alias expanded, and the depth."""
    import yaml

    # The size of an anchored node is stored, so that each alias costs one look-up: nested aliases
    # ("billion laughs") would otherwise take exponential time and memory.

    sizes: dict[int, tuple[int, int]] = {}

    def measure(node: yaml.Node, trail: frozenset[int]) -> tuple[int, int]:
        # A node that contains itself (`&a [*a]`) has no end: report more than the limits.
        if id(node) in trail:
            return MAX_NODES + 1, MAX_DEPTH + 1
        if id(node) in sizes:
            return sizes[id(node)]
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, path)
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        below = [measure(child, trail | {id(node)}) for child in children]
        size = 1 + sum(s for s, _ in below)
        sizes[id(node)] = size, 1 + max((d for _, d in below), default=0)
        return sizes[id(node)]

    text = path.read_text(encoding="utf-8")
    if too_large := _parsed_size_if_too_large(text, loader):
        return too_large
    root = yaml.compose(text, Loader=loader)
    return measure(root, frozenset()) if root is not None else (0, 0)


def _check_keys(node: Any, path: Path) -> None:
    """Refuse a key that stands twice in a mapping: readers of yaml differ in which one wins."""
    # The value of a complex key (`? [a, b]`) is a list, which cannot be counted.
    keys = Counter(key.value for key, _ in node.value if isinstance(key.value, str))
    for key, count in keys.items():
        if count > 1:
            line = node.start_mark.line + 1
            raise ConfigError(
                f"{path} has the key {key!r} twice, from line {line} on: remove one of them"
            )


def _parsed_size_if_too_large(text: str, loader: Any) -> tuple[int, int] | None:
    """The nodes and depth at which a text exceeds a limit; None if the text is within the limits."""
    import yaml

    # Events are parsed one by one, so that a huge or deep file is refused before it is composed.

    nodes = depth = 0
    for event in yaml.parse(text, Loader=loader):
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            return nodes, depth
    return None


def parse_mapping(text: str, path: Path) -> dict[str, Any]:
    """The mapping in a text of yaml; empty where the text is anything else.

    Args:
        text: The text, which `check_yaml` has checked.
        path: The file that it comes from, for the error.

    Raises:
        InvalidYamlError: A value cannot be read, such as a tag of another program or an impossible
            date.
    """
    import yaml

    try:
        content = parsed(partial(yaml.load, text), packaged=is_packaged(path))
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidYamlError(f"{path} is not yaml: {describe_yaml_error(error)}") from error
    return content if isinstance(content, dict) else {}


def check_yaml(path: Path) -> None:
    """Refuse a yaml file that is too large, too deep or full of aliases.

    Raises:
        ConfigError: The file exceeds a limit or is not yaml. The error names the file.
    """
    import yaml

    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_YAML_BYTES:,} bytes; make it smaller")
        nodes, depth = parsed(partial(_expanded_size, path), packaged=is_packaged(path))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidYamlError(f"{path} is not yaml: {describe_yaml_error(error)}") from error
    if nodes > MAX_NODES or depth > MAX_DEPTH:
        raise ConfigError(
            f"{path} expands to more than {MAX_NODES:,} values or {MAX_DEPTH} levels; "
            "write its aliases out or make it smaller",
        )
