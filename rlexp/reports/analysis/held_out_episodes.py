"""Final episodes of runs, held out and in distribution, and the contexts they were played in."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.identity import canonical
from rlexp.protocol.measures import CONTEXT, results_among
from rlexp.records.context_returns import by_context, context_names, mean_return
from rlexp.records.events import Evaluated, Examined
from rlexp.records.run import LARGEST_SCORE, State
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns, PlannedRun
from rlexp.text import join_names

Array = NDArray[np.float64]


ALIKE = 0.5
"""Share of their joint range that two samples of contexts must both cover to be comparable."""


@dataclass(frozen=True, slots=True)
class PlayedContexts:
    """Mean returns of one run per context, with contexts in rising order.

    Attributes:
        contexts: Parameter values, of shape (contexts, parameters).
        means: Mean return of the episodes in each context, of shape (contexts,).
        episodes: Number of episodes in each context, of shape (contexts,).
    """

    contexts: Array
    means: Array
    episodes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FinalEpisodes:
    """A completed run with its final evaluation, and its episodes in distribution if any."""

    member: PlannedRun
    held_out: Evaluated
    in_distribution: Examined | None


def why_not_comparable(runs: Sequence[FinalEpisodes]) -> str | None:
    """Why the tests of a label's runs on a task differ; `None` where they do not."""
    if len({canonical(run.member.record.spec.environment) for run in runs}) > 1:
        return "its runs use different environments, and therefore different tests"
    names = {context_names([run.held_out]) for run in runs} - {()}
    if len(names) > 1:
        parameters = "; ".join(map(join_names, sorted(names)))
        return f"its runs were tested over different parameters ({parameters})"
    return None


@dataclass(frozen=True, slots=True)
class ContextTests:
    """Results of a label's runs in the test contexts of a task.

    Attributes:
        parameters: Names of the context parameters, sorted.
        runs: Results of the runs that recorded their contexts.
        trained: Smallest and largest value of each parameter in distribution; `None` if not played.
        why_not_comparable: Why the runs cannot be combined; `None` where they can.
    """

    cell: LabelTaskRuns
    parameters: tuple[str, ...]
    runs: tuple[PlayedContexts, ...]
    trained: tuple[tuple[float, float] | None, ...]
    why_not_comparable: str | None

    @property
    def same(self) -> bool:
        """Whether every run was tested in the same contexts."""
        first = self.runs[0].contexts
        return all(np.array_equal(run.contexts, first) for run in self.runs)

    @property
    def contexts(self) -> Array:
        """All contexts of all runs, once each, of shape (contexts, parameters)."""
        return np.unique(np.concatenate([run.contexts for run in self.runs]), axis=0)


def context_tests(cell: LabelTaskRuns) -> ContextTests | None:
    """The tests of a label on a task; `None` where no run recorded its contexts."""
    completed = final_episodes(cell)
    parameters = context_names(run.held_out for run in completed)
    played = [_played(run, parameters) for run in completed] if parameters else []
    runs = tuple(run for run in played if len(run.means))
    reason = why_not_comparable(completed)
    if not runs and not (parameters and reason):
        return None
    trained = tuple(_range(completed, name) for name in parameters)
    return ContextTests(cell, parameters, runs, trained, reason)


def unlike(tests: Sequence[ContextTests]) -> Iterator[str]:
    """Sentences about pairs of labels whose tests on a task differ."""
    for first, second in combinations(tests, 2):
        if reason := _difference(first, second):
            labels, task = join_names([first.cell.label, second.cell.label]), first.cell.task
            yield f"{labels} were tested differently on {task}: {reason}"


def _played(run: FinalEpisodes, parameters: tuple[str, ...]) -> PlayedContexts:
    returns_by_context = by_context(run.held_out, parameters)
    means = [mean_return(returns) for returns in returns_by_context.values()]
    return PlayedContexts(
        np.array(list(returns_by_context), dtype=np.float64).reshape(-1, len(parameters)),
        np.array(means, dtype=np.float64),
        np.array([len(returns) for returns in returns_by_context.values()], dtype=np.int64),
    )


def _range(runs: Sequence[FinalEpisodes], name: str) -> tuple[float, float] | None:
    every = [measured(run.in_distribution, f"{CONTEXT}{name}") for run in runs]
    values = np.concatenate(every)
    return (float(values.min()), float(values.max())) if len(values) else None


def _difference(first: ContextTests, second: ContextTests) -> str | None:
    if first.parameters != second.parameters:
        return f"over {join_names(first.parameters)} and over {join_names(second.parameters)}"
    if np.array_equal(first.contexts, second.contexts):
        return None
    if first.same and second.same and min(len(first.runs), len(second.runs)) > 1:
        return "each in separate contexts"
    # Random samples never agree exactly, so overlapping ranges count as the same test.
    for k, name in enumerate(first.parameters):
        a, b = first.contexts[:, k], second.contexts[:, k]
        common = min(a.max(), b.max()) - max(a.min(), b.min())
        if common < ALIKE * (max(a.max(), b.max()) - min(a.min(), b.min())):
            ranges = join_names(f"{values.min():.4g} to {values.max():.4g}" for values in (a, b))
            return f"over {name} from {ranges}".replace("-", "−")
    return None


IN_DISTRIBUTION = "in_distribution"


Final = Evaluated | Examined
"""Episodes of the final policy."""


def final_episodes(cell: LabelTaskRuns) -> list[FinalEpisodes]:
    """The completed runs of a cell with returns in range, in order of their seed."""
    usable = []
    for member in cell.members:
        record = member.record
        if record.state is State.COMPLETED and record.final and _is_plain(record.final):
            usable.append(FinalEpisodes(member, record.final, _examined(member)))
    return usable


def measure_names(events: Iterable[Final]) -> set[str]:
    """Names of the measures of episodes other than contexts."""
    return set(results_among(name for event in events for name in event.measures or {}))


def measured(event: Final | None, name: str) -> NDArray[np.float64]:
    """A measure of every episode that has it, of shape (episodes,)."""
    values = np.asarray(((event and event.measures) or {}).get(name, ()), dtype=np.float64)
    # The comparison is false for NaN, so it removes NaN as well.
    finite: NDArray[np.float64] = values[np.abs(values) <= LARGEST_SCORE]
    return finite


def has_contexts(evidence: Evidence) -> bool:
    """Whether a run recorded the contexts of its final episodes."""
    return any(
        name.startswith(CONTEXT)
        for member in evidence.members
        if member.record.final
        for name in member.record.final.measures or {}
    )


def is_examined(evidence: Evidence) -> bool:
    """Whether the final policy of a run was also evaluated in distribution."""
    return any(_examined(member) for member in evidence.members)


def has_measures(evidence: Evidence) -> bool:
    """Whether a run measures anything but contexts."""
    return any(measure_names(_events(member)) for member in evidence.members)


def everything(runs: Iterable[FinalEpisodes]) -> list[Final]:
    """The final evaluations of runs, held out and in distribution."""
    return [event for run in runs for event in _events(run.member)]


def _events(member: PlannedRun) -> list[Final]:
    events: list[Final | None] = [member.record.final, _examined(member)]
    return [event for event in events if event is not None]


def _examined(member: PlannedRun) -> Examined | None:
    examined = [e for e in member.record.examinations if e.distribution == IN_DISTRIBUTION]
    # The last examination is that of the final policy.
    return examined[-1] if examined and _is_plain(examined[-1]) else None


def _is_plain(event: Final) -> bool:
    return all(abs(value) <= LARGEST_SCORE for value in event.returns)
