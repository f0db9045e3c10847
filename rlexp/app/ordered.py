"""The runs that are ordered of an experiment, as a worker takes them."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rlexp.engine.dispatch import is_cancelled
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import Order, ordered, read_order, withdraw
from rlexp.store.runs import read_run, read_spec


@dataclass(slots=True)
class Ordered:
    """The runs that are ordered and that nobody holds, as a source for the loop.

    Attributes:
        names: The runs that may be taken; without them, all.
        check: Raises an `RlexpError` where a run may not be executed.
        tell: Told why a run is left alone.
    """

    experiment: ExperimentPaths
    names: frozenset[str] | None
    check: Callable[[RunSpec], None]
    tell: Callable[[str], None]
    taken: dict[str, Order] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    ends: int = 0
    offered: deque[str] = field(default_factory=deque)

    @property
    def waiting(self) -> int:
        """How many runs may follow."""
        return len(self.offered)

    def look(self) -> int:
        """Look for orders; returns for how many runs they are there, those of others included."""
        open_orders = [
            name
            for name in ordered(self.experiment)
            if name not in self.refused and (self.names is None or name in self.names)
        ]
        self.offered = deque(open_orders)
        return len(open_orders)

    def take(self) -> RunSpec | None:
        """The next run that is to be attempted."""
        while self.offered:
            name = self.offered.popleft()
            try:
                if spec := self._spec(name):
                    return spec
            except RlexpError as error:
                self.refused.add(name)
                self.tell(f"{name} is left alone: {error}")
        return None

    def _spec(self, name: str) -> RunSpec | None:
        paths = self.experiment.run(name)
        order = None if is_held(paths.claim) else read_order(self.experiment, name)
        if order is None:
            return None
        spec = read_spec(paths)
        if spec.name != name:
            raise RecordError(f"its folder holds run {spec.name}")
        record = read_run(paths, spec).record
        is_answered = record.attempts > order.after and is_cancelled(paths, record)
        if is_answered or not order.stands(record):
            withdraw(self.experiment, name)
            return None
        self.check(spec)
        self.taken[name] = order
        return spec

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Whoever gave the order looks for itself."""

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """Whoever gave the order asks in the run's folder."""

    def ended(self, record: RunRecord) -> None:
        """The order is carried out."""
        self.ends += 1
        withdraw(self.experiment, record.spec.name)
