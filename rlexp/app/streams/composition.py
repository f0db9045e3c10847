"""The configuration of a candidate, composed in its own checkout and compared with what is frozen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.streams.separate_process import ask
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.experiment import Configuration, Failures
from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences
from rlexp.protocol.seeds import SeedPlan
from rlexp.protocol.spec import described
from rlexp.store.configurations import read_configuration

MODULE = "rlexp.app.streams.composition_process"
CANDIDATES_MAY_CHANGE = ("agent", "algorithm")
"""Groups of settings that every candidate may change."""
FREE = ("environment.vector.", "compute.")
"""Beginnings of the settings that a stream may free: they change how a policy is trained only."""
OF_EXECUTION = ("executor",)
"""Groups whose words say how runs are executed."""


@dataclass(frozen=True, slots=True)
class ComposedCandidate:
    """What words mean in a checkout.

    Attributes:
        configuration: The configuration, without the digest of its code.
        seeds: The seeds that the words ask for.
        failures: How failed runs count.
        operational: Settings of every attempt that change no number.
        modules: The modules of the workspace that make the environment.
        starts_from: Whether training begins with the policy of another run.
    """

    configuration: Configuration
    seeds: SeedPlan
    failures: Failures
    operational: Mapping[str, Any]
    modules: tuple[str, ...]
    starts_from: bool = False


def compose_candidate(
    words: Sequence[str], checkout: Checkout, workspace: Workspace
) -> ComposedCandidate:
    """Compose the words of a candidate, whose policy the trusted code must be able to score.

    Raises:
        ConfigError: The words are wrong, or select what no stream judges.
    """
    composed = compose_in_checkout(words, checkout, workspace, "a stream")
    _check_supported(composed.configuration, starts_from=composed.starts_from)
    return composed


def compose_in_checkout(
    words: Sequence[str], checkout: Checkout, workspace: Workspace, study: str
) -> ComposedCandidate:
    """Compose words in a process that imports the checkout.

    Args:
        words: The words of one configuration.
        checkout: The code.
        workspace: The workspace.
        study: What judges the configuration, for an error.

    Raises:
        ConfigError: The words are wrong, or select several configurations.
    """
    question = {
        "folder": str(checkout.folder),
        "runs": str(workspace.layout.root),
        "words": list(words),
        "allowed": list(workspace.allowed),
    }
    answer = ask(MODULE, question, checkout)
    if error := answer.get("error"):
        raise ConfigError(error["message"], code=error["code"], key=error["key"])
    selected = answer["configurations"]
    if len(selected) != 1:
        raise ConfigError(
            f"{study} judges one configuration on one task, and the words select {len(selected)}: "
            "choose one"
        )
    seeds: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in answer["seeds"].items()
    }
    configuration = read_configuration(selected[0], Configuration.schema)
    return ComposedCandidate(
        configuration=configuration,
        seeds=SeedPlan(**seeds),
        failures=answer["failures"],
        operational=answer["operational"],
        modules=tuple(answer["modules"]),
        starts_from=answer["starts_from"],
    )


def _check_supported(configuration: Configuration, *, starts_from: bool) -> None:
    budget = configuration.budget
    if budget.reads_curve:
        raise ConfigError(
            f"budget.score={budget.score} reads evaluations during training, which the code of a "
            "candidate makes: use budget.score=final, or a measure",
            key="budget.score",
        )
    if "command" in configuration.algorithm:
        raise ConfigError(
            "a training script leaves no policy that the trusted code could score: use an "
            "algorithm of rlexp, or one with a class of your own",
            key="algorithm",
        )
    if starts_from:
        raise ConfigError(
            "algorithm.start_from and replay=prior_data begin with what no code of the stream has "
            "trained: leave them out",
            key="algorithm.start_from",
        )


def refuse_frozen_words(words: Iterable[str], free: Sequence[str]) -> None:
    """Refuse words that a candidate may not change, by their names.

    Raises:
        ConfigError: A word is no setting of the agent, the algorithm, or a freed setting.
    """
    for word in words:
        key = split_override(word)[0].lstrip("+~")
        group = key.partition(".")[0]
        if group in (*CANDIDATES_MAY_CHANGE, *OF_EXECUTION) or key in free:
            continue
        more = f", {', '.join(free)}" if free else ""
        if misspelt := did_you_mean(group, CANDIDATES_MAY_CHANGE):
            allowed = [*CANDIDATES_MAY_CHANGE, *free]
            raise ConfigError(
                f"{word}: there is no group {group}{misspelt}", key=key, allowed=allowed
            )
        raise ConfigError(
            f"{word}: a stream has frozen {key}, because a candidate that changes the task, the "
            f"seeds, the evaluation or the budget cannot be compared: change agent or "
            f"algorithm{more} only, or begin another stream",
            code="protected",
            key=key,
        )


def check_free(free: Iterable[str]) -> None:
    """Refuse to free a setting that changes more than the training.

    Raises:
        ConfigError: Names the setting.
    """
    for key in free:
        if not key.startswith(FREE):
            raise ConfigError(
                f"--free {key}: only settings that begin with {' or '.join(FREE)} can be freed, "
                "because others change what is scored",
                key="--free",
            )


def refuse_other_task(
    candidate: Configuration, champion: Configuration, free: Sequence[str], remedy: str
) -> None:
    """Refuse a candidate with another environment, budget or measure than the stream.

    Raises:
        ConfigError: Names the first setting that differs, with both values.
    """
    differences = task_differences(candidate, champion, free)
    if differences:
        first = differences[0]
        raise ConfigError(
            f"the candidate changes {first.path} from {first.first!r} to {first.second!r}, which "
            f"the stream has frozen: {remedy}",
            code="protected",
            key=first.path,
        )


def task_differences(
    candidate: Configuration, champion: Configuration, free: Sequence[str] = ()
) -> list[LeafDifference]:
    """The settings other than those of agent, algorithm and freed ones that differ."""
    pairs = [_frozen(c, free) for c in (champion, candidate)]
    return list(leaf_differences(*pairs))


def _frozen(configuration: Configuration, free: Sequence[str]) -> dict[str, Any]:
    """What no candidate may change, as nested JSON values."""
    parts = described(replace(configuration, code=None).parts())
    kept = {k: v for k, v in parts.items() if k not in CANDIDATES_MAY_CHANGE}
    frozen = {
        **kept,
        "task": configuration.task,
        "measures": configuration.measures,
        "reference": configuration.reference,
    }
    for key in free:
        frozen = _without(frozen, key.split("."))
    return frozen


def _without(settings: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    name, rest = path[0], path[1:]
    if not rest:
        return {k: v for k, v in settings.items() if k != name}
    inner = settings.get(name)
    return (
        {**settings, name: _without(inner, rest)} if isinstance(inner, Mapping) else {**settings}
    )
