"""Stores made-up scores, runs comparisons, and reads the next commands from their output."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from command_line import give
from stored_runs import Stored, configuration, stored

from rlexp.app.workspace import Workspace

QUICK = ("repetitions=500",)
PPO, A2C = configuration("ppo"), configuration("a2c")
FAR = {"ppo": (90.0, 91.0, 92.0, 93.0, 94.0), "a2c": (10.0, 11.0, 12.0, 13.0, 14.0)}
NEAR = {"ppo": (10.0, 20.0, 30.0), "a2c": (12.0, 21.0, 26.0)}
Scores = Mapping[str, tuple[float, ...]]


def with_scores(
    workspace: Workspace, scores: Scores, name: str = "alpha", **settings: Any
) -> Stored:
    """An experiment whose labels have these scores."""
    seeds = max(map(len, scores.values()))
    experiment = stored(
        workspace.layout, name, *map(configuration, scores), **{"test": seeds, **settings}
    )
    for label, label_scores in scores.items():
        for seed, score in enumerate(label_scores):
            experiment.complete(seed, score, label=label)
    return experiment


def steps(text: str) -> list[list[str]]:
    """The next commands in the output."""
    return [
        shlex.split(command) for command in re.findall(r"^To .+?: rlexp (.+)$", text, re.MULTILINE)
    ]


def comparison_output(workspace: Workspace, *targets: str, code: int = 0, **options: Any) -> str:
    """The output of a comparison with every section, which ends with this exit code."""
    overrides = (*QUICK, *options.pop("overrides", ()))
    words = [word for override in overrides for word in ("--set", override)]
    if phase := options.pop("phase", None):
        words += ["--phase", phase]
    if options.pop("strict", False):
        words.append("--strict")
    if options.pop("full", True):
        words.append("--full")
    assert {} == options
    return give(workspace.folder, "compare", *targets, *words, code=code)
