"""The commands that help next with one experiment.

The terminal and the page offer these commands, so that both say the same about the same records.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.app.execution.registered_request import PROTOCOL
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.imported import is_ask_and_tell
from rlexp.app.reading.provenance import LastCommand, command_in, last_time, read_last_command
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.study_file import is_study_file
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.records.run import RunRecord, State
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import is_held
from rlexp.store.registers.ablations import ablation_command
from rlexp.store.registers.gates import gate_command
from rlexp.store.registers.streams import is_stream, read_stream, stream_command
from rlexp.store.secrets import MASK

if TYPE_CHECKING:
    from rlexp.engine.sweep_view import SweepStatus

DEFAULT_TEST_SEEDS = 10
"""Number of test seeds suggested for an experiment without test seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentState:
    """What decides which commands help next with an experiment.

    Attributes:
        name: The name of the experiment.
        again: The words of the command that continues it; empty where none can.
        adding: The words of the command that adds seeds; empty where none is known.
        testing: The words of the command that trains test runs, where the runs are of another phase;
            empty where none is known.
        permission: The `--allow-import` options of a command that imports the code of a winner.
        driven: Whether a command or a worker runs it now.
        unfinished: Whether runs or decisions are missing that `again` makes.
        stopped: Whether it is a sweep that cannot choose a winner as things are.
        retry: Whether runs failed that only `--retry` repeats.
        failed_run: The first of these runs (`EXPERIMENT/RUN`); None where another output has its log.
        labels: Number of labels that can be compared.
        searched: Whether it is a sweep.
        selected: Whether it is a sweep with a winner.
        sequential: The command that adds seeds until every pair is decided; None where none can.
        stream: The commands by which a stream of candidates goes on; empty for any other experiment.
    """

    name: str
    again: tuple[str, ...]
    adding: tuple[str, ...] = ()
    testing: tuple[str, ...] = ()
    permission: tuple[str, ...] = ()
    driven: bool = False
    unfinished: bool = False
    stopped: bool = False
    retry: bool = False
    failed_run: str | None = None
    labels: int = 1
    searched: bool = False
    selected: bool = False
    sequential: NextCommand | None = None
    stream: tuple[NextCommand, ...] = ()

    @property
    def word(self) -> str:
        """The state in a word: `running`, `unfinished`, `failed` or `finished`."""
        if self.driven:
            return "running"
        if self.unfinished:
            return "unfinished"
        return "finished" if self.complete else "failed"

    @property
    def complete(self) -> bool:
        """Whether every run has a score."""
        return not (self.driven or self.unfinished or self.stopped or self.retry)


def experiment_commands(state: ExperimentState) -> Iterator[NextCommand]:
    """The commands that show more about an experiment, then those that change something."""
    yield from reading_commands(state)
    yield from changing_commands(state)


def reading_commands(state: ExperimentState) -> Iterator[NextCommand]:
    """The commands that show more about an experiment; every command is accepted in its state."""
    if state.complete:
        yield _next("see every detail", ["rlexp", "show", state.name, "--full"])
    # The details of a finished sweep name its runs, and its other commands fill the screen.
    if not (state.complete and state.searched):
        yield _next("see every run", ["rlexp", "ls", state.name])
    if state.complete and state.labels > 1 and not state.searched:
        yield _next("compare", ["rlexp", "compare", state.name])
    if state.complete or state.stopped:
        yield _next("write the report", ["rlexp", "report", state.name])


def changing_commands(state: ExperimentState) -> Iterator[NextCommand]:
    """The commands that continue an experiment, add to it or use it."""
    if state.driven:
        yield _next("follow it", ["rlexp", "status", state.name, "--watch"])
    elif state.stream:
        yield from state.stream
    elif state.unfinished:
        # No command continues what a notebook or a program outside of the workspace trains.
        if state.again:
            yield _next("continue", state.again)
    elif state.retry:
        if state.failed_run is not None:
            yield _next("see why it failed", ["rlexp", "logs", state.failed_run])
        yield _next("repeat the failed runs", [*state.again, "--retry"])
    elif state.complete:
        yield from _commands_for_complete(state)


def _commands_for_complete(state: ExperimentState) -> Iterator[NextCommand]:
    if state.selected:
        best = ["rlexp", "best", state.name, "--format", "args"]
        yield _next("copy the hyperparameters", [*best, *state.permission])
        train = ["rlexp", "run", "--from-sweep", state.name]
        yield _next("train the winner again", [*train, *state.permission])
    if state.testing:
        yield _next("train test runs", state.testing)
    # Seeds that are added after a look at the verdicts raise the rate of false verdicts; the
    # sequential comparison keeps it.
    if state.sequential is not None:
        yield state.sequential
    elif state.adding:
        yield _next("add test seeds" if state.searched else "add seeds", state.adding)


def _next(why: str, words: Sequence[str]) -> NextCommand:
    return NextCommand(why=why, command=shlex.join(words))


def scanned_state(
    scan: ExperimentScan,
    sweep: "SweepStatus | None",
    workspace: Workspace,
    sequential: NextCommand | None = None,
) -> ExperimentState | None:
    """The state of an experiment as its folder shows it.

    Args:
        scan: The experiment.
        sweep: The progress of its sweep; None where it is not a sweep, or cannot be computed.
        workspace: The workspace of the experiment.
        sequential: The command that adds seeds until every pair is decided.

    Returns:
        None where its definition, or the progress of its sweep, cannot be read.
    """
    experiment = scan.experiment
    if experiment is None or (experiment.sweep is not None and sweep is None):
        return None
    records = [f.stored.record for f in scan.runs if f.planned and f.stored and not f.damaged]
    phase = scan.phases[-1] if scan.phases and sweep is None else Phase.TEST
    last = read_last_command(scan)
    if sweep is None:
        return _state_of(scan.paths, experiment, records, phase, last, workspace, sequential)
    from rlexp.app.sweeps.sweep_status import IMPORTED
    from rlexp.engine.sweep_source import SweepStage

    tests = [record for record in records if record.spec.phase is Phase.TEST]
    if sweep.stage in {SweepStage.DONE, IMPORTED}:
        return _state_of(scan.paths, experiment, tests, phase, last, workspace, sequential)
    stored = [f.stored.record for f in scan.runs if f.stored and not f.damaged]
    stopped = sweep.stopped is not None
    return ExperimentState(
        name=scan.paths.name,
        again=_program(last, workspace)
        if is_ask_and_tell(experiment)
        else _continuing(scan.paths, last, permission_of(experiment, workspace), workspace),
        driven=_is_driven(scan.paths, stored),
        unfinished=not stopped,
        stopped=stopped,
        # Combinations that cannot be built fail without a run; --retry would not help them.
        retry=stopped
        and not is_ask_and_tell(experiment)
        and any(record.state is State.FAILED for record in stored),
        searched=True,
        selected=sweep.winner is not None,
        stream=_of_stream(scan.paths, workspace),
    )


def _of_stream(paths: ExperimentPaths, workspace: Workspace) -> tuple[NextCommand, ...]:
    """The commands by which a stream goes on; none for any other experiment."""
    from rlexp.app.streams.next_commands import stream_commands
    from rlexp.app.streams.permission import permission_of_stream

    if not is_stream(paths):
        return ()
    register = read_stream(paths)
    permission = permission_of_stream(paths, register, workspace)
    return tuple(stream_commands(paths, register, permission))


def state_of_evidence(
    evidence: Evidence, workspace: Workspace, sequential: NextCommand | None = None
) -> ExperimentState | None:
    """The state of the only experiment of some evidence; None where it cannot be read."""
    (experiment,) = evidence.experiments
    paths = workspace.experiment(experiment.name)
    records = [member.record for member in evidence.members]
    if experiment.sweep is not None and not records:
        from rlexp.app.sweeps.sweep_status import sweep_status

        # Test runs alone do not show how far a search is.
        scan = survey(paths, catalogued=True)
        return scanned_state(scan, sweep_status(scan, experiment, workspace)[0], workspace)
    newest = max(evidence.members, key=lambda m: last_time(m.record), default=None)
    last = LastCommand() if newest is None else command_in(newest.provenance, {})
    return _state_of(paths, experiment, records, evidence.phase, last, workspace, sequential)


def _state_of(
    paths: ExperimentPaths,
    experiment: Experiment,
    records: Sequence[RunRecord],
    phase: Phase,
    last: LastCommand,
    workspace: Workspace,
    sequential: NextCommand | None,
) -> ExperimentState:
    """The state of an experiment without a search that goes on."""
    imported = experiment.imported is not None or is_ask_and_tell(experiment)
    missing = not imported and any(record.may_run() for record in records)
    failed = () if imported else failed_for_good(records)
    searched = experiment.sweep is not None
    # The permission needs Gymnasium, which takes long to import.
    needed = missing or failed or searched or experiment.origin is not None
    needed = needed or any(configuration.callback for configuration in experiment.configurations)
    permission = permission_of(experiment, workspace) if needed else tuple(workspace.permission)
    return ExperimentState(
        name=paths.name,
        again=_continuing(paths, last, permission, workspace),
        adding=_adding(paths, experiment.seeds, phase, last, permission, workspace),
        testing=() if searched else _testing(paths, phase, last, permission, workspace),
        permission=permission,
        driven=_is_driven(paths, records),
        unfinished=missing,
        retry=bool(failed),
        failed_run=f"{paths.name}/{failed[0].spec.name}" if failed else None,
        labels=len({configuration.label for configuration in experiment.configurations}),
        searched=searched,
        # The champion of a stream may be a change of code, which no setting holds.
        selected=searched and not imported and paths.selection.exists() and not is_stream(paths),
        sequential=sequential,
    )


def _is_driven(paths: ExperimentPaths, records: Iterable[RunRecord]) -> bool:
    """Whether a command drives the experiment, or workers elsewhere execute its runs."""
    return is_held(paths.lock) or any(record.state is State.RUNNING for record in records)


def failed_for_good(records: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """The failed runs that only `--retry` repeats."""
    return [r for r in records if r.state is State.FAILED and not r.may_run()]


def permission_of(experiment: Experiment, workspace: Workspace) -> tuple[str, ...]:
    """The options that allow the code that the configurations of an experiment name."""
    from rlexp.app.execution.checks.import_permission import permission_for

    configurations: Iterable[Configuration] = (experiment.default, *experiment.configurations)
    return tuple(permission_for(configurations, workspace.allowed))


def _continuing(
    paths: ExperimentPaths, last: LastCommand, permission: Sequence[str], workspace: Workspace
) -> tuple[str, ...]:
    """The command that continues an experiment."""
    from rlexp.engine.sweep_source import SweepStage

    # `rlexp resume` stops where the last command was asked to stop.
    if last.settings.get("until") in {SweepStage.SEARCH, SweepStage.SELECTION}:
        words = recorded_words(paths, last, workspace)
        if words:
            return words
    return (
        gate_command(paths)
        or stream_command(paths)
        or ablation_command(paths)
        or ("rlexp", "resume", paths.name, *permission)
    )


def _program(last: LastCommand, workspace: Workspace) -> tuple[str, ...]:
    """The command of the program that trains a study; empty where none can be pasted here."""
    command = last.command
    is_here = last.folder == str(workspace.folder) and len(command) > 1
    return command if is_here and Path(workspace.folder, command[1]).is_file() else ()


def _adding(
    paths: ExperimentPaths,
    seeds: SeedPlan,
    phase: Phase,
    last: LastCommand,
    permission: Sequence[str],
    workspace: Workspace,
) -> tuple[str, ...]:
    """The recorded command of an experiment with more seeds; empty where it cannot be repeated."""
    words = recorded_words(paths, last, workspace)
    # The design of a sequential comparison decides how many seeds there are, and so does a protocol.
    if not words or paths.adaptive.exists() or PROTOCOL in words:
        return ()
    # Words do not hold the permission that they were given with.
    return with_more_seeds((*words, *permission), seeds, phase)


def _testing(
    paths: ExperimentPaths,
    phase: Phase,
    last: LastCommand,
    permission: Sequence[str],
    workspace: Workspace,
) -> tuple[str, ...]:
    """The recorded command of runs of another phase with test seeds; empty where none is known."""
    words = recorded_words(paths, last, workspace)
    if phase is Phase.TEST or not words:
        return ()
    dropped = ("phase=", f"seeds.{phase}=")
    return (*(word for word in words if not word.startswith(dropped)), *permission, "phase=test")


def recorded_words(
    paths: ExperimentPaths, last: LastCommand, workspace: Workspace
) -> tuple[str, ...]:
    """The last command of an experiment, if it can be pasted here and defines it; else empty."""
    command = last.command
    defines = len(command) > 2 and command[:2] in {("rlexp", "run"), ("rlexp", "sweep")}
    if not defines or last.folder != str(workspace.folder) or any(MASK in w for w in command):
        return ()
    if any(is_study_file(w) and not Path(workspace.folder, w).exists() for w in command[2:]):
        return ()
    if len(names_of(paths)) == 1:
        return command
    # The command was recorded before `rlexp mv` renamed the experiment.
    return (*(w for w in command if not w.startswith("experiment=")), f"experiment={paths.name}")


def with_more_seeds(command: Sequence[str], seeds: SeedPlan, phase: Phase) -> tuple[str, ...]:
    """A command with twice as many seeds of a phase, which keep the present ones."""
    key = f"seeds.{phase}="
    kept = (word for word in command if not word.startswith(key))
    return (*kept, f"{key}{_more_seeds(seeds, phase)}")


def _more_seeds(seeds: SeedPlan, phase: Phase) -> str:
    """The setting with twice as many seeds of a phase, which keeps the present ones.

    A list gets the smallest seeds that no phase lists, because two lists may not share a seed.
    """
    present = getattr(seeds, phase)
    if isinstance(present, int):
        return str(2 * present or DEFAULT_TEST_SEEDS)
    lists = (getattr(seeds, p) for p in Phase)
    listed = {seed for chosen in lists if isinstance(chosen, tuple) for seed in chosen}
    added = islice((s for s in count() if s not in listed), len(present) or DEFAULT_TEST_SEEDS)
    return f"[{','.join(map(str, (*present, *added)))}]"
