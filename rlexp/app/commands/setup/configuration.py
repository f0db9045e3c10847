"""`rlexp config`: composes, lists and validates configurations; no run is started."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.execution.checks.compatibility import check_compatibility
from rlexp.app.execution.checks.device_check import check_devices
from rlexp.app.execution.request import read_configurations, read_request
from rlexp.app.results import Schema
from rlexp.app.sweeps.retrain import SweepTrial, words_to_show
from rlexp.app.workspace import Workspace
from rlexp.config.compose import ComposedConfiguration, compose_words, find_words
from rlexp.config.config_files import DEFINITIONS, defaults, listed_groups, options
from rlexp.config.secret_check import has_variable
from rlexp.config.study_file import LabelledWords
from rlexp.config.study_text import ChosenWords, study_text
from rlexp.config.word_search import SettingEntry, search_settings
from rlexp.store.secrets import mask_all

TRACKER = "tracker"
"""The only group of `config.yaml` of which several options, or none, may be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfiguration:
    """A resolved configuration, with its choices where it is one of a grid.

    Attributes:
        choices: The choices of the grid or matrix: key and value as text (`algorithm`: `ppo`),
            after the label of the variant of a study file (`variant`).
        configuration: Every group and setting. References to environment variables stay
            unresolved, and secrets are masked.
    """

    choices: Mapping[str, str]
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfigurations:
    """The configurations of the given overrides.

    Attributes:
        configurations: One configuration, or each configuration of a grid or matrix.
    """

    schema: ClassVar[Schema] = Schema("configurations")

    configurations: tuple[ResolvedConfiguration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A configuration group.

    Attributes:
        group: The name of the group.
        default: The default option, or several separated by spaces; null if there is none.
        write: The form of a choice on the command line (`algorithm=…`).
        options: The names of its options.
    """

    group: str
    default: str | None
    write: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """The configuration groups of a workspace.

    Attributes:
        rows: The groups, sorted by name.
    """

    schema: ClassVar[Schema] = Schema("configuration-groups")

    rows: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """An option of a configuration group.

    Attributes:
        option: The name of the option.
        description: The first comment of its file.
        source: `rlexp`, or the folder of the workspace that holds it (`conf/` or `sweeps/`).
        default: Whether it is a default of its group.
        file: Its YAML file.
    """

    option: str
    description: str
    source: str
    default: bool
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionListing:
    """The options of a configuration group.

    Attributes:
        group: The name of the group.
        rows: The options, sorted by name.
    """

    schema: ClassVar[Schema] = Schema("configuration-options")

    group: str
    rows: tuple[OptionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting or an option that matches a search.

    Attributes:
        write: What to type; `…` stands for a value of a setting.
        default: The default value of a setting; null for an option.
        options: The options of its group that have the setting; empty outside groups.
        meaning: The comment beside the setting, or the description of the option.
    """

    write: str
    default: Any
    options: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingListing:
    """The settings and options that match a search.

    Attributes:
        word: The word that was searched.
        rows: The settings and options, the best matches first.
    """

    schema: ClassVar[Schema] = Schema("configuration-search")

    word: str
    rows: tuple[SettingRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidConfiguration:
    """A valid configuration.

    Attributes:
        label: The label under which its runs are aggregated and compared.
        task: The task on which its runs are scored.
    """

    label: str
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidConfigurations:
    """The valid configurations of the given overrides.

    Attributes:
        configurations: The configurations.
        phase: The phase of their runs (`test` or `tuning`).
        runs: Number of runs of all configurations.
    """

    schema: ClassVar[Schema] = Schema("valid-configurations")

    configurations: tuple[ValidConfiguration, ...]
    phase: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyText:
    """A study file that plans the same runs as the given overrides.

    Attributes:
        name: The name of the experiment.
        text: The content of the file, in YAML.
    """

    schema: ClassVar[Schema] = Schema("study-text")

    name: str
    text: str


def show_study(overrides: Sequence[str], workspace: Workspace) -> StudyText:
    """Write the words of a command as a study file, with a variant for each choice of a grid.

    Raises:
        ConfigError: An override is unknown, mistyped or out of range, or holds a secret.
    """
    name = read_request(overrides, workspace).experiment.name
    configurations = [
        ChosenWords(
            label=planned.configuration.label,
            words=planned.composed.words or LabelledWords(None, tuple(overrides)),
            choices=dict(planned.composed.choices),
            is_cell=planned.composed.cell is not None,
        )
        for planned in read_configurations(overrides, workspace)
    ]
    return StudyText(name=name, text=study_text(name, configurations))


def show_configuration(
    overrides: Sequence[str], workspace: Workspace, origin: SweepTrial | None = None
) -> ResolvedConfigurations:
    """Compose every configuration of the given overrides; environment variables stay unresolved.

    Args:
        overrides: The overrides.
        workspace: The workspace, with the packages that may be imported.
        origin: The trial of a sweep that the overrides change; None without one.

    Raises:
        RlexpError: An override cannot be read or names something unknown, or there is no such
            trial.
    """
    if origin is not None:
        overrides = words_to_show(origin, overrides, workspace)
    configurations = (
        ResolvedConfiguration(choices=_choices_of(composed), configuration=_masked(composed.plain))
        for composed in compose_words(overrides, workspace.folder)
    )
    return ResolvedConfigurations(configurations=tuple(configurations))


def _choices_of(composed: ComposedConfiguration) -> dict[str, str]:
    """The choices of a configuration, with the label of its variant, if any."""
    variant = {} if composed.variant is None else {"variant": composed.variant}
    return {**variant, **dict(composed.choices)}


def words_of_option(name: str, value: str, workspace: Workspace) -> str | None:
    """The words that say the same as an option of another tool, as typed in a shell.

    Args:
        name: The name of the option, with its dashes.
        value: The value that was typed with it.
        workspace: The workspace, whose `conf/` wins over the packaged one.

    Returns:
        The words; None if no setting has such a name.
    """
    return find_words(name, value, workspace.folder)


def list_groups(workspace: Workspace) -> GroupListing:
    """List the groups with their defaults and options."""
    files = ("config.yaml", "report.yaml", "sweep.yaml")
    # A group in several files has the default of runs: `config.yaml` comes last in the merge.
    of_runs, of_reports, of_sweeps = (defaults(workspace.folder, file) for file in files)
    rows = (
        GroupRow(
            group=name,
            default={**of_sweeps, **of_reports, **of_runs}.get(name),
            write=_written(name, of_runs, of_reports, of_sweeps),
            options=tuple(option.name for option in options(name, workspace.folder)),
        )
        for name in listed_groups(workspace.folder)
    )
    return GroupListing(rows=tuple(rows))


def _written(
    group: str, of_runs: Container[str], of_reports: Container[str], of_sweeps: Container[str]
) -> str:
    """The form in which an option of a group is chosen on the command line."""
    if group == DEFINITIONS:
        return "sweep NAME"
    if group in of_sweeps:
        return f"sweep NAME {group}=…"
    if group in of_reports:
        return f"report --set {group}=[…]"
    if group == TRACKER:
        return f"{group}=[…]"
    return f"{group}=…" if group in of_runs else f"+{group}=…"


def search_configuration(word: str, workspace: Workspace) -> SettingListing:
    """Search settings and options by a part of a name or of a comment; the best matches first.

    Raises:
        ConfigError: Nothing contains the word.
    """
    files = ("config.yaml", "report.yaml", "sweep.yaml")
    of_runs, of_reports, of_sweeps = (defaults(workspace.folder, file) for file in files)

    def write(entry: SettingEntry) -> str:
        if entry.is_option:
            form = _written(entry.key, of_runs, of_reports, of_sweeps)
            return form.replace("…", str(entry.default))
        if entry.of_reports:
            return f"report --set {entry.key}=…"
        is_of_sweeps = entry.key.split(".")[0] in {DEFINITIONS, "sweep", *of_sweeps}
        return f"sweep NAME {entry.key}=…" if is_of_sweeps else f"{entry.key}=…"

    rows = (
        SettingRow(
            write=write(entry),
            default=None if entry.is_option else entry.default,
            options=entry.options,
            meaning=entry.meaning,
        )
        for entry in search_settings(word, workspace.folder)
    )
    return SettingListing(word=word, rows=tuple(rows))


def list_options(group: str, workspace: Workspace) -> OptionListing:
    """List the options of a group with their descriptions.

    Raises:
        ConfigError: There is no such group.
    """
    files = ("sweep.yaml", "report.yaml", "config.yaml")
    chosen = dict(chain.from_iterable(defaults(workspace.folder, file).items() for file in files))
    default = chosen.get(group, "").split()
    folder = f"{DEFINITIONS}/" if group == DEFINITIONS else "conf/"
    rows = (
        OptionRow(
            option=option.name,
            description=option.description,
            source=folder if option.own else "rlexp",
            default=option.name in default,
            file=option.path,
        )
        for option in options(group, workspace.folder)
    )
    return OptionListing(group=group, rows=tuple(rows))


def validate_configuration(overrides: Sequence[str], workspace: Workspace) -> ValidConfigurations:
    """Check every value, and that agent, algorithm and environment are compatible.

    Raises:
        ConfigError: A setting is unknown, mistyped or out of range, or parts are incompatible.
    """
    request = read_request(overrides, workspace)
    check_compatibility(request.experiment.configurations, workspace, parts=request.parts)
    devices = (c.compute.device for c in request.experiment.configurations)
    check_devices(devices, request.executor)
    return ValidConfigurations(
        configurations=tuple(
            ValidConfiguration(label=configuration.label, task=configuration.task)
            for configuration in request.experiment.configurations
        ),
        phase=request.phase,
        runs=sum(1 for _ in request.experiment.specs(request.phase)),
    )


def _masked(values: Any) -> Any:
    """Mask literal secrets; references to environment variables stay readable."""
    if isinstance(values, Mapping):
        return {
            key: _masked(value)
            if isinstance(value, Mapping) or has_variable(value)
            else mask_all({key: value})[key]
            for key, value in values.items()
        }
    return values
