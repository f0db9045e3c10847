"""From words to the one run whose determinism is checked, with a budget that takes seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.words import parse_words
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.spec import RunSpec
from rlexp.store.runs import read_spec

TIMEOUT = 60.0
"""Seconds that one training may take, unless budget.timeout says otherwise."""
UPDATES = 3
FEWEST = 200
"""Environment steps that are trained at least."""
UNKNOWN = 1000
"""Steps for an algorithm of which nothing is known but its name."""
MOST_NAMED = 3
SETTINGS = ("steps", "timeout")
"""What words may say of the budget of a run that is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is trained several times; `words` are those of the command."""

    spec: RunSpec
    timeout: float
    words: tuple[str, ...]


def read_asked(words: Sequence[str], workspace: Workspace) -> Asked:
    """Read words: a configuration as `rlexp run` takes it, or a run's name and its budget.

    Raises:
        RlexpError: They lead to no configuration or to several, name no run, or would import
            what is not allowed.
    """
    named = bool(words) and "=" not in words[0] and words[0][:1] not in "~+"
    given = _given(words[1:] if named else words)
    spec = _of_run(words, given, workspace) if named else _of_words(words, workspace)
    timeout = given.get("timeout")
    return Asked(
        spec=replace(spec, budget=_small(spec, given)),
        timeout=TIMEOUT if timeout is None else float(timeout),
        words=tuple(words),
    )


def _given(words: Sequence[str]) -> dict[str, Any]:
    """What words say of the budget, by name."""
    parsed = {one.key_or_group: one for one in parse_words(words)}
    return {
        key.removeprefix("budget."): one.value()
        for key, one in parsed.items()
        if key.startswith("budget.")
    }


def _of_run(words: Sequence[str], given: Mapping[str, Any], workspace: Workspace) -> RunSpec:
    name, *others = words
    if len(others) != len(given) or not set(given) <= set(SETTINGS):
        allowed = ", ".join(f"budget.{setting}=…" for setting in SETTINGS)
        raise ConfigError(f"beside the name of a run, only {allowed} can be given")
    for key, value in given.items():
        if not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"budget.{key}={value!r} must be a number greater than 0")
    spec = read_spec(workspace.run(name))
    _refuse_script(spec)
    command = ["rlexp", "doctor", "--determinism", *words, *workspace.permission]
    check_imports([spec], workspace.allowed, command)
    return spec


def _of_words(words: Sequence[str], workspace: Workspace) -> RunSpec:
    request = read_request(words, workspace)
    specs = [spec for _, spec in request.experiment.specs(request.phase)]
    if len(request.experiment.configurations) != 1:
        raise ConfigError(_several(request.experiment.configurations))
    _refuse_script(specs[0])
    return specs[0]


def _several(found: Sequence[Configuration]) -> str:
    named = [f"{one.label} on {one.task}" for one in found[:MOST_NAMED]]
    more = ["…"] if len(found) > MOST_NAMED else []
    return (
        f"one configuration at a time, and these words ask for {len(found)} "
        f"({', '.join([*named, *more])}): leave one value of each, also of a benchmark, with "
        "words like algorithm=ppo environment=cartpole"
    )


def _refuse_script(spec: RunSpec) -> None:
    if spec.external:
        raise ConfigError(
            "a training script leaves no weights to compare: give 'rlexp run', and compare with "
            "what 'rlexp reproduce' makes of it"
        )


def _small(spec: RunSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """The budget of a run, as short as a comparison allows where words do not say otherwise."""
    steps = int(given.get("steps", short_training(spec)))
    small = {
        "steps": steps,
        "evaluation_every": max(steps // 2, 1),
        "evaluation_episodes": 2,
        "final_episodes": 2,
        "score": "final",
    }
    kept = {key: spec.budget[key] for key in given if key in spec.budget}
    return {**spec.budget, **small, **kept, "steps": steps}


def short_training(spec: RunSpec) -> int:
    """Environment steps in which the learner updates its parameters three times at least."""
    environments: int = spec.environment.get("vector", {}).get("count", 1)
    begin, rollout = (spec.algorithm.get(key) for key in ("learning_starts", "n_steps"))
    if isinstance(begin, int):
        return begin + FEWEST
    if isinstance(rollout, int):
        return max(UPDATES * rollout * environments, FEWEST)
    return UNKNOWN
