"""Scores by label, and a row for each run with its settings and measures, for use in Python."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, Protocol

from rlexp.app.data_frames import DataRow
from rlexp.app.reading.run_settings import Settings, settings_of
from rlexp.app.reading.summary import PhaseSummary
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import Evidence

RUN_COLUMNS = (
    *("experiment", "label", "task", "phase", "seed", "run", "state", "score", "step", "steps"),
    *("seconds", "failure"),
)
"""The first columns of a data frame with a row for each run."""
ALGORITHM = "algorithm"
"""The section whose settings are columns in any case."""
TASK = "environment"
"""The setting that the column `task` holds already."""

Scores = Mapping[str, Mapping[int, float]]
"""Scores by seed, by label; with several tasks, by `LABEL on TASK`."""


class SummarisedRun(Protocol):
    """A summary of a run, such as a `RunRow`; `RUN_COLUMNS` that it lacks are empty."""

    @property
    def configuration(self) -> Configuration | None:
        """Its configuration; None if it could not be read."""

    @property
    def score(self) -> float | None:
        """Its score, if it has one."""

    @property
    def measure_means(self) -> Mapping[str, float]:
        """The mean of each measure."""


PlacedRun = tuple[str, str, SummarisedRun]
"""The name of an experiment, a phase, and a run of them."""


def scores_by_label(cells: Sequence[tuple[str, str, Mapping[int, float]]]) -> Scores:
    """Scores by label.

    Args:
        cells: A label, a task, and the scores by seed.
    """
    several = len({task for _, task, _ in cells}) > 1
    return {
        f"{label} on {task}" if several else label: dict(scores) for label, task, scores in cells
    }


def scores_of_summaries(phases: Sequence[PhaseSummary]) -> Scores:
    """The scores of the test phase; without test runs, those of the first phase."""
    summary = next((s for s in phases if s.phase == Phase.TEST and s.runs), None)
    summary = summary or next(iter(phases), None)
    return scores_by_label([(c.label, c.task, c.scores) for c in summary.cells] if summary else [])


def scores_of_evidence(evidence: Evidence) -> Scores:
    """The scores of all runs of a report."""
    return scores_by_label(
        [
            (
                label,
                task,
                {m.record.spec.seed: m.score for m in cell.members if m.score is not None},
            )
            for (label, task), cell in evidence.cells.items()
        ]
    )


def runs_of_summaries(phases: Iterable[PhaseSummary]) -> Iterator[PlacedRun]:
    """The runs of all phases."""
    return ((s.experiment, s.phase, run) for s in phases for run in s.runs)


def run_rows(runs: Iterable[PlacedRun]) -> list[DataRow]:
    """A row for each run, with or without a score.

    After `RUN_COLUMNS` come the settings of the algorithm, other settings that differ between the
    runs, and the measures. A measure with the name of another column is called `measure.NAME`.
    """
    placed = list(runs)
    settings = _SettingsOfRuns()
    every = [settings.of(run.configuration) for _, _, run in placed]
    kept = _kept_keys(every)
    taken = {*RUN_COLUMNS, *kept}
    return [
        {
            **_first_cells(experiment, phase, run),
            **{key: values[key] for key in kept if key in values},
            **_measures(run.measure_means, taken),
        }
        for (experiment, phase, run), values in zip(placed, every, strict=True)
    ]


def _first_cells(experiment: str, phase: str, run: SummarisedRun) -> dict[str, Any]:
    cells = {name: getattr(run, name, None) for name in RUN_COLUMNS}
    # With None instead, a column without any score would not hold numbers.
    score = nan if run.score is None else run.score
    return {**cells, "experiment": experiment, "phase": phase, "score": score}


def _measures(means: Mapping[str, float], taken: set[str]) -> dict[str, float]:
    return {f"measure.{name}" if name in taken else name: mean for name, mean in means.items()}


class _SettingsOfRuns:
    """The settings of configurations; runs of one configuration share a mapping."""

    def __init__(self) -> None:
        self._known: dict[int, Settings] = {}

    def of(self, configuration: Configuration | None) -> Settings:
        """The settings of a configuration; empty if it could not be read."""
        if configuration is None:
            return {}
        # The runs hold the configurations, so that no `id` is used again.
        key = id(configuration)
        if key not in self._known:
            self._known[key] = settings_of(configuration, configuration.parts())
        return self._known[key]


def _kept_keys(every: Sequence[Settings]) -> list[str]:
    """The settings that are columns: those of the algorithm, then those that differ."""
    different = list({id(settings): settings for settings in every}.values())
    keys = [
        key
        for key in dict.fromkeys(key for settings in different for key in settings)
        if key != TASK and not key.endswith("._target_")
    ]
    of_algorithm = [k for k in keys if k == ALGORITHM or k.startswith(f"{ALGORITHM}.")]
    others = [k for k in keys if k not in of_algorithm and _differs(k, different)]
    return [*of_algorithm, *others]


def _differs(key: str, different: Sequence[Settings]) -> bool:
    return len({repr(settings.get(key)) for settings in different}) > 1
