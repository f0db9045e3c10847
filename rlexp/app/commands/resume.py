"""`rlexp resume`: brings what is unfinished to its end, as a repeat of its command would."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rlexp.app.commands.run import RunOptions, RunOutcome, bring_to_end
from rlexp.app.commands.sweep import (
    UNTIL,
    SweepOptions,
    SweepOutcome,
    bring_sweep_to_end,
    has_work,
)
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.launch_settings import LaunchOptions
from rlexp.app.execution.request import Request
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reading.provenance import Recorded, read_recorded
from rlexp.app.reading.survey import Survey, survey
from rlexp.app.results import Schema
from rlexp.app.sweeps.request import Asked, read_sweep, split_definition
from rlexp.app.sweeps.state import Closed
from rlexp.app.sweeps.state import resume as take_up
from rlexp.app.tracking.mirror_client import Trackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build, build_named, validate_settings
from rlexp.config.words import OF_THE_ATTEMPT, parse_words, split_word
from rlexp.engine.sweeping import Stage
from rlexp.errors import Code, ConfigError, RecordError, RlexpError
from rlexp.executors import Executor
from rlexp.protocol.budget import OPERATIONAL, Budget
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import holder, is_held
from rlexp.store.runs import read_spec
from rlexp.store.secrets import MASK

Part = RunOutcome | RunPlan | SweepOutcome | SweepOutline
"""The result for one phase of an experiment, or for a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftExperiment:
    """An experiment that was left alone, because another command drives it.

    Attributes:
        experiment: Its name.
        holder: The process that drives it.
    """

    experiment: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeError:
    """An experiment that could not be continued.

    Attributes:
        experiment: Its name.
        code: The kind of error; one of `rlexp.errors.CODES`.
        message: What is wrong, and what to do.
        key: The setting or argument that is wrong, if it is a single one.
        allowed: What is allowed instead, if that can be listed.
        command: The command to type next, if there is a single one.
        exit_code: The exit code of a command for this experiment alone.
        parts_before: Parts of the result that were there before the error.
    """

    experiment: str
    code: Code
    message: str
    key: str | None
    allowed: tuple[str, ...]
    command: str | None
    exit_code: int
    parts_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWords:
    """Words of a recorded command that were left out: a record does not say how to use a machine.

    Attributes:
        experiment: Whose command it is.
        words: Those words.
    """

    experiment: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOutcome:
    """What was continued.

    Attributes:
        experiments: Experiments that were looked at.
        parts: The result of each phase and of each sweep that was continued.
        left: Experiments that another command drives.
        errors: Experiments that could not be continued.
        adaptive: Experiments whose next look `rlexp compare --adaptive` makes.
        left_words: Words of recorded commands that were left out.
        interrupted: The signal that ended the command (`SIGINT`), if one did.
    """

    schema: ClassVar[Schema] = Schema("resume-outcome")

    experiments: int
    parts: tuple[Part, ...]
    left: tuple[LeftExperiment, ...]
    errors: tuple[ResumeError, ...]
    adaptive: tuple[str, ...]
    left_words: tuple[LeftWords, ...]
    interrupted: str | None


def resume(
    words: Sequence[str], options: LaunchOptions, workspace: Workspace, observer: Observer
) -> ResumeOutcome:
    """Bring an experiment, a run, or everything that is unfinished to its end.

    Args:
        words: The target, or none for everything; then words about executor and checkpoints.
        options: Further options.
        workspace: Where the experiments are.
        observer: Receives plans, progress, and every part of the result once it is there.

    Raises:
        RlexpError: There is no such target, or something is wrong with it; nothing was started.
    """
    workspace.make_allowed_importable()
    target, rest = _split(words, workspace)
    resumption = _Resumption(tuple(rest), options, workspace, observer)
    if target is None:
        resumption.every_experiment()
    else:
        resumption.target(target)
    return resumption.outcome()


def _split(words: Sequence[str], workspace: Workspace) -> tuple[str | None, Sequence[str]]:
    """The target, if words begin with one, and what stands after it."""
    if not words:
        return None, words
    is_target = "=" not in words[0] or (workspace.layout.root / words[0]).exists()
    return (words[0], words[1:]) if is_target else (None, words)


@dataclass(slots=True)
class _Resumption:
    """One command, where it is given, and what it has led to so far."""

    words: tuple[str, ...]
    options: LaunchOptions
    workspace: Workspace
    observer: Observer
    experiments: int = 0
    parts: list[Part] = field(default_factory=list)
    left: list[LeftExperiment] = field(default_factory=list)
    errors: list[ResumeError] = field(default_factory=list)
    adaptive: list[str] = field(default_factory=list)
    left_words: list[LeftWords] = field(default_factory=list)

    @property
    def interrupted(self) -> str | None:
        """The signal that ended the last part, if one did."""
        outcomes = [p for p in self.parts if isinstance(p, RunOutcome | SweepOutcome)]
        return next((p.interrupted for p in outcomes if p.interrupted), None)

    def outcome(self) -> ResumeOutcome:
        """What the command led to."""
        return ResumeOutcome(
            experiments=self.experiments,
            parts=tuple(self.parts),
            left=tuple(self.left),
            errors=tuple(self.errors),
            adaptive=tuple(self.adaptive),
            left_words=tuple(self.left_words),
            interrupted=self.interrupted,
        )

    def target(self, name: str) -> None:
        """Bring an experiment or a run to its end."""
        self.experiments = 1
        paths = self.workspace.find(name)
        try:
            if isinstance(paths, RunPaths):
                self._run(paths)
            else:
                self._experiment(survey(paths))
        except RlexpError as error:
            # What was continued before the error stays a result.
            if not self.parts:
                raise
            self._fail(name, error)

    def every_experiment(self) -> None:
        """Bring every experiment to its end that is not, one after the other."""
        check_words(self.words)
        every = self.workspace.layout.experiments()
        self.experiments = len(every)
        for paths in every:
            try:
                self._if_unfinished(paths)
            except RlexpError as error:
                self._fail(paths.name, error)
            if self.interrupted:
                return

    def _fail(self, experiment: str, error: RlexpError) -> None:
        """Keep an error beside the parts that are there."""
        self.observer.error(f"{experiment}: {error}")
        self.errors.append(
            ResumeError(
                experiment=experiment,
                code=error.code,
                message=str(error),
                key=error.key,
                allowed=error.allowed,
                command=error.command,
                exit_code=error.exit_code,
                parts_before=len(self.parts),
            )
        )

    def _if_unfinished(self, paths: ExperimentPaths) -> None:
        if is_held(paths.lock):
            left = LeftExperiment(experiment=paths.name, holder=holder(paths.lock))
            self.left.append(left)
            return
        surveyed = survey(paths)
        if surveyed.experiment is None:
            raise RecordError(str(surveyed.problem))
        if _is_unfinished(surveyed, surveyed.experiment, read_recorded(surveyed), self):
            self._experiment(surveyed)

    def _experiment(self, surveyed: Survey) -> None:
        recorded = read_recorded(surveyed)
        if surveyed.experiment is not None and surveyed.experiment.sweep is not None:
            self._sweep(surveyed, recorded)
            return
        self._phases(surveyed, recorded)
        if surveyed.paths.adaptive.exists():
            self.adaptive.append(surveyed.paths.name)

    def _run(self, paths: RunPaths) -> None:
        surveyed = survey(ExperimentPaths(paths.folder.parent))
        if surveyed.experiment is not None and surveyed.experiment.sweep is not None:
            whole = shlex.join(["rlexp", "resume", surveyed.paths.name, *self.words])
            raise RecordError(
                f"run {paths.folder.name} belongs to a sweep, which decides how far its runs go; "
                f"continue that: {whole}"
            )
        self._phases(surveyed, read_recorded(surveyed), read_spec(paths))

    def _phases(self, surveyed: Survey, recorded: Recorded, only: RunSpec | None = None) -> None:
        name = surveyed.paths.name if only is None else f"{surveyed.paths.name}/{only.name}"
        command = self._command(name)
        options = RunOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
        )
        asked = requests(surveyed, recorded, self.words, self.workspace, command, only)
        for request in asked:
            self._add(bring_to_end(request, command, options, self.workspace, self.observer))
            if self.interrupted:
                return

    def _sweep(self, surveyed: Survey, recorded: Recorded) -> None:
        command = self._command(surveyed.paths.name)
        asked, again, left_out = asked_of_sweep(
            surveyed, recorded, self.words, self.workspace, command
        )
        if left_out:
            left = LeftWords(experiment=surveyed.paths.name, words=tuple(left_out))
            self.left_words.append(left)
        options = SweepOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
            until=_until(recorded),
        )
        self._add(bring_sweep_to_end(asked, again, options, self.workspace, self.observer))

    def _add(self, part: Part) -> None:
        self.parts.append(part)
        self.observer.finished(part)

    def _command(self, name: str) -> tuple[str, ...]:
        drift = ["--allow-drift"] if self.options.allow_drift else []
        return ("rlexp", "resume", name, *self.words, *drift, *self.workspace.permission)


def _until(recorded: Recorded) -> Stage:
    """The stage that the last command was told to stop after."""
    word = recorded.settings.get("until")
    return Stage(word) if word in UNTIL else Stage.TEST


def _is_unfinished(
    surveyed: Survey, experiment: Experiment, recorded: Recorded, resumption: _Resumption
) -> bool:
    """Whether a run is missing, or a sweep has something to decide."""
    retry = resumption.options.retry
    if experiment.imported is not None:
        return False
    if experiment.sweep is None:
        planned = [f.stored.record for f in surveyed.runs if f.planned and f.stored]
        return any(record.may_run(retry=retry) for record in planned)
    runs = [f.stored for f in surveyed.runs if f.stored is not None and not f.damaged]
    until, workspace = _until(recorded), resumption.workspace
    return has_work(
        take_up(surveyed.paths, experiment, runs, workspace, Closed(), until=until, retry=retry)
    )


OF_THE_MACHINE = ("executor", "tracker")
"""Groups that decide no number: where runs are executed, and what mirrors them."""
MIRROR = "sweep.storage"
"""Where a sweep is mirrored to: no number depends on it either."""


def check_words(words: Sequence[str], *more: str) -> list[str]:
    """The keys of words that may be given when runs go on.

    Args:
        words: In Hydra's grammar.
        more: Further keys that may be given.

    Raises:
        ConfigError: A word could change a number.
    """
    keys = [parsed.key_or_group for parsed in parse_words(words)]
    for word, key in zip(words, keys, strict=True):
        if not _changes_no_number(key) and key not in more:
            allowed = ", ".join(
                ("executor", "executor.…", "tracker", "tracker.…", *OF_THE_ATTEMPT, *more)
            )
            raise ConfigError(
                f"{word}: what is continued stays as it was asked for; 'rlexp resume' takes only "
                f"{allowed}; to ask for something else, use 'rlexp run' or 'rlexp sweep'"
            )
    return keys


def _changes_no_number(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key in OF_THE_ATTEMPT


def requests(
    found: Survey,
    recorded: Recorded,
    words: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
    only: RunSpec | None = None,
) -> Iterator[Request]:
    """What the records of an experiment ask for, a request for each phase that was begun.

    Args:
        found: The experiment.
        recorded: How it was driven last.
        words: About executor and checkpoints.
        workspace: Whose configuration says how runs are executed.
        command: What the user typed.
        only: The run that is wanted, where no other is.

    Raises:
        RlexpError: A word would change a number, or the records name code that is not allowed.
    """
    experiment = experiment_of(found)
    refuse_imported(experiment)
    refuse_older(experiment)
    check_imports(experiment.configurations, workspace.allowed, command)
    executor, budget, trackers = _driven(experiment, recorded, words, workspace)
    if only is not None:
        _check_asked(experiment, only)
    phases = found.phases or (Phase.TEST,)
    for phase in phases if only is None else (only.phase,):
        yield Request(experiment, phase, executor, budget, trackers, only.id if only else None)


def experiment_of(found: Survey) -> Experiment:
    """The question.

    Raises:
        RecordError: It cannot be read.
    """
    if found.experiment is None:
        raise RecordError(f"{found.problem}; 'rlexp ls {found.paths.name}' lists its runs")
    return found.experiment


def _check_asked(experiment: Experiment, only: RunSpec) -> None:
    if only.id not in {spec.id for _, spec in experiment.specs(only.phase)}:
        raise RecordError(
            f"the definition of experiment {experiment.name} does not ask for run {only.name}: "
            "repeat the command that does"
        )


def _driven(
    experiment: Experiment, recorded: Recorded, words: Sequence[str], workspace: Workspace
) -> tuple[Executor, Budget, Trackers]:
    """How runs are executed: by words, else as they were before, else by the configuration.

    Records never say where they are mirrored to: they may be foreign, and a key would go there.
    """
    given = check_words(words)
    plain = compose(words, workspace.folder)[0].plain
    executor: Executor = build(plain["executor"], "executor", workspace.allowed)
    mirrors = plain["tracker"]
    trackers = Trackers(build_named(mirrors, "tracker", workspace.allowed), mirrors)
    before = {
        key: recorded.settings[key]
        for key in OPERATIONAL
        if key in recorded.settings and f"budget.{key}" not in given
    }
    own = {key: plain["budget"].get(key) for key in OPERATIONAL}
    try:
        return executor, _budget(experiment, {**own, **before}), trackers
    except ConfigError:
        # What a damaged file says of the cadence of checkpoints is no reason not to go on.
        return executor, _budget(experiment, own), trackers


def _budget(experiment: Experiment, operational: dict[str, Any]) -> Budget:
    defining = experiment.default.budget.defining()
    return validate_settings(Budget, {**defining, **operational}, "budget.")


def asked_of_sweep(
    found: Survey,
    recorded: Recorded,
    words: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
) -> tuple[Asked, tuple[str, ...], list[str]]:
    """What the recorded command of a sweep asks for, with words about executor and checkpoints.

    Args:
        found: The sweep.
        recorded: How it was driven last.
        words: About executor, checkpoints and mirror.
        workspace: Where its definition is.
        command: What the user typed.

    Returns:
        The sweep, the command that asks for it, and recorded words that were left out: a record
        does not say how this machine is used.

    Raises:
        RlexpError: The command is not recorded whole, asks for something else by now, or the
            records name code that is not allowed.
    """
    experiment, name = experiment_of(found), found.paths.name
    refuse_older(experiment)
    given = check_words(words, MIRROR)
    check_imports(
        (*experiment.trials, *experiment.finalists, *experiment.configurations),
        workspace.allowed,
        command,
    )
    typed = _typed(recorded, name)
    definition, before = split_definition(typed)
    keys = [parsed.key_or_group for parsed in parse_words(before)]
    kept = [w for w, k in zip(before, keys, strict=True) if k not in given and not _of_machine(k)]
    left_out = [w for w, k in zip(before, keys, strict=True) if k not in given and _of_machine(k)]
    try:
        asked = read_sweep(definition, [*kept, *words], workspace)
    except ConfigError as error:
        there = f" (it was given in {recorded.folder})" if _moved(recorded, workspace) else ""
        told = shlex.join(["rlexp", "sweep", *typed])
        raise ConfigError(f"'{told}' can no longer be given{there}: {error}") from error
    if asked.experiment.name != name:
        raise RecordError(
            f"the command that {name} recorded leads to {asked.experiment.name}, not to it; "
            f"repeat the command with experiment={name}: "
            f"{shlex.join(['rlexp', 'sweep', *typed, f'experiment={name}'])}"
        )
    again = ("rlexp", "sweep", *([definition] if definition else []), *kept, *words)
    return asked, again, left_out


def _of_machine(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key == MIRROR


def _moved(recorded: Recorded, workspace: Workspace) -> bool:
    return bool(recorded.folder) and recorded.folder != str(workspace.folder)


def _typed(recorded: Recorded, name: str) -> tuple[str, ...]:
    """The words after `rlexp sweep`.

    Raises:
        RecordError: They are not recorded, or not whole.
    """
    if recorded.command[:2] != ("rlexp", "sweep"):
        raise RecordError(
            f"the command that asked for sweep {name} is not recorded, for no run of it was "
            f"started: repeat it ('rlexp sweep …')"
        )
    words = recorded.command[2:]
    if any(MASK in split_word(word)[1] for word in words):
        raise RecordError(
            f"the command that asked for sweep {name} holds a secret, which is not recorded: "
            f"repeat it with its value: {shlex.join(recorded.command)}"
        )
    return words
