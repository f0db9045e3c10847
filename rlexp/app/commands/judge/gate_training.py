"""What `rlexp gate` and `rlexp gate --write` share: their configuration, experiment and trainings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path

from rlexp.app.commands.train.run import RunOptions, RunOutcome, run_missing
from rlexp.app.comparison.baseline import TUNING_SEEDS, tuning_seeds_word
from rlexp.app.execution.configuration_words import words_of
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.software_versions import collect_development_code, collect_versions
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reading.summary import RunRow, read_entries
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import digest, short_name
from rlexp.protocol.seeds import Phase, Seeds
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import LARGEST_SCORE
from rlexp.store.layout import check_name
from rlexp.store.provenance import Code, read_code
from rlexp.store.runs import read_experiment

OF_EXECUTION = ("executor", "tracker")
"""Groups whose words say how runs are executed; they are no part of a baseline."""


@dataclass(frozen=True, slots=True)
class GateTraining:
    """The trainings of one configuration on tuning seeds.

    Attributes:
        request: The experiment of one configuration, and how its runs are executed.
        words: The words that the request was made of.
        options: Options of the runs.
        workspace: The workspace.
        observer: Receives the plan and the progress.
        code: The state of the checkout, without the files that the command writes.
    """

    request: RunRequest
    words: tuple[str, ...]
    options: RunOptions
    workspace: Workspace
    observer: Observer
    code: Code

    @property
    def configuration(self) -> Configuration:
        """The configuration."""
        return self.request.experiment.configurations[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The tuning seeds that the words ask for."""
        return self.request.experiment.seeds.seeds(Phase.TUNING)

    def named(self, name: str) -> "GateTraining":
        """The same trainings in an experiment of another name."""
        experiment = replace(self.request.experiment, name=name)
        return replace(self, request=replace(self.request, experiment=experiment))

    def spec(self, seed: int) -> RunSpec:
        """The run of a seed."""
        return self.configuration.spec(Phase.TUNING, self.request.experiment.seeds.root, seed)

    def train(self, seeds: Sequence[int]) -> RunOutcome:
        """Train what is missing of some seeds, in their order."""
        experiment = self.request.experiment
        chosen: Seeds = len(seeds) if tuple(seeds) == (*range(len(seeds)),) else tuple(seeds)
        grown = replace(experiment, seeds=replace(experiment.seeds, tuning=chosen))
        request = replace(self.request, experiment=grown)
        command = ("rlexp", "resume", experiment.name)
        outcome = run_missing(request, command, self.options, self.workspace, self.observer)
        if not isinstance(outcome, RunOutcome):
            raise TypeError("a run without dry_run returns its outcome")
        return outcome

    @property
    def versions(self) -> dict[str, str]:
        """Versions of packages, the processor and the user's code, which decide the numbers."""
        return {**collect_versions(self.spec(self.seeds[0])), **collect_development_code()}


def read_training(
    overrides: Sequence[str],
    name: str,
    written: Sequence[Path],
    options: RunOptions,
    workspace: Workspace,
    observer: Observer,
) -> GateTraining:
    """Read the configuration of words, and name its experiment by everything that decides numbers.

    Args:
        overrides: The words of the configuration, with its tuning seeds.
        name: The beginning of the experiment's name.
        written: Files that the command writes; they are no code.
        options: Options of the runs.
        workspace: The workspace.
        observer: Receives the plan and the progress.

    Raises:
        ConfigError: The words are wrong, or select several configurations.
    """
    _check_words(overrides)
    request = read_request([*overrides, "phase=tuning"], workspace)
    configurations = request.experiment.configurations
    if len(configurations) != 1:
        named = ", ".join(f"{c.label} on {c.task}" for c in configurations[:3])
        raise ConfigError(
            f"a gate judges one configuration on one task, and the words select "
            f"{len(configurations)} ({named}): choose one, and write a baseline for each"
        )
    code = read_code(workspace.folder, workspace.layout.root, written)
    training = GateTraining(request, tuple(overrides), options, workspace, observer, code)
    return training.named(_name(name, training))


def _check_words(overrides: Sequence[str]) -> None:
    for word in overrides:
        key, value = split_override(word)
        if key == "experiment":
            raise ConfigError(
                "a gate names its experiment by the code that it trains: leave out experiment=",
                key="experiment",
            )
        if key == "phase" and value != "tuning":
            raise ConfigError(
                f"a gate is a choice, and choices never see {value} seeds: leave out phase=",
                key="phase",
            )


def _name(beginning: str, training: GateTraining) -> str:
    """A name that changes with the code, so that runs of earlier code are never judged as new."""
    configuration, root = training.configuration, training.request.experiment.seeds.root
    state = digest([configuration.fingerprint, root, training.versions, _code(training.code)])
    task = "".join(c if c.isalnum() else "-" for c in configuration.task).strip("-") or "task"
    parts = (beginning, short_name(configuration.algorithm), task[:60], state[:10])
    return check_name("-".join(parts))


def _code(code: Code) -> list[object]:
    """The commit of the workspace, the changes since then, and the bytes of all changed files."""
    # The patch leaves out long and binary files, whose names alone do not show a change.
    root = code.root or Path()
    contents = [(name, _content(root / name)) for name in (*code.dirty, *code.untracked)]
    return [code.commit or "", code.patch, *map(list, contents)]


def _content(path: Path) -> str:
    """The sha256 of a file, or of all files in a folder; empty for anything else."""
    try:
        if path.is_dir():
            # A checkout in the checkout; its database changes without any change of code.
            inner = sorted(p for p in path.rglob("*") if p.is_file() and ".git" not in p.parts)
            return digest([[str(p.relative_to(path)), _content(p)] for p in inner])
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(
            f"{path} is a changed file and cannot be read ({error.strerror}), so that changed code "
            "could be missed: make it readable, or name it in .gitignore",
            key=str(path),
        ) from error


def keys_of(overrides: Sequence[str]) -> set[str]:
    """The keys of words; a study file has none."""
    return {split_override(word)[0] for word in overrides if "=" in word}


def words_of_configuration(overrides: Sequence[str]) -> tuple[str, ...]:
    """The words without those that say which seeds are trained, and how."""
    return tuple(word for word in overrides if not _is_of_execution(word))


def _is_of_execution(word: str) -> bool:
    key = split_override(word)[0]
    return "=" in word and (
        key in {TUNING_SEEDS, "phase"} or key.partition(".")[0] in OF_EXECUTION
    )


def merged_words(recorded: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """Recorded words with further ones, which replace recorded words of the same key."""
    replaced = keys_of(added)
    return (*(w for w in recorded if split_override(w)[0] not in replaced), *added)


def words_of_experiment(name: str, workspace: Workspace) -> tuple[str, ...]:
    """The words that lead to the only configuration of an experiment, with its tuning seeds.

    Raises:
        RlexpError: It has several configurations, or runs without a score on its tuning seeds.
    """
    paths = workspace.experiment(name)
    experiment = read_experiment(paths)
    refuse_imported(experiment)
    refuse_older(experiment)
    if len(experiment.configurations) != 1 or experiment.sweep or experiment.extends:
        raise ConfigError(
            f"{name} is a sweep, an extension or a comparison; a baseline has one configuration: "
            "rlexp gate --write FILE WORDS",
            key=name,
        )
    if prior_source(experiment.configurations[0].replay) is not None:
        raise ConfigError(
            f"{name} begins with prior data, whose digest no words of a baseline can name: name its run "
            "with rlexp gate --write FILE WORDS",
            key="replay",
        )
    entries = read_entries(paths, experiment, Phase.TUNING)
    if not entries or any(stored.record.score is None for _, stored in entries):
        raise ConfigError(
            f"{name} has no score on some of its tuning seeds, and test seeds never judge a change: "
            "train tuning seeds with rlexp gate --write FILE WORDS",
            key=name,
        )
    seeds = experiment.seeds.seeds(Phase.TUNING)
    return (
        *words_of(experiment.configurations[0], workspace).overrides(),
        f"seeds.root={experiment.seeds.root}",
        f"failures={experiment.failures}",
        tuning_seeds_word(seeds),
    )


def failed_rows(outcome: RunOutcome) -> Iterator[RunRow]:
    """The runs that ended without a score and are not tried again."""
    for row in outcome.summary.runs:
        if row.state in {"failed", "completed"} and row.score is None:
            yield row


def failure_text(row: RunRow, experiment: str) -> str:
    """Which run has no score, and why, as a sentence without a full stop."""
    kind = row.failure or f"its score is no finite number, or is beyond {LARGEST_SCORE:g}"
    reason = f": {row.reason}" if row.reason else ""
    return f"{experiment}/{row.run} ended without a score ({kind}{reason})"
