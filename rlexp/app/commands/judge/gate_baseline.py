"""`rlexp gate --write`: trains tuning seeds, and writes their scores as a baseline."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rlexp.app.commands.judge.gate_training import (
    GateTraining,
    failed_rows,
    failure_text,
    keys_of,
    read_training,
    words_of_configuration,
    words_of_experiment,
)
from rlexp.app.commands.train.run import RunOptions, RunOutcome
from rlexp.app.comparison.baseline import (
    TUNING_SEEDS,
    Baseline,
    ShortTraining,
    check_design,
    check_margin_size,
    write_baseline,
)
from rlexp.app.comparison.sequential import GROUP
from rlexp.app.diagnostics.short_training import Unfinished, default_steps, train_shortly
from rlexp.app.observer import Observer
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.stats.sequential.non_inferiority import NonInferiorityDesign
from rlexp.store.registers.gates import record_gate
from rlexp.store.registers.ledger import read_ledger

DEFAULT_SEEDS = 20
"""Tuning seeds of a baseline, unless `seeds.tuning` says otherwise."""
ALPHA = 0.05
"""Default level of the sequential test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRequest:
    """A request for a baseline.

    Attributes:
        path: The file to write.
        words: The words of one configuration, or the name of an experiment with tuning runs.
        margin: The largest loss that does not matter; None leaves it to each gate.
        group: New seeds of a candidate at each interim analysis.
        alpha: The level of the sequential test.
        short_steps: Environment steps of the training that must repeat bit by bit; 0 leaves this
            check out, None chooses a length with three updates or more.
        retry: Whether runs with a final failure are executed again.
        command: The command as the user typed it.
    """

    path: Path
    words: tuple[str, ...] = ()
    margin: float | None = None
    group: int = GROUP
    alpha: float = ALPHA
    short_steps: int | None = None
    retry: bool = False
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBaseline(Displayed):
    """A baseline after `rlexp gate --write`.

    Attributes:
        path: The file; null if it was not written.
        sum: The sha256 of its content; null if it was not written.
        experiment: The experiment with the runs.
        label: The label of the configuration.
        task: The task.
        score: The rule by which a run is scored.
        quantity: What is scored: `return`, or the name of a measure.
        n: Number of scores.
        planned: Number of planned runs.
        seeds: The tuning seeds, in order.
        mean: Mean of the scores; null without scores.
        group: New seeds of a candidate at each interim analysis.
        interims: Largest number of interim analyses.
        alpha: The level of the sequential test.
        margin: The largest loss that does not matter; null leaves it to each gate.
        short_steps: Environment steps of the training that must repeat bit by bit; null without it.
        ledger: The head of the experiment's ledger; null without one.
        failures: The runs without a score, each as a sentence.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("gate-baseline")

    path: Path | None
    sum: str | None
    experiment: str
    label: str
    task: str
    score: str
    quantity: str
    n: int
    planned: int
    seeds: tuple[int, ...]
    mean: float | None
    group: int
    interims: int
    alpha: float
    margin: float | None
    short_steps: int | None
    ledger: str | None
    failures: tuple[str, ...]
    interrupted: str | None
    next: tuple[NextCommand, ...]


def make_baseline(
    request: BaselineRequest, workspace: Workspace, observer: Observer
) -> WrittenBaseline:
    """Train the tuning seeds of a configuration, and write their scores into a file.

    Raises:
        RlexpError: The words or the options are wrong, or the file cannot be written.
    """
    _check_named(request)
    check_given_margin(request.margin)
    training = _training(request, workspace, observer)
    seeds = training.seeds
    check_design(_design(request, len(seeds)), len(seeds))
    if request.path.suffix != ".json":
        raise ConfigError(
            f"a baseline is a JSON file, and {request.path} does not end in .json: write "
            f"{shlex.join(_with_suffix(request))}",
            key=str(request.path),
        )
    if _experiment(request, workspace) is None:
        paths = workspace.layout.experiment(training.request.experiment.name)
        record_gate(paths, request.command, request.margin)
    outcome = training.train(seeds)
    scores = {row.seed: row.score for row in outcome.summary.runs if row.score is not None}
    if outcome.interrupted or set(scores) != set(seeds):
        return _result(request, training, outcome, None)
    baseline = _baseline(request, training, {seed: scores[seed] for seed in seeds}, observer)
    write_baseline(request.path, baseline)
    return _result(request, training, outcome, baseline)


def _check_named(request: BaselineRequest) -> None:
    """Refuse words that name no configuration: the default one is hardly what is meant."""
    if not words_of_configuration(request.words):
        raise ConfigError(
            "name the configuration of the baseline, e.g. "
            f"rlexp gate --write {shlex.quote(str(request.path))} algorithm=ppo environment=cartpole",
            code="missing_value",
        )


def _with_suffix(request: BaselineRequest) -> Iterator[str]:
    """The typed command with `.json` at the end of the file's name."""
    for word in request.command:
        yield f"{word}.json" if Path(word) == request.path else word


def check_given_margin(margin: float | None) -> None:
    """Refuse a margin that is not above 0, or with which the test cannot compute.

    Raises:
        ConfigError: The margin is not above 0, or beyond the largest score.
    """
    if margin is None:
        return
    try:
        check_margin_size(margin)
    except ValueError as error:
        raise ConfigError(str(error), key="--margin", code="out_of_range") from error


def _training(request: BaselineRequest, workspace: Workspace, observer: Observer) -> GateTraining:
    options = RunOptions(retry=request.retry)
    name = _experiment(request, workspace)
    words = list(request.words if name is None else words_of_experiment(name, workspace))
    if TUNING_SEEDS not in keys_of(words):
        words.append(f"{TUNING_SEEDS}={DEFAULT_SEEDS}")
    training = read_training(words, "baseline", (request.path,), options, workspace, observer)
    return training if name is None else training.named(name)


def _experiment(request: BaselineRequest, workspace: Workspace) -> str | None:
    """The experiment that is the only word, if it is one."""
    if len(request.words) != 1 or "=" in request.words[0]:
        return None
    word = request.words[0]
    return None if (workspace.folder / word).is_file() else workspace.experiment(word).name


def _design(request: BaselineRequest, seeds: int) -> NonInferiorityDesign:
    # The margin moves the scores, and has no influence on which interim analysis can decide.
    return NonInferiorityDesign(
        group=request.group,
        interims=max(seeds // request.group, 1),
        margin=request.margin or 1.0,
        alpha=request.alpha,
    )


def _baseline(
    request: BaselineRequest,
    training: GateTraining,
    scores: dict[int, float],
    observer: Observer,
) -> Baseline:
    configuration, experiment = training.configuration, training.request.experiment
    ledger = read_ledger(training.workspace.layout.experiment(experiment.name))
    return Baseline(
        words=words_of_configuration(training.words),
        label=configuration.label,
        task=configuration.task,
        quantity=configuration.budget.quantity,
        direction="minimise" if configuration.lower_is_better else "maximise",
        fingerprint=configuration.fingerprint,
        configuration=configuration.parts(),
        root=experiment.seeds.root,
        scores=scores,
        group=request.group,
        alpha=request.alpha,
        margin=request.margin,
        short_training=_short_training(request, training, observer),
        # The present versions may not be those with which an older experiment was trained.
        versions=training.versions if _experiment(request, training.workspace) is None else {},
        experiment=experiment.name,
        ledger=ledger.head if ledger else None,
    )


def _short_training(
    request: BaselineRequest, training: GateTraining, observer: Observer
) -> ShortTraining | None:
    if request.short_steps == 0:
        return None
    if _experiment(request, training.workspace) is not None:
        observer.note(
            "Without a check for equal weights: the experiment may have been trained by other code"
        )
        return None
    spec = training.spec(training.seeds[0])
    steps = request.short_steps or default_steps(spec)
    short = train_shortly(spec, steps, training.workspace)
    if isinstance(short, Unfinished):
        observer.note(f"Without a check for equal weights: {short.reason}")
        return None
    return short


def _result(
    request: BaselineRequest,
    training: GateTraining,
    outcome: RunOutcome,
    baseline: Baseline | None,
) -> WrittenBaseline:
    configuration, name = training.configuration, training.request.experiment.name
    scores = [row.score for row in outcome.summary.runs if row.score is not None]
    seeds = training.seeds
    failures = tuple(failure_text(row, name) for row in failed_rows(outcome))
    short = baseline.short_training if baseline else None
    return WrittenBaseline(
        path=request.path if baseline else None,
        sum=baseline.sum if baseline else None,
        experiment=name,
        label=configuration.label,
        task=configuration.task,
        score=configuration.budget.score,
        quantity=configuration.budget.quantity,
        n=len(scores),
        planned=len(seeds),
        seeds=seeds,
        mean=sum(scores) / len(scores) if scores else None,
        group=request.group,
        interims=len(seeds) // request.group,
        alpha=request.alpha,
        margin=request.margin,
        short_steps=short.steps if short else None,
        ledger=baseline.ledger if baseline else None,
        failures=failures,
        interrupted=outcome.interrupted,
        next=tuple(_next(request, baseline, failures)),
    )


def _next(
    request: BaselineRequest, baseline: Baseline | None, failures: Sequence[str]
) -> list[NextCommand]:
    if baseline is not None:
        return [_judging(str(request.path), baseline)]
    if failures:
        run = failures[0].partition(" ")[0]
        return [NextCommand(why="see why", command=f"rlexp logs {run}")]
    return [NextCommand(why="continue", command=shlex.join(request.command))]


def _judging(path: str, baseline: Baseline) -> NextCommand:
    """The command that judges changed code; without a margin, with one that can be found."""
    if baseline.margin is not None:
        return NextCommand(why="judge changed code", command=shlex.join(["rlexp", "gate", path]))
    # The power at this margin is known from simulations; equal scores leave any margin.
    deviation = float(np.std([*baseline.scores.values()], ddof=1))
    margin = f"{deviation or 1.0:.2g}"
    return NextCommand(
        why="judge changed code, with one standard deviation of the scores as margin",
        command=shlex.join(["rlexp", "gate", path, "--margin", f"{float(margin):g}"]),
    )
