"""Trains the runs of a stream, each in a checkout of the code that its configuration names."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import Any

from rlexp.app.execution.environment_variables import temporary_environment
from rlexp.app.execution.launch import execute_missing_runs
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.observer import Observer
from rlexp.app.reproduction.checkout import Checkout, check_out_code, import_variables
from rlexp.app.reproduction.original import RecordedCode
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.engine.source import make_plan
from rlexp.executors import Executor, Remote
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_run
from rlexp.temporary_folders import scratch


@dataclass(frozen=True, slots=True)
class Checkouts:
    """Checkouts of the code of candidates, made when they are first needed.

    Attributes:
        workspace: The user's workspace, which is the checkout without git.
        folder: The folder for worktrees, which is removed afterwards.
        stack: Removes the worktrees.
        made: The checkouts so far, by commit.
    """

    workspace: Workspace
    folder: Path
    stack: ExitStack
    made: dict[str | None, Checkout] = field(default_factory=dict)

    def of(self, commit: str | None) -> Checkout:
        """The checkout of a commit.

        Raises:
            RecordError: The repository lacks the commit.
        """
        if commit not in self.made:
            worktree = self.folder / f"code-{len(self.made)}"
            code = RecordedCode(commit=commit)
            made = check_out_code(code, self.workspace.folder, worktree)
            self.made[commit] = self.stack.enter_context(made)
        return self.made[commit]


@contextmanager
def open_checkouts(workspace: Workspace) -> Iterator[Checkouts]:
    """Checkouts that exist inside a `with` block; a kill leaves them to the next command."""
    with scratch("rlexp-stream-") as (folder, _), ExitStack() as stack:
        yield Checkouts(workspace, folder, stack)


def executor_of(words: Sequence[str], workspace: Workspace) -> Executor | Remote:
    """The executor that words about it select."""
    (composed,) = compose(list(words), workspace.folder)
    executor: Executor | Remote = build(composed.plain["executor"], "executor", workspace.allowed)
    return executor


@dataclass(frozen=True, slots=True)
class StreamTraining:
    """How the runs of a stream are trained.

    Attributes:
        paths: The stream; this process holds its lock.
        checkouts: The code of the candidates.
        workspace: The user's workspace.
        observer: Receives the plan and the progress.
        executor: Executes the runs.
        operational: Settings of every attempt that change no number.
        command: The command as the user typed it.
        retry: Whether runs with a final failure are executed again.
    """

    paths: ExperimentPaths
    checkouts: Checkouts
    workspace: Workspace
    observer: Observer
    executor: Executor | Remote
    operational: Mapping[str, Any]
    command: tuple[str, ...]
    retry: bool = False

    def records(self, specs: Sequence[RunSpec]) -> dict[str, RunRecord]:
        """The records of the runs that have begun, by id."""
        begun = ((s, self.paths.run(s.name)) for s in specs)
        return {s.id: read_run(p, s).record for s, p in begun if p.spec.exists()}

    def parallel(self, threads: int) -> int:
        """The number of runs at a time."""
        return max(self.executor.workers_for(threads), 1)

    def train(
        self, groups: Mapping[str | None, Sequence[RunSpec]], phase: Phase
    ) -> Signals | None:
        """Train what is missing of runs, by the commit of their code.

        Returns:
            The signal that ended the training, or None.
        """
        for commit, specs in groups.items():
            plan = make_plan(specs, self.records(specs), retry=self.retry)
            if plan.missing:
                interrupted = self._execute(commit, specs, phase)
                if interrupted is not None:
                    return interrupted
        return None

    def _execute(
        self, commit: str | None, specs: Sequence[RunSpec], phase: Phase
    ) -> Signals | None:
        checkout = self.checkouts.of(commit)
        plan = make_plan(specs, self.records(specs), retry=self.retry)
        launch = LaunchSettings(
            executor=self.executor,
            threads=max(spec.compute["threads"] for spec in specs),
            operational=self.operational,
            command=self.command,
            changeable=False,
        )
        with chdir(checkout.folder), temporary_environment(import_variables(checkout)):
            return execute_missing_runs(
                *(self.paths, phase, plan, launch),
                replace(self.workspace, folder=checkout.folder),
                self.observer,
            )
