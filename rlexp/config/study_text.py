"""Writes study files: from the words of a command, and with comments for a new study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.config.overrides import parse_overrides, split_override
from rlexp.config.study_file import SECTIONS, LabelledWords

TASK_KEYS = ("environment", "environment.id")
"""Keys whose choices stay a grid: every variant is trained on every task."""
WIDTH = 99
"""Largest number of characters of a line."""

EXAMPLE = """\
# A study in one file. It runs as it is:   rlexp run {file}
# What it would run:                       rlexp run {file} --dry-run
# Words behind the file win:               rlexp run {file} seeds.test=10

# The folder of the records, runs/NAME. One name stands for one question.
name: ppo-or-a2c

# What all variants share, as typed behind `rlexp run`. All words: rlexp config search WORD
words:
  - environment=cartpole

# What is compared: labels, and the words of each. Without variants, one configuration is run.
variants:
  ppo:
    - algorithm=ppo
    - algorithm.n_steps=128
  ppo-wide:
    - algorithm=ppo
    - algorithm.n_steps=128
    - agent.network=[256,256]
  a2c:
    - algorithm=a2c

# Numbers of seeds. More of them later add runs and repeat none.
seeds: {{test: 5}}

# Environment steps of each run, and how it is evaluated.
budget:
  steps: 5000
  final_episodes: 20

# Services that receive copies of the records: [mlflow], [wandb] or [tensorboard].
trackers: []

# What the study shall answer. Only `rlexp register` reads it, which seals the study before its runs.
protocol:
  question: Which of the three scores highest after 5,000 steps?

# For a sweep, remove the variants and write instead (then: rlexp sweep {file}):
# sweep:
#   trials: 20
#   space:
#     algorithm:
#       learning_rate: tag(log, interval(1e-5, 1e-2))
"""
"""A commented study file, for `str.format` with the name of the file."""


@dataclass(frozen=True, slots=True)
class ChosenWords:
    """The overrides of one configuration, and what was chosen for it.

    Attributes:
        label: The label of the configuration.
        words: The overrides, which may contain grids.
        choices: The choices of the grids, by key.
        is_cell: Whether the configuration is a cell of a matrix.
    """

    label: str
    words: LabelledWords
    choices: Mapping[str, str]
    is_cell: bool


def study_text(name: str, configurations: Sequence[ChosenWords]) -> str:
    """The study file that plans the same runs as the configurations of a command.

    Args:
        name: The name of the experiment.
        configurations: The configurations, in the order of the command.
    """
    import yaml

    variants: dict[str, list[str]] = {}
    for configuration in configurations:
        label, words = _variant(configuration)
        variants.setdefault(label, [word for word in words if _key(word) != "experiment"])
    first = next(iter(variants.values()))
    shared = [word for word in first if all(word in words for words in variants.values())]
    content: dict[str, Any] = {"name": name, **_sections(shared)}
    is_labelled = any(c.words.label is not None for c in configurations)
    if len(variants) > 1 or is_labelled:
        rest = {
            label: [word for word in words if word not in shared]
            for label, words in variants.items()
        }
        content["variants"] = rest
    order = ("name", "words", "variants", "seeds", "budget", "trackers")
    content = {key: content[key] for key in order if key in content}
    return str(yaml.safe_dump(content, sort_keys=False, width=WIDTH, allow_unicode=True))


def _variant(configuration: ChosenWords) -> tuple[str, list[str]]:
    """The label and the words of a configuration, with its choices in place of grids."""
    overrides = configuration.words.overrides
    if configuration.is_cell:
        # A matrix names its configurations by itself.
        return configuration.words.label or "", list(overrides)
    words = []
    for word, parsed in zip(overrides, parse_overrides(overrides), strict=True):
        key = parsed.key_or_group
        if parsed.is_sweep_override() and key not in TASK_KEYS:
            words.append(f"{parsed.get_key_element()}={configuration.choices[key]}")
        else:
            words.append(word)
    return configuration.label, words


def _key(word: str) -> str:
    return split_override(word)[0]


def _sections(words: Sequence[str]) -> dict[str, Any]:
    """The words in the sections of a study file; what has no section stays a word."""
    content: dict[str, Any] = {"words": []}
    for word, parsed in zip(words, parse_overrides(words), strict=True):
        section, _, key = parsed.key_or_group.partition(".")
        value = _simple(parsed)
        if section in {"seeds", "budget"} and key in SECTIONS[section] and value is not None:
            content.setdefault(section, {})[key] = value
        elif parsed.key_or_group == "tracker" and isinstance(value, list) and _are_texts(value):
            content["trackers"] = value
        else:
            content["words"].append(word)
    return {key: value for key, value in content.items() if value != []}


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _simple(parsed: Any) -> Any:
    """The value of an override, if yaml and Hydra read it in the same way; else None."""
    if parsed.is_sweep_override() or parsed.is_add() or parsed.is_delete():
        return None
    value = parsed.value()
    if isinstance(value, list):
        return value if all(isinstance(item, int | str) for item in value) else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | float | str) else None
