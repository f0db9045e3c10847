"""`rlexp best`: shows the best trial of a sweep, and writes its hyperparameters for reuse."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.execution.configuration_words import ConfigurationWords
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.retrain import ChosenTrial, SweepTrial, choose_trial
from rlexp.app.sweeps.state import read_runs
from rlexp.app.workspace import Workspace
from rlexp.config.matrix import GROUP
from rlexp.config.report_settings import read_report
from rlexp.config.yaml_text import matrix_text
from rlexp.errors import ConfigError, RecordError
from rlexp.exchange.exporters.zoo_settings import zoo_algorithm, zoo_entry
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import DEFAULT
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.analysis.sweep_tables import by_number, range_in_words
from rlexp.reports.analysis.winner_assessment import PhaseScores, assess_winner, measured_scores
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.interval import Interval
from rlexp.store.files import publish, read_file
from rlexp.text import format_count, format_score

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
ROOT = "seeds.root"
"""The key of the number from which all seeds are derived."""


class BestFormat(StrEnum):
    """The forms in which hyperparameters are written."""

    YAML = "yaml"
    ARGS = "args"
    JSON = "json"
    RL_ZOO = "rl-zoo"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRequest:
    """The sweep, and what is written.

    Attributes:
        sweep: The name of the sweep.
        form: The form in which the hyperparameters are written; None writes no text.
        save: The name of the benchmark to save; None saves nothing.
    """

    sweep: str
    form: BestFormat | None = None
    save: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRow:
    """One searched hyperparameter.

    Attributes:
        parameter: Its key in the configuration.
        searched: Its values in the search space, in words.
        default: Its value in the default configuration; null where it is not active.
        value: Its value in the best trial; null where it is not active.
    """

    parameter: str
    searched: str
    default: Any
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTrialOfSweep(Displayed):
    """The best trial of a sweep, with its scores and hyperparameters.

    Attributes:
        experiment: The name of the sweep.
        trial: The number of the trial: the winner, or else the best trial so far.
        trials: Number of trials of the sweep.
        selected: Whether the sweep has selected it as its winner.
        rule: The rule by which the winner was selected; null before the selection.
        caution: Why its scores are no result yet; null once the winner has test scores.
        parameters: The searched hyperparameters.
        scores: Its scores and those of the default configuration, by phase, each with the mean and
            its interval. Before the selection there are tuning scores only.
        optimism: Its mean tuning score minus its mean test score; null without test scores.
        improvement: The probability that a test run of the winner beats one of the default
            configuration; null without test scores.
        format: The form of `text`; null if none was requested.
        text: The hyperparameters in the requested form; null if none was requested.
        file: The benchmark that was saved; null if none was.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("best")

    experiment: str
    trial: int
    trials: int
    selected: bool
    rule: str | None
    caution: str | None
    parameters: tuple[ParameterRow, ...]
    scores: tuple[PhaseScores, ...]
    optimism: Interval | None
    improvement: Interval | None
    format: str | None
    text: str | None
    file: Path | None
    next: tuple[NextCommand, ...]


def read_format(word: str | None) -> BestFormat | None:
    """The form of this name; None without a name.

    Raises:
        ConfigError: There is no such form.
    """
    names = [str(form) for form in BestFormat]
    if word is not None and word not in names:
        raise ConfigError.unknown(f"there is no format {word!r}", word, names, key="--format")
    return BestFormat(word) if word is not None else None


def best(request: BestRequest, workspace: Workspace) -> BestTrialOfSweep:
    """The best trial of a sweep; with `save`, it is also written as a benchmark.

    Raises:
        RlexpError: There is no such sweep, it has no score yet, or the hyperparameters cannot be
            written in the requested form; nothing was written.
    """
    target = _target(request.save, workspace.folder)
    _check_is_sweep(request.sweep, workspace)
    workspace.make_allowed_importable()
    trial = choose_trial(SweepTrial(request.sweep, None), workspace)
    evidence = collect_evidence([trial.paths.name], Phase.TEST, workspace)
    (sweep,) = evidence.sweeps
    parts = read_report([], workspace.folder, workspace.allowed)
    context = ReportContext(
        evidence=in_units_of_scores(evidence, parts.settings),
        settings=parts.settings,
        metrics=parts.metrics,
    )
    scores, optimism, improvement = _assessed(trial, sweep, context)
    text = content = None
    if request.form is not None or target is not None:
        words = _words(trial, sweep, request, workspace)
        content = _benchmark(trial, sweep, scores, words) if target is not None else None
        text = None if request.form is None else _text(request.form, trial, sweep, scores, words)
    if target is not None and content is not None:
        _save(target, content)
    return BestTrialOfSweep(
        experiment=trial.paths.name,
        trial=trial.number,
        trials=len(sweep.trials),
        selected=trial.selection is not None,
        rule=None if sweep.selection is None else sweep.selection.rule,
        caution=_caution(trial, sweep, scores),
        parameters=tuple(_parameters(trial, sweep)),
        scores=scores,
        optimism=optimism,
        improvement=improvement,
        format=None if request.form is None else str(request.form),
        text=text,
        file=target,
        next=tuple(_next(request, trial, workspace)),
    )


def _check_is_sweep(name: str, workspace: Workspace) -> None:
    """Refuse an experiment that is not a sweep, with the command that shows it."""
    paths = workspace.experiment(name)
    if not paths.trials.exists():
        raise RecordError(
            f"{paths.name} has no trials: it is not a sweep, or has not started; to see it: "
            f"{shlex.join(['rlexp', 'show', paths.name])}"
        )


def _assessed(
    trial: ChosenTrial, sweep: SweepEvidence, context: ReportContext
) -> tuple[tuple[PhaseScores, ...], Interval | None, Interval | None]:
    """The scores of the trial and of the default, with optimism and improvement."""
    if sweep.selection is not None:
        assessment = assess_winner(sweep, sweep.selection, context)
        return assessment.measured, assessment.optimism, assessment.improvement
    numbers = dict.fromkeys((trial.number, DEFAULT))
    measured = tuple(m for number in numbers for m in measured_scores(sweep, context, number))
    return measured, None, None


def _parameters(trial: ChosenTrial, sweep: SweepEvidence) -> Iterator[ParameterRow]:
    tried = by_number(sweep, trial.number)
    values = {} if tried is None else tried.parameters
    for parameter in sweep.definition.space.parameters:
        yield ParameterRow(
            parameter=parameter.key,
            searched=range_in_words(parameter.domain),
            default=sweep.default.get(parameter.key),
            value=values.get(parameter.key),
        )


def _caution(
    trial: ChosenTrial, sweep: SweepEvidence, scores: tuple[PhaseScores, ...]
) -> str | None:
    """Why the scores are no result yet; None once there are test scores."""
    if trial.selection is None:
        tuned = next(m for m in scores if (m.phase, m.trial) == ("tuning", trial.number))
        return (
            f"{trial.paths.name} has not selected a winner yet. Trial {trial.number} is the best so "
            f"far of {format_count(len(sweep.trials), 'trial')}, by its score on {len(tuned.scores)} of "
            f"{format_count(tuned.planned, 'tuning seed')}. This score is too optimistic, because the "
            "best of several scores is chosen, and there are no test scores."
        )
    tested = [m for m in scores if (m.phase, m.trial) == ("test", trial.number)]
    if any(m.scores for m in tested):
        return None
    return (
        f"Trial {trial.number} won {trial.paths.name}, but has no test scores yet. Its tuning and "
        "selection scores are too optimistic, because it was chosen by them."
    )


def _words(
    trial: ChosenTrial, sweep: SweepEvidence, request: BestRequest, workspace: Workspace
) -> ConfigurationWords:
    """The choices and settings of the trial, with every searched hyperparameter.

    Before the selection, they include seeds other than those of the sweep.
    """
    workspace.make_importable()
    form = [] if request.form is None else ["--format", str(request.form)]
    save = [] if request.save is None else ["--save", request.save]
    command = ("rlexp", "best", request.sweep, *form, *save, *workspace.permission)
    check_imports([trial.configuration], workspace.allowed, command)
    words = trial.words(workspace)
    searched = {
        row.parameter: row.value
        for row in _parameters(trial, sweep)
        if row.value is not None and _is_setting(row.parameter, words)
    }
    words = words.with_settings(searched)
    return words if trial.selection is not None else words.with_settings({ROOT: trial.root + 1})


def _is_setting(key: str, words: ConfigurationWords) -> bool:
    """Whether a searched parameter is a setting, and neither a switch nor the choice of an option."""
    return "." in key and key.partition(".")[0] in words.options


def _text(
    form: BestFormat,
    trial: ChosenTrial,
    sweep: SweepEvidence,
    scores: tuple[PhaseScores, ...],
    words: ConfigurationWords,
) -> str:
    """The hyperparameters in a form, with a line feed at the end."""
    match form:
        case BestFormat.YAML:
            return _benchmark(trial, sweep, scores, words)
        case BestFormat.ARGS:
            return shlex.join(words.overrides()) + "\n"
        case BestFormat.JSON:
            chosen = {g: list(n) if len(n) > 1 else n[0] for g, n in words.options.items()}
            document = {"options": chosen, "settings": dict(words.settings)}
            return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        case BestFormat.RL_ZOO:
            return _zoo(trial, sweep, scores, words)


def _benchmark(
    trial: ChosenTrial,
    sweep: SweepEvidence,
    scores: tuple[PhaseScores, ...],
    words: ConfigurationWords,
) -> str:
    """The content of a file of the group `benchmark`."""
    defaults = [
        {f"override /{group}": list(names) if group == "component" else names[0]}
        for group, names in words.options.items()
    ]
    content = {"defaults": defaults, **_nested(words.settings)}
    comments = "\n".join(["@package _global_", *_origin_lines(trial, sweep, scores)])
    return matrix_text(content, comments)


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested sections."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        node = nested
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return nested


def _zoo(
    trial: ChosenTrial,
    sweep: SweepEvidence,
    scores: tuple[PhaseScores, ...],
    words: ConfigurationWords,
) -> str:
    """An entry of a file of rl-baselines3-zoo.

    Raises:
        ConfigError: A setting has no equivalent in the zoo.
    """
    configuration = trial.configuration
    explicit = {
        key.removeprefix("algorithm.") for key in words.settings if key.startswith("algorithm.")
    }
    entry, troubles = zoo_entry(
        configuration.agent,
        configuration.algorithm,
        configuration.environment,
        configuration.budget.steps,
        explicit,
    )
    if troubles:
        reasons = "; ".join(f"{key}: {why}" for key, why in troubles.items())
        raise ConfigError(
            f"{trial.name} cannot be written for rl-baselines3-zoo: {reasons}; write --format yaml"
        )
    file = f"For hyperparams/{zoo_algorithm(configuration.algorithm)}.yml of rl-baselines3-zoo."
    comments = "\n".join([file, *_origin_lines(trial, sweep, scores)])
    return matrix_text({str(configuration.environment["id"]): entry}, comments)


def _origin_lines(
    trial: ChosenTrial, sweep: SweepEvidence, scores: tuple[PhaseScores, ...]
) -> Iterator[str]:
    """The origin of the hyperparameters as sentences, from the records alone."""
    role = "The winner" if trial.is_winner else "The best trial so far"
    when = _date(trial)
    yield f"{role} of the sweep {trial.paths.name}: trial {trial.number} of {len(sweep.trials)}{when}."
    shown = [
        f"{m.phase} {format_score(m.mean.estimate)} (n = {len(m.scores)})"
        for m in scores
        if m.trial == trial.number and m.mean is not None
    ]
    yield f"Mean scores: {', '.join(shown)}." if shown else "It has no mean score."
    if trial.selection is None:
        yield "It is not selected yet: its tuning score is too optimistic, and it has no test score."
        yield f"{ROOT} keeps the test seeds of the sweep unused until its winner is selected."
    else:
        yield f"sha256 of selection.json: {trial.selection}"


def _date(trial: ChosenTrial) -> str:
    """The day of the last run that the choice is based on, in UTC; empty where it is unknown."""
    records = [s.record for s in read_runs(trial.paths) if s.record.spec.phase is not Phase.TEST]
    ended = [record.ended for record in records if record.ended is not None]
    return f", {datetime.fromtimestamp(max(ended), UTC):%Y-%m-%d}" if ended else ""


def _target(name: str | None, folder: Path) -> Path | None:
    if name is None:
        return None
    if not NAME.fullmatch(name):
        raise ConfigError(f"--save {name!r} is not a valid name: use letters, digits, _ and -")
    return folder / "conf" / GROUP / f"{name}.yaml"


def _save(target: Path, content: str) -> None:
    """Write a benchmark; an identical file stays as it is.

    Raises:
        ConfigError: There is another file or a link of this name.
    """
    encoded = content.encode()
    if target.is_symlink() or (target.exists() and not _holds(target, encoded)):
        raise ConfigError(f"{target} already exists: remove it, or choose another --save NAME")
    if not target.exists():
        publish(target, encoded)


def _holds(target: Path, content: bytes) -> bool:
    try:
        return read_file(target) == content
    except OSError:
        return False


def _next(request: BestRequest, trial: ChosenTrial, workspace: Workspace) -> Iterator[NextCommand]:
    name, permission = trial.paths.name, workspace.permission
    if request.save is not None:
        overrides = [f"+{GROUP}={request.save}"]
        see = shlex.join(["rlexp", "config", "show", *overrides, *permission])
        yield NextCommand(why="see the configuration", command=see)
        run = shlex.join(["rlexp", "run", *overrides, *permission])
        yield NextCommand(why="train it", command=run)
        return
    train = shlex.join(["rlexp", "run", "--from-sweep", name, *permission])
    yield NextCommand(why="train it again", command=train)
    saved = re.sub(r"[^A-Za-z0-9_-]", "_", f"{name}_best")
    write = shlex.join(["rlexp", "best", name, "--save", saved, *permission])
    yield NextCommand(why="save it as a benchmark", command=write)
    if trial.selection is None:
        status = shlex.join(["rlexp", "status", name])
        yield NextCommand(why="see how far the sweep is", command=status)
