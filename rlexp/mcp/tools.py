"""The tools of the server: their arguments, and the use cases that they call.

The docstrings are what a client reads, and often a language model behind it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Interval

if TYPE_CHECKING:
    from rlexp.app.observer import Observer
    from rlexp.app.results import Result
    from rlexp.app.workspace import Workspace

Seconds = Annotated[float, Interval(ge=0, le=86_400)]
"""A duration of at most a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListArguments:
    """List the experiments of the workspace, or the runs of one experiment (`rlexp ls`).

    Attributes:
        experiment: The experiment whose runs are listed; without it, experiments are listed.
        where: Conditions that every row fulfils (`state=failed`, `score>400`, `algorithm=ppo`).
        sort: The column or key to sort by; `-column` reverses the order.
        group: Whether configurations are listed, one row each.
        columns: Columns and keys whose values every row carries in `columns`.
    """

    experiment: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    group: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowArguments:
    """Show the scores of an experiment, or the records of one run (`rlexp show`).

    Attributes:
        target: An experiment, or a run as `EXPERIMENT/RUN`.
    """

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusArguments:
    """Show how far experiments are, whichever process trains them (`rlexp status`).

    Attributes:
        experiment: Only this experiment; without it, all.
    """

    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """Train configurations on seeds (`rlexp run`); only the missing runs are started.

    If the runs take longer than `wait_seconds`, the answer is the status of the experiment and training goes
    on while the server lives. The same call waits on. `cancel` stops the runs; the same call then continues
    them from their checkpoints. Use `phase=tuning` while you are still trying: test scores are counted.

    Attributes:
        words: Settings in Hydra's grammar (`algorithm=ppo,a2c`, `environment=cartpole`,
            `budget.steps=20000`, `phase=tuning`, `experiment=NAME`); the first may be a study file.
        dry_run: Whether to return the plan and start nothing.
        retry: Whether runs whose failure is final are repeated.
        allow_drift: Whether runs continue from checkpoints that other versions wrote.
        probe: Whether to measure for some seconds what a run costs; by default for plans of a minute
            or more.
        from_sweep: The sweep whose winner, or other trial, is trained again.
        trial: With `from_sweep`: the number of another trial.
        protocol: The registered protocol to run, on the test seeds derived for it.
        wait_seconds: Seconds to wait for the result.
    """

    words: tuple[str, ...] = ()
    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False
    probe: bool | None = None
    from_sweep: str | None = None
    trial: int | None = None
    protocol: str | None = None
    wait_seconds: Seconds = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelArguments:
    """Ask the process that trains an experiment, or one run, to stop (`rlexp cancel`).

    Nothing is removed: checkpoints are written, and the same call of `run` continues.

    Attributes:
        target: An experiment, or a run as `EXPERIMENT/RUN`.
    """

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTargets:
    """What is compared, and the settings of the statistics.

    Attributes:
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`).
        phase: `test`, `selection` or `tuning`; by default `test` where there are test runs.
        margin: The smallest difference that matters.
        alpha: The level of the tests.
        interval: The method of the intervals.
        level: The level of the intervals.
    """

    targets: tuple[str, ...]
    phase: str | None = None
    margin: float | None = None
    alpha: float | None = None
    interval: str | None = None
    level: float | None = None

    @property
    def overrides(self) -> tuple[str, ...]:
        """The settings as overrides of `conf/report.yaml`."""
        from rlexp.config.override_words import override_words

        named = {key: getattr(self, key) for key in ("margin", "alpha", "interval", "level")}
        return override_words([{key: v for key, v in named.items() if v is not None}])


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareArguments(JudgedTargets):
    """Compare labels, with a verdict for each pair (`rlexp compare`). Test scores become looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArguments(JudgedTargets):
    """Write a reliability report into the workspace (`rlexp report`).

    Attributes:
        formats: Any of `html`, `latex`, `csv`, `json` and `md`.
        output: The folder of the report, inside the workspace; by default `reports/NAME`.
        figures: The folder for figures as PDF and SVG, inside the workspace; by default none are written.
    """

    formats: tuple[str, ...] = ("html",)
    output: str | None = None
    figures: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeArguments:
    """Propose settings to a stream of candidates, or show the stream (`rlexp propose`).

    The candidate is trained against the champion on tuning seeds, and is kept, discarded or undecided; errors are
    controlled over the whole stream. The user begins and closes streams and proposes changes of code. If
    the runs take longer than `wait_seconds`, the same call waits on.

    Attributes:
        study: The name of the stream.
        words: Settings of agent and algorithm that differ from the champion
            (`algorithm.learning_rate=0.001`); without words, the stream is shown.
        resume: Whether to finish the candidate that is not decided yet (`--continue`).
        retry: Whether runs whose failure is final are repeated.
        wait_seconds: Seconds to wait for the result.
    """

    study: str
    words: tuple[str, ...] = ()
    resume: bool = False
    retry: bool = False
    wait_seconds: Seconds = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchArguments:
    """Search settings and options by a part of a name or comment (`rlexp config search`).

    Attributes:
        word: What to look for (`learning_rate`, `cartpole`).
    """

    word: str


def list_experiments(given: ListArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp ls` does."""
    from rlexp.app.commands.look.list_runs import ListRequest, list_runs

    request = ListRequest(given.experiment, given.where, given.sort, given.group, given.columns)
    return list_runs(request, workspace)


def show(given: ShowArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp show` does."""
    from rlexp.app.commands.look.show import ShowPart
    from rlexp.app.commands.look.show import show as use_case

    return use_case(given.target, ShowPart.RESULT, workspace)


def status(given: StatusArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp status` does."""
    from rlexp.app.commands.look.status import status as use_case

    return use_case(given.experiment, workspace)


def run(given: RunArguments, workspace: "Workspace", observer: "Observer") -> "Result":
    """What `rlexp run` does, with the words of a client."""
    from rlexp.app.commands.train.run import RunOptions
    from rlexp.app.commands.train.run import run as use_case
    from rlexp.app.execution.client_words import ClientScope, check_client_words
    from rlexp.app.sweeps.retrain import read_sweep_trial

    again = given.from_sweep is not None or given.trial is not None
    recorded = again or given.protocol is not None
    scope = ClientScope.NEW_SEEDS if recorded else ClientScope.EXPERIMENT
    check_client_words(given.words, workspace, scope)
    options = RunOptions(
        dry_run=given.dry_run,
        retry=given.retry,
        allow_drift=given.allow_drift,
        probe=given.probe,
        origin=read_sweep_trial(given.from_sweep, given.trial) if again else None,
        protocol=given.protocol,
    )
    return use_case(given.words, options, workspace, observer)


def cancel(given: CancelArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp cancel` does."""
    from rlexp.app.commands.train.cancel import cancel as use_case

    return use_case(given.target, workspace)


def compare(given: CompareArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp compare` does."""
    from rlexp.app.commands.judge.compare import CompareRequest
    from rlexp.app.commands.judge.compare import compare as use_case

    request = CompareRequest(targets=given.targets, phase=given.phase, overrides=given.overrides)
    return use_case(request, workspace)


def report(given: ReportArguments, workspace: "Workspace", observer: "Observer") -> "Result":
    """What `rlexp report` does, inside the workspace."""
    from rlexp.app.commands.judge.report import ReportRequest
    from rlexp.app.commands.judge.report import report as use_case
    from rlexp.app.execution.client_words import inside

    for name in ("output", "figures"):
        if (folder := getattr(given, name)) is not None:
            inside(folder, workspace, name)
    request = ReportRequest(
        targets=given.targets,
        formats=given.formats,
        output=given.output,
        figures=given.figures,
        phase=given.phase,
        overrides=given.overrides,
    )
    return use_case(request, workspace, observer)


def propose(given: ProposeArguments, workspace: "Workspace", observer: "Observer") -> "Result":
    """What `rlexp propose` does with settings, or without words."""
    from rlexp.app.commands.judge.propose import ProposeRequest
    from rlexp.app.commands.judge.propose import propose as use_case
    from rlexp.app.execution.client_words import ClientScope, check_client_words
    from rlexp.app.streams.proposal import CandidateProposal

    check_client_words(given.words, workspace, ClientScope.CANDIDATE)
    options = [*(["--continue"] if given.resume else []), *(["--retry"] if given.retry else [])]
    command = ("rlexp", "propose", given.study, *given.words, *options)
    request = ProposeRequest(
        study=given.study,
        proposal=CandidateProposal(words=given.words, command=command),
        goes_on=given.resume,
        retry=given.retry,
    )
    return use_case(request, workspace, observer)


def search(given: SearchArguments, workspace: "Workspace", _: "Observer") -> "Result":
    """What `rlexp config search` does."""
    from rlexp.app.commands.setup.configuration import search_configuration

    return search_configuration(given.word, workspace)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of the server.

    Attributes:
        title: What it does, for people.
        arguments: The class of its arguments, whose docstring is its description.
        perform: Calls the use case.
        reads: Whether it changes nothing.
    """

    title: str
    arguments: type[Any]
    perform: Callable[..., "Result"]
    reads: bool = False


TOOLS: Mapping[str, OfferedTool] = {
    "list": OfferedTool("List experiments or runs", ListArguments, list_experiments, reads=True),
    "show": OfferedTool("Show scores", ShowArguments, show),
    "status": OfferedTool("Show progress", StatusArguments, status, reads=True),
    "search": OfferedTool("Search settings", SearchArguments, search, reads=True),
    "run": OfferedTool("Train the missing runs", RunArguments, run),
    "cancel": OfferedTool("Stop runs, which can continue", CancelArguments, cancel),
    "propose": OfferedTool("Propose settings to a stream", ProposeArguments, propose),
    "compare": OfferedTool("Compare labels", CompareArguments, compare),
    "report": OfferedTool("Write a report", ReportArguments, report),
}
"""The tools by name. None of them removes, renames or edits records."""
