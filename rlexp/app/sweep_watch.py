"""Told of everything while a sweep goes on: shows it, and hands it to the mirror."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlexp.app.observer import Observer
from rlexp.app.sweep_mirror import mirrored
from rlexp.app.sweeps.progress import view_of
from rlexp.engine.running import Running, Watcher
from rlexp.engine.sweep_view import SweepView
from rlexp.engine.sweeping import Sweeping
from rlexp.exchange.background import BackgroundMirror
from rlexp.exchange.optuna_study import Mirror
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.sweep import directions
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths


@dataclass(slots=True)
class Watched:
    """A sweep that is watched.

    Attributes:
        sweeping: The sweep.
        mirror: Where it is mirrored to.
        workers: Runs at a time.
        spent: Environment steps of attempts that are over, by run.
    """

    sweeping: Sweeping
    mirror: BackgroundMirror | None
    workers: int
    spent: dict[str, int]
    _under_way: dict[str, int] = field(default_factory=dict)
    _state: tuple[int, int] = (-1, -1)

    @contextmanager
    def watch(self, observer: Observer) -> Iterator[Watcher]:
        """What the loop tells."""
        with observer.watch_sweep(self.view) as shown:
            yield _Both(self, shown)

    def view(self) -> SweepView:
        """Where the sweep stands."""
        over = {key: record.spent for key, record in self.sweeping.records.items()}
        spent = {**self.spent, **self._under_way, **over}
        return view_of(self.sweeping, spent, self.workers)

    def saw(self, running: Sequence[Running]) -> None:
        """Take note of what runs, and hand on what has changed."""
        self._under_way = {
            one.spec.id: self.spent.get(one.spec.id, 0) + one.step for one in running
        }
        entries = self.sweeping.search.entries
        state = (len(entries), sum(1 for e in entries if e.trial is not None))
        if self.mirror is not None and state != self._state:
            self._state = state
            self.mirror.offer(mirrored(self.sweeping))

    def close(self, observer: Observer) -> None:
        """Let the mirror catch up, for some seconds; it can do so at the next command too."""
        if self.mirror is None:
            return
        self.mirror.offer(mirrored(self.sweeping))
        if problem := self.mirror.close():
            observer.note(f"Warning: {problem}")


def mirror_of(
    paths: ExperimentPaths, experiment: Experiment, storage: str | None, observer: Observer
) -> BackgroundMirror:
    """The mirror of a sweep, asked once whether it answers before anything trains.

    Raises:
        ConfigError: The URL is none, of an unknown kind, or its driver is not installed.
    """
    sweep = experiment.sweep
    assert sweep is not None
    mirror = BackgroundMirror(
        Mirror(
            storage,
            journal=paths.mirror,
            name=paths.name,
            space=sweep.space,
            directions=directions(sweep.plan.objectives),
            owner=experiment.fingerprint,
        )
    )
    if problem := mirror.check():
        observer.note(f"Warning: {problem}")
    return mirror


@dataclass(slots=True)
class _Both:
    """Reports to the observer and the sweep."""

    watched: Watched
    shown: Watcher

    def update(self, running: Sequence[Running], waiting: int) -> None:
        """What runs now."""
        self.watched.saw(running)
        self.shown.update(running, waiting)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """A run's attempt ended."""
        self.watched.spent[record.spec.id] = record.spent
        self.shown.ended(record, again=again)
