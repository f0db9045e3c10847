"""Opens the executor of this machine while the plan is made: its server imports on another core."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from rlexp.app.execution import launch_settings
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.workspace import Workspace
from rlexp.executors import Executor, Remote, Session


@dataclass(frozen=True, slots=True)
class EarlySession:
    """A session that is open already; leaving it closes it, and a second time changes nothing."""

    session: Session
    stack: ExitStack

    def __enter__(self) -> Session:
        return self.session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()


def session_of(
    launch: LaunchSettings, executor: Executor, workspace: Workspace
) -> AbstractContextManager[Session]:
    """The session that is open already, or a new one."""
    return launch.opened or executor.open(
        launch_settings.ENTRY,
        launch_settings.PRELOAD,
        threads=launch.threads,
        folder=workspace.folder,
    )


@contextmanager
def opened_early(
    launch: LaunchSettings, workspace: Workspace, *, missing: bool = True
) -> Iterator[LaunchSettings]:
    """Open the executor for the runs of a plan; remote executors are opened later.

    Args:
        launch: How the runs are executed.
        workspace: The workspace, which holds the code of the runs.
        missing: Whether there is a run to execute; nothing is opened without one.

    Yields:
        The settings, with the session. The session is closed at the end of the block, so that a
        refused plan leaves no process.
    """
    if isinstance(launch.executor, Remote) or not missing:
        yield launch
        return
    with ExitStack() as stack:
        session = stack.enter_context(session_of(launch, launch.executor, workspace))
        yield replace(launch, opened=EarlySession(session, stack))
