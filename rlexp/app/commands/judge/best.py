"""`rlexp best`: shows the best trial of a sweep, and writes its hyperparameters for reuse."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.app.commands.judge.best_front import FrontOfSweep, front_of_sweep
from rlexp.app.data_frames import data_frame
from rlexp.app.execution.checks.import_permission import check_imports, permission_for
from rlexp.app.execution.configuration_words import (
    MANY,
    ConfigurationWords,
    sections_of,
    value_at,
)
from rlexp.app.reading.imported import is_ask_and_tell
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.retrain import (
    ChosenTrial,
    SweepTrial,
    as_ordinary,
    choose_trial,
    is_change_of_code,
)
from rlexp.app.sweeps.state import read_runs
from rlexp.app.workspace import Workspace
from rlexp.config.matrix import GROUP, benchmark_file
from rlexp.config.report_settings import read_report
from rlexp.config.yaml_text import matrix_text, nested_sections
from rlexp.errors import ConfigError, RecordError
from rlexp.exchange.exporters.zoo_settings import zoo_algorithm, zoo_entry
from rlexp.protocol.seeds import Phase
from rlexp.protocol.units import unit_text
from rlexp.protocol.value_schedule import whole_values
from rlexp.records.selection import DEFAULT
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.analysis.sweep_tables import by_number, range_in_words
from rlexp.reports.analysis.winner_assessment import PhaseScores, assess_winner, measured_scores
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.interval import Interval
from rlexp.store.files import publish, read_file
from rlexp.store.registers.streams import is_stream
from rlexp.store.runs import read_definition
from rlexp.text import format_count, format_score

if TYPE_CHECKING:
    from pandas import DataFrame


ROOT = "seeds.root"
"""The key of the number from which all seeds are derived."""
PACKAGE = "@package _global_"
"""The first comment of a benchmark, by which Hydra merges its settings at the top."""
ORIGIN = (
    *(PACKAGE, "The winner of the sweep ", "A trial of the sweep "),
    *("The best trial so far of the sweep ", "Mean scores: ", "It has no mean score."),
    *("It is not selected yet: ", "It was not selected: ", f"{ROOT} keeps the test seeds "),
    "sha256 of selection.json: ",
)
"""The beginnings of the comments that are written above the settings of a benchmark."""


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
        trial: The number of the trial; None chooses the winner, or else the best trial so far.
        form: The form in which the hyperparameters are written; None writes no text.
        save: The name of the benchmark to save; None saves nothing.
    """

    sweep: str
    trial: int | None = None
    form: BestFormat | None = None
    save: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRow:
    """One searched hyperparameter, or one that a candidate of a stream has changed.

    Attributes:
        parameter: Its key in the configuration.
        searched: Its values in the search space, in words; `proposed` in a stream.
        default: Its value in the default configuration; null where it is not active.
        value: Its value in the best trial; null where it is not active.
    """

    parameter: str
    searched: str
    default: Any
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTrialOfSweep(Displayed):
    """The best trial of a sweep, or the trial that was named, with its scores and hyperparameters.

    Attributes:
        experiment: The name of the sweep.
        trial: The number of the trial: the named one, the winner, or else the best trial so far.
        trials: Number of trials of the sweep.
        selected: Whether the sweep has selected it as its winner.
        winner: The number of the trial that the sweep has selected; null before the selection.
        lower_is_better: Whether the scores are of a measure that is declared as minimised.
        rule: The rule by which the winner was selected; null before the selection.
        caution: Why its scores are no result yet; null once the winner has test scores.
        parameters: The searched hyperparameters.
        scores: Its scores and those of the default configuration, by phase, each with the mean and
            its interval. Before the selection there are tuning scores only.
        optimism: How much better its mean tuning score is than its mean test score: the first minus
            the second, or the reverse where lower is better. Null without test scores, and for a
            trial that was not selected.
        front: The front of several objectives; null with one objective, and before a complete trial.
        improvement: The probability that a test run of the winner beats one of the default
            configuration; null without test scores, and for a trial that was not selected.
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
    winner: int | None
    lower_is_better: bool
    rule: str | None
    caution: str | None
    parameters: tuple[ParameterRow, ...]
    scores: tuple[PhaseScores, ...]
    optimism: Interval | None
    improvement: Interval | None
    front: FrontOfSweep | None
    format: str | None
    text: str | None
    file: Path | None
    next: tuple[NextCommand, ...]

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each searched hyperparameter.

        Raises:
            ConfigError: pandas is not installed.
        """
        names = [f.name for f in fields(ParameterRow)]
        rows = [{name: getattr(row, name) for name in names} for row in self.parameters]
        return data_frame(rows, names, mixed=("default", "value"))


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
    """The best trial of a sweep, or a named one; with `save`, it is also written as a benchmark.

    Raises:
        RlexpError: There is no such sweep or trial, the sweep has no score yet, or the hyperparameters cannot be
            written in the requested form; nothing was written.
    """
    save = request.save
    target = None if save is None else benchmark_file(save, workspace.folder, "--save")
    _check_is_sweep(request.sweep, workspace)
    workspace.make_allowed_importable()
    shown_only = request.form is None and save is None
    trial = choose_trial(SweepTrial(request.sweep, request.trial), workspace, to_read=shown_only)
    _check_form(request, trial)
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
        config = _words(trial, sweep, request, workspace)
        origin = [*_origin_lines(trial, sweep, scores, named=request.trial is not None)]
        content = _benchmark(config, origin) if target is not None else None
        text = None if request.form is None else _text(request.form, trial, config, origin)
    if target is not None and content is not None:
        _save(target, content)
    return BestTrialOfSweep(
        experiment=trial.paths.name,
        trial=trial.number,
        trials=len(sweep.trials),
        selected=trial.is_winner,
        winner=_winner(sweep),
        lower_is_better=sweep.score_minimised,
        rule=None if sweep.selection is None else sweep.selection.rule,
        caution=_caution(trial, sweep, scores, named=request.trial is not None),
        parameters=tuple(_parameters(trial, sweep)),
        scores=scores,
        optimism=optimism,
        improvement=improvement,
        front=front_of_sweep(sweep, context),
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


def _check_form(request: BestRequest, trial: ChosenTrial) -> None:
    """Refuse files that hold a single environment, for a trial on several tasks.

    Raises:
        ConfigError: The requested form has one environment.
    """
    if len(trial.configurations) == 1:
        return
    args = shlex.join(["rlexp", "best", request.sweep, *_option(request), "--format", "args"])
    one_task = {BestFormat.YAML, BestFormat.RL_ZOO}
    if request.save is not None or request.form in one_task:
        form = "--save" if request.save is not None else f"--format {request.form}"
        raise ConfigError(
            f"{form} writes a file with one environment, and {trial.paths.name} has "
            f"{len(trial.configurations)} tasks: write {args}"
        )


def _assessed(
    trial: ChosenTrial, sweep: SweepEvidence, context: ReportContext
) -> tuple[tuple[PhaseScores, ...], Interval | None, Interval | None]:
    """The scores of the trial and of the default, with optimism and improvement."""
    if sweep.selection is not None and trial.is_winner:
        assessment = assess_winner(sweep, sweep.selection, context)
        return assessment.measured, assessment.optimism, assessment.improvement
    numbers = dict.fromkeys((trial.number, DEFAULT))
    measured = tuple(m for number in numbers for m in measured_scores(sweep, context, number))
    return measured, None, None


def _parameters(trial: ChosenTrial, sweep: SweepEvidence) -> Iterator[ParameterRow]:
    tried = by_number(sweep, trial.number)
    values = {} if tried is None else tried.parameters
    values = whole_values(trial.configuration.parts(), values)
    for parameter in sweep.definition.space.parameters:
        yield ParameterRow(
            parameter=parameter.key,
            searched=range_in_words(parameter.domain),
            default=sweep.default.get(parameter.key),
            value=values.get(parameter.key),
        )
    searched = {parameter.key for parameter in sweep.definition.space.parameters}
    proposed = [key for key in values if key not in searched]
    default = sections_of(read_definition(trial.paths).default) if proposed else {}
    for key in proposed:
        yield ParameterRow(
            parameter=key,
            searched="proposed",
            default=value_at(default, key),
            value=values[key],
        )


def _caution(
    trial: ChosenTrial, sweep: SweepEvidence, scores: tuple[PhaseScores, ...], *, named: bool
) -> str | None:
    """Why the scores are no result; None for a winner with test scores.

    Args:
        trial: The trial.
        sweep: The sweep.
        scores: The scores of the trial and of the default.
        named: Whether the user named the trial.
    """
    if not trial.is_winner:
        unselected = sweep.selection is None
        return (
            _before_selection(trial, sweep, scores, named)
            if unselected
            else _rejected(trial, sweep)
        )
    if sweep.ranks:
        see = shlex.join(["rlexp", "show", trial.paths.name])
        return (
            f"Trial {trial.number} won {trial.paths.name} by its ranks, which are too optimistic. A test "
            f"score has no rank: for the test scores by task, type {see}"
        )
    if _is_tested(trial, scores):
        return None
    return (
        f"Trial {trial.number} won {trial.paths.name}, but has no test scores yet. Its tuning and "
        "selection scores are too optimistic, because it was chosen by them."
    )


def _before_selection(
    trial: ChosenTrial, sweep: SweepEvidence, scores: tuple[PhaseScores, ...], named: bool
) -> str:
    tuned = next(m for m in scores if (m.phase, m.trial) == ("tuning", trial.number))
    seeds = f"{len(tuned.scores)} of {format_count(tuned.planned, 'tuning seed')}"
    waiting = f"{trial.paths.name} has not selected a winner yet."
    if named:
        return (
            f"{waiting} Trial {trial.number} has scores on {seeds}, which are no result, and there "
            f"are no test scores.{_remarks(trial, sweep)}"
        )
    return (
        f"{waiting} Trial {trial.number} is the best so far of "
        f"{format_count(len(sweep.trials), 'trial')}, by its score on {seeds}. This score is too "
        "optimistic, because the best of several scores is chosen, and there are no test scores."
    )


def _rejected(trial: ChosenTrial, sweep: SweepEvidence) -> str:
    """What to know of a trial that the sweep did not select."""
    selection = sweep.selection
    tested = "It has no test scores, and its other scores are no result."
    if trial.number == DEFAULT:
        tested = "It is the default configuration, which is tested beside the winner."
    elif selection is not None and trial.number in selection.tested:
        whose = "a policy of the front" if selection.front else "the winner's rival"
        tested = f"It is {whose}, which is tested beside the winner."
    return (
        f"Trial {trial.number} was not selected: {trial.paths.name} selected trial {_winner(sweep)}. "
        f"{tested}{_remarks(trial, sweep)}"
    )


def _remarks(trial: ChosenTrial, sweep: SweepEvidence) -> str:
    """Sentences about a trial that failed, was pruned or trained for fewer steps; mostly empty."""
    tried = by_number(sweep, trial.number)
    if tried is None:
        return ""
    state = "" if tried.state == "complete" else f" It is {tried.state}."
    full = trial.configuration.budget.steps
    fewer = tried.steps < full
    return state + (
        f" Its runs had {tried.steps:,} of {full:,} {unit_text(trial.configuration.unit)}."
        if fewer
        else ""
    )


def _is_tested(trial: ChosenTrial, scores: tuple[PhaseScores, ...]) -> bool:
    return any(m.scores for m in scores if (m.phase, m.trial) == ("test", trial.number))


def _words(
    trial: ChosenTrial, sweep: SweepEvidence, request: BestRequest, workspace: Workspace
) -> ConfigurationWords:
    """The choices and settings of the trial, with every searched hyperparameter.

    Before the selection, they include seeds other than those of the sweep.
    """
    workspace.make_importable()
    form = [] if request.form is None else ["--format", str(request.form)]
    save = [] if request.save is None else ["--save", request.save]
    command = (
        "rlexp",
        "best",
        request.sweep,
        *_option(request),
        *form,
        *save,
        *workspace.permission,
    )
    check_imports(trial.configurations, workspace.allowed, command)
    config = as_ordinary(trial).words(workspace)
    searched = {
        row.parameter: row.value
        for row in _parameters(trial, sweep)
        if row.value is not None and _is_setting(row.parameter, config)
    }
    config = config.with_settings(searched)
    return config if trial.selection is not None else config.with_settings({ROOT: trial.root + 1})


def _option(request: BestRequest) -> list[str]:
    """The option that names the trial; empty where the user named none."""
    return [] if request.trial is None else ["--trial", str(request.trial)]


def _is_setting(key: str, config: ConfigurationWords) -> bool:
    """Whether a searched parameter is a setting, and neither a switch nor the choice of an option."""
    return "." in key and key.partition(".")[0] in config.options


def _text(
    form: BestFormat, trial: ChosenTrial, config: ConfigurationWords, origin: Sequence[str]
) -> str:
    """The hyperparameters in a form, with a line feed at the end."""
    match form:
        case BestFormat.YAML:
            return _benchmark(config, origin)
        case BestFormat.ARGS:
            return shlex.join(config.overrides()) + "\n"
        case BestFormat.JSON:
            chosen = {g: list(n) if len(n) > 1 else n[0] for g, n in config.options.items()}
            document = {"options": chosen, "settings": dict(config.settings)}
            return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        case BestFormat.RL_ZOO:
            return _zoo(trial, config, origin)


def _benchmark(config: ConfigurationWords, origin: Sequence[str]) -> str:
    """The content of a file of the group `benchmark`."""
    defaults = [
        {f"override /{group}": list(names) if group in MANY else names[0]}
        for group, names in config.options.items()
    ]
    content = {"defaults": defaults, **nested_sections(config.settings)}
    comments = "\n".join([PACKAGE, *origin])
    return matrix_text(content, comments)


def _zoo(trial: ChosenTrial, config: ConfigurationWords, origin: Sequence[str]) -> str:
    """An entry of a file of rl-baselines3-zoo.

    Raises:
        ConfigError: A setting has no equivalent in the zoo.
    """
    configuration = trial.configuration
    explicit = {
        key.removeprefix("algorithm.") for key in config.settings if key.startswith("algorithm.")
    }
    entry, troubles = zoo_entry(
        configuration.agent,
        configuration.algorithm,
        configuration.environment,
        configuration.budget.steps,
        explicit,
        configuration.replay,
    )
    if configuration.callback:
        troubles["callback"] = "the zoo takes code, and no settings"
    if configuration.budget.stop_at is not None:
        troubles["budget.stop_at"] = "the zoo cannot end a training at a return"
    if troubles:
        reasons = "; ".join(f"{key}: {why}" for key, why in troubles.items())
        raise ConfigError(
            f"{trial.name} cannot be written for rl-baselines3-zoo: {reasons}; write --format yaml"
        )
    file = f"For hyperparams/{zoo_algorithm(configuration.algorithm)}.yml of rl-baselines3-zoo."
    comments = "\n".join([file, *origin])
    return matrix_text({str(configuration.environment["id"]): entry}, comments)


def _origin_lines(
    trial: ChosenTrial, sweep: SweepEvidence, scores: tuple[PhaseScores, ...], *, named: bool
) -> Iterator[str]:
    """The origin of the hyperparameters as sentences, from the records alone.

    `ORIGIN` has the beginning of each.
    """
    role = "The winner" if trial.is_winner else "A trial" if named else "The best trial so far"
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
        return
    if not trial.is_winner:
        yield f"It was not selected: the winner is trial {_winner(sweep)}."
    yield f"sha256 of selection.json: {trial.selection}"


def _winner(sweep: SweepEvidence) -> int | None:
    """The number of the winner; None before the selection."""
    return None if sweep.selection is None else sweep.selection.winner


def _date(trial: ChosenTrial) -> str:
    """The day of the last run that the choice is based on, in UTC; empty where it is unknown."""
    records = [s.record for s in read_runs(trial.paths) if s.record.spec.phase is not Phase.TEST]
    ended = [record.ended for record in records if record.ended is not None]
    return f", {datetime.fromtimestamp(max(ended), UTC):%Y-%m-%d}" if ended else ""


def _save(target: Path, content: str) -> None:
    """Write a benchmark.

    An identical file stays as it is. Of a file with the same settings, the comment is written anew,
    because it holds test scores, which grow; unless somebody else has changed the comment.

    Raises:
        ConfigError: There is another file or a link of this name.
    """
    if target.is_symlink() or (target.exists() and not _has_settings(target, content)):
        raise ConfigError(
            f"{target} already exists with other content: remove it, or choose another --save NAME"
        )
    if not target.exists() or _text_in(target) != content:
        publish(target, content.encode())


def _has_settings(target: Path, content: str) -> bool:
    """Whether a file is a benchmark of this command, with the same settings."""
    text = _text_in(target)
    if text is None:
        return False
    (comments, settings), (_, expected) = _halves(text), _halves(content)
    return settings == expected and all(line.startswith(ORIGIN) for line in comments)


def _text_in(target: Path) -> str | None:
    """The text of a file; None where it cannot be read."""
    try:
        return read_file(target).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _halves(text: str) -> tuple[list[str], list[str]]:
    """The comments at the beginning of a text, without their signs, and the lines below them."""
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if not line.startswith("# ")), len(lines))
    return [line.removeprefix("# ") for line in lines[:first]], lines[first:]


def _next(request: BestRequest, trial: ChosenTrial, workspace: Workspace) -> Iterator[NextCommand]:
    name = trial.paths.name
    if request.save is not None:
        permission = workspace.permission
        overrides = [f"+{GROUP}={request.save}"]
        see = shlex.join(["rlexp", "config", "show", *overrides, *permission])
        yield NextCommand(why="see the configuration", command=see)
        run = shlex.join(["rlexp", "run", *overrides, *permission])
        yield NextCommand(why="train it", command=run)
        return
    trainable = not is_ask_and_tell(read_definition(trial.paths))
    if trainable and not is_change_of_code(trial.configuration, trial.paths):
        yield from _further_uses(request, trial, workspace)
    if trial.selection is None:
        kind, command = ("stream", "propose") if is_stream(trial.paths) else ("sweep", "status")
        see = shlex.join(["rlexp", command, name])
        yield NextCommand(why=f"see how far the {kind} is", command=see)


def _further_uses(
    request: BestRequest, trial: ChosenTrial, workspace: Workspace
) -> Iterator[NextCommand]:
    """Training the trial again, and saving it; a change of code of a stream allows neither."""
    name = trial.paths.name
    # The records of the sweep name the code of the trial.
    permission = permission_for(trial.configurations, workspace.allowed)
    train = shlex.join([*SweepTrial(name, request.trial).command(permission)])
    yield NextCommand(why="train it again", command=train)
    if len(trial.configurations) > 1:
        # A benchmark's file has one environment.
        return
    suffix = "best" if request.trial is None else f"trial_{trial.number}"
    saved = re.sub(r"[^A-Za-z0-9_-]", "_", f"{name}_{suffix}")
    command = ["rlexp", "best", name, *_option(request), "--save", saved, *permission]
    yield NextCommand(why="save it as a benchmark", command=shlex.join(command))
