"""The baseline file of `rlexp gate`: scores that a project commits, and how they came about."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import TARGET, digest
from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences
from rlexp.records.run import LARGEST_SCORE
from rlexp.stats.pairs.equivalence import check_margin
from rlexp.stats.sequential.non_inferiority import NonInferiorityDesign
from rlexp.store.files import json_bytes, parse_json, publish, read_file
from rlexp.store.schemas import FileSchema
from rlexp.text import format_count, join_first_names

SCHEMA = FileSchema(1)
"""The schema of a baseline file."""
SUM = "sum"
"""Key of the sha256 of all other keys, without those of the schema."""
TUNING_SEEDS = "seeds.tuning"
"""The key of the word that asks for tuning seeds."""
SETTINGS_OF_TRAINING = frozenset({"vector"})
"""Settings of an environment that belong to the training and not to the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTraining:
    """A short training whose result must repeat bit by bit.

    Attributes:
        seed: Its tuning seed.
        steps: Its environment steps.
        weights: The sha256 of the weights at its end.
        evaluations: The sha256 of the episodes of all its evaluations.
    """

    seed: int
    steps: int
    weights: str
    evaluations: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Scores that later code must not fall below, and what they are scores of.

    Attributes:
        words: The words of the configuration.
        label: The label of the configuration.
        task: The task.
        quantity: What is scored: `return`, or the name of a measure.
        direction: `maximise` or `minimise`.
        fingerprint: The identity of the configuration.
        configuration: The parts of the configuration with their settings.
        root: The key of all seeds.
        scores: The score of each tuning seed, in the order of the seeds.
        group: New seeds of the candidate at each interim analysis.
        alpha: The level of the sequential test.
        margin: The largest loss that does not matter; None leaves it to each gate.
        short_training: The training whose result must repeat bit by bit; None skips this check.
        versions: The versions of packages, the processor and the user's code; empty where the
            baseline was made from an experiment that was trained before.
        experiment: The experiment with the runs.
        ledger: The head of the experiment's ledger.
    """

    words: tuple[str, ...]
    label: str
    task: str
    quantity: str
    direction: str
    fingerprint: str
    configuration: Mapping[str, Any]
    root: int
    scores: Mapping[int, float]
    group: int
    alpha: float
    margin: float | None
    short_training: ShortTraining | None
    versions: Mapping[str, str]
    experiment: str
    ledger: str | None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The tuning seeds, in order."""
        return tuple(self.scores)

    @property
    def rule(self) -> str:
        """The rule by which a run is scored: `final`, `auc`, `last_window` or a measure."""
        return str(self.configuration["budget"]["score"])

    @property
    def lower_is_better(self) -> bool:
        """Whether the scored quantity is minimised."""
        return self.direction == "minimise"

    @property
    def sum(self) -> str:
        """The sha256 of the content."""
        return digest(self.plain())

    def design(self, margin: float) -> NonInferiorityDesign:
        """The sequential test with a margin."""
        return NonInferiorityDesign(
            group=self.group,
            interims=len(self.scores) // self.group,
            margin=margin,
            alpha=self.alpha,
        )

    def plain(self) -> dict[str, Any]:
        """The content of the file, without its schema and its sum."""
        short = self.short_training
        return {
            "task": self.task,
            "label": self.label,
            "words": list(self.words),
            "quantity": self.quantity,
            "direction": self.direction,
            "phase": "tuning",
            "root": self.root,
            "n": len(self.scores),
            "scores": {str(seed): score for seed, score in self.scores.items()},
            "group": self.group,
            "alpha": self.alpha,
            "margin": self.margin,
            "short_training": None
            if short is None
            else {name: getattr(short, name) for name in ShortTraining.__slots__},
            "experiment": self.experiment,
            "ledger": self.ledger,
            "versions": dict(self.versions),
            "fingerprint": self.fingerprint,
            "configuration": dict(self.configuration),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Self:
        """The baseline of a file's content; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is of another type.
            ValueError: A number is wrong.
        """
        short, margin = content["short_training"], content["margin"]
        return cls(
            words=tuple(map(str, content["words"])),
            **{name: str(content[name]) for name in ("label", "task", "quantity", "direction")},
            fingerprint=str(content["fingerprint"]),
            configuration=content["configuration"],
            root=int(content["root"]),
            scores={int(seed): float(score) for seed, score in content["scores"].items()},
            group=int(content["group"]),
            alpha=float(content["alpha"]),
            margin=None if margin is None else float(margin),
            short_training=None if short is None else ShortTraining(**short),
            versions=content["versions"],
            experiment=str(content["experiment"]),
            ledger=content["ledger"],
        )


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline file.

    Raises:
        ConfigError: The file cannot be written.
    """
    content = {SUM: baseline.sum, **baseline.plain()}
    try:
        publish(path, json_bytes(content, SCHEMA))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another file: "
            "rlexp gate --write FILE WORDS",
            code="unwritable",
            key=str(path),
        ) from error


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file, and check that it is what was written.

    Raises:
        RecordError: The file is missing, damaged, edited or of a later version.
    """
    try:
        document = parse_json(read_file(path))
    except FileNotFoundError as error:
        raise RecordError(
            f"there is no baseline {path}; write it: {writing_command(path, {})}", key=str(path)
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}", key=str(path)) from error
    SCHEMA.check(document, path)
    return _read(path, document)


def _read(path: Path, document: Mapping[str, Any]) -> Baseline:
    again = f"restore it from git, or write it again: {writing_command(path, document)}"
    kept = {key: value for key, value in document.items() if key not in {*SCHEMA.head(), SUM}}
    try:
        baseline = Baseline.from_plain(document)
        _check_numbers(baseline)
        # Infinity, which JSON writes as 1e999, has no digest.
        sums = (digest(kept), baseline.sum)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RecordError(
            f"{path} is no baseline of rlexp gate, or is damaged: {error!r}; {again}",
            key=str(path),
        ) from error
    if sums != (document.get(SUM),) * 2:
        raise RecordError(
            f"{path} was edited after it was written: its sum does not match its content; {again}",
            key=str(path),
        )
    return baseline


def _check_numbers(baseline: Baseline) -> None:
    """Check what the test computes with.

    Raises:
        ValueError: A number is out of its range.
        LookupError: The configuration has no budget, or the budget has no score.
    """
    if baseline.group < 2 or not baseline.scores:
        raise ValueError("a group has two scores or more")
    if not all(abs(score) <= LARGEST_SCORE for score in baseline.scores.values()):
        raise ValueError(f"a score is no finite number, or is beyond {LARGEST_SCORE:g}")
    if not 0 < baseline.alpha < 1:
        raise ValueError(f"alpha is {baseline.alpha:g}")
    if baseline.margin is not None:
        check_margin_size(baseline.margin)
    if not baseline.rule or baseline.direction not in {"minimise", "maximise"}:
        raise ValueError("the metric has no rule or no direction")


def check_margin_size(margin: float) -> None:
    """Refuse a margin with which the test cannot compute.

    Raises:
        ValueError: The margin is not above 0, or beyond the largest score.
    """
    check_margin(margin)
    if margin > LARGEST_SCORE:
        raise ValueError(f"the margin must be at most {LARGEST_SCORE:g}, not {margin:g}")


def writing_command(path: Path, document: Mapping[str, Any]) -> str:
    """The command that writes a baseline again, with what can be read of the present one.

    Without words, the command would train the default configuration: a document without words
    gives the placeholder `WORDS`.

    Args:
        path: The baseline file.
        document: Its content, which may be damaged.
    """
    command = shlex.join(["rlexp", "gate", "--write", str(path)])
    words = document.get("words")
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        return f"{command} WORDS"
    return f"{command} {shlex.join([*words, *_design_words(document)])}"


def _design_words(document: Mapping[str, Any]) -> Iterator[str]:
    """The seeds, the level, the group and the margin, as far as they can be read."""
    scores = document.get("scores")
    if isinstance(scores, Mapping) and scores and all(seed.isdecimal() for seed in scores):
        yield tuning_seeds_word(sorted(map(int, scores)))
    for key in ("group", "alpha", "margin"):
        value = document.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield from (f"--{key}", str(value))


def tuning_seeds_word(seeds: Sequence[int]) -> str:
    """The word that asks for some tuning seeds: a number where they are the first ones."""
    if tuple(seeds) == (*range(len(seeds)),):
        return f"{TUNING_SEEDS}={len(seeds)}"
    return f"{TUNING_SEEDS}=[{','.join(map(str, seeds))}]"


def check_comparable(
    baseline: Baseline, configuration: Configuration, root: int, path: Path
) -> None:
    """Refuse a configuration whose scores mean something else than those of the baseline.

    Raises:
        ProtocolError: The task, the budget, the metric or the key of the seeds differs.
    """
    differences = list(_differences(baseline, configuration, root))
    if differences:
        raise ProtocolError(
            f"{path} is a baseline of another experiment ({join_first_names(differences, 4)}); leave "
            "out the words that change this, or write another baseline: rlexp gate --write FILE WORDS",
            key=differences[0].partition(":")[0],
        )


def _differences(baseline: Baseline, configuration: Configuration, root: int) -> Iterator[str]:
    parts = configuration.parts()
    direction = "minimise" if configuration.lower_is_better else "maximise"
    recorded = {
        "task": baseline.task,
        "budget": baseline.configuration["budget"],
        "environment": _task_of(baseline.configuration["environment"]),
        "metric": {"quantity": baseline.quantity, "direction": baseline.direction},
        "seeds": {"root": baseline.root},
    }
    present = {
        "task": configuration.task,
        "budget": parts["budget"],
        "environment": _task_of(parts["environment"]),
        "metric": {"quantity": configuration.budget.quantity, "direction": direction},
        "seeds": {"root": root},
    }
    for difference in leaf_differences(recorded, present, ignored=frozenset({TARGET})):
        yield difference_text(difference)


def _task_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in environment.items() if k not in SETTINGS_OF_TRAINING}


def changed_settings(baseline: Baseline, configuration: Configuration) -> tuple[str, ...]:
    """The settings that the configuration changes, each with both values."""
    ignored = frozenset({TARGET})
    differences = leaf_differences(baseline.configuration, configuration.parts(), ignored=ignored)
    return tuple(difference_text(difference) for difference in differences)


def difference_text(difference: LeafDifference) -> str:
    """A difference as words: `budget.steps: 20000 in the baseline, 10000 here`."""
    return f"{difference.path}: {difference.first} in the baseline, {difference.second} here"


def check_design(design: NonInferiorityDesign, seeds: int) -> None:
    """Refuse a design that can decide nothing.

    Args:
        design: The design.
        seeds: The number of seeds of the baseline.

    Raises:
        ConfigError: The seeds do not fill the groups, or no interim analysis can decide at the level.
    """
    if seeds % design.group or not seeds:
        raise ConfigError(
            f"seeds.tuning={seeds} is no multiple of --group {design.group}: every interim analysis needs a "
            "whole group of seeds",
            key="seeds.tuning",
        )
    if not 0 < design.alpha < 1:
        raise ConfigError(f"--alpha {design.alpha:g} must be between 0 and 1", key="--alpha")
    if design.first_deciding_look is None:
        raise ConfigError(
            f"{format_count(seeds, 'seed')} in groups of {design.group} cannot decide anything at "
            f"--alpha {design.alpha:g}: use more seeds, such as seeds.tuning=20, or a larger --group",
            key="seeds.tuning",
        )
