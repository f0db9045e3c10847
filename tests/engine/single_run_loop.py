"""A loop that executes a single run, for tests of how the run ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlexp.app.execution.launch_settings import claim_run
from rlexp.engine.loop import Loop
from rlexp.engine.run_in_flight import AttemptSettings, RunInFlight
from rlexp.executors import SharedProcess
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths

RUNG = 20


@dataclass
class OneRun:
    """A source of one run, which is pruned once its evaluation at the rung is known."""

    spec: RunSpec
    is_taken: bool = False
    request: StopRequest | None = None
    records: list[RunRecord] = field(default_factory=list)
    waiting = 0

    def take(self) -> RunSpec | None:
        """The run at the first call, and None afterwards."""
        was_taken, self.is_taken = self.is_taken, True
        return None if was_taken else self.spec

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Prune the run once it has reached the rung."""
        if any(e.step >= RUNG for e in evaluations):
            self.request = StopRequest(Ending.PRUNED, "given up", RUNG)

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """The request to end the run."""
        return self.request

    def ended(self, record: RunRecord) -> None:
        """Keep the record."""
        self.records.append(record)


class Silent:
    """A watcher that shows nothing."""

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Show nothing."""

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Show nothing."""


def loop_of(paths: ExperimentPaths, executor: Any, monotonic: Callable[[], float]) -> Loop:
    """A loop that shows nothing and is never asked to stop.

    Args:
        paths: The experiment.
        executor: Both the executor and its session.
        monotonic: The clock of time limits.
    """
    return Loop(
        experiment=paths,
        executor=executor,
        session=executor,
        orders=lambda _: AttemptSettings(settings={}, provenance={}, patch="", timeout=None),
        claim=claim_run,
        watcher=Silent(),
        asked_to_stop=lambda: False,
        conductor=SharedProcess("nowhere:nothing", 1, "NOTHING"),
        monotonic=monotonic,
        now=lambda: 0.0,
        note=lambda _: None,
    )
