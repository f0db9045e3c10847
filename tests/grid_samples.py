"""Evidence of made-up grids: one algorithm with several settings on several tasks, and defects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    broken,
    configured,
    evidence,
    member,
    run_spec,
    scored,
)

from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Evaluated
from rlexp.reports.evidence.runs import Evidence, PlannedRun

RATES, EPOCHS = (0.0001, 0.001, 0.01), (4, 10)
TASKS = (CARTPOLE, PENDULUM)
HEIGHTS: Mapping[str, Sequence[Sequence[float]]] = {
    CARTPOLE: ((100.0, 150.0), (300.0, 400.0), (480.0, 200.0)),
    PENDULUM: ((-900.0, -1100.0), (-300.0, -200.0), (-1000.0, -1200.0)),
}
"""Mean scores by task, rate and epochs; best are 0.01 and 4, on Pendulum 0.001 and 10."""
SPREAD = (-10.0, 0.0, 10.0)


def setting(
    label: str, task: str = CARTPOLE, name: str = "ppo", **hyperparameters: Any
) -> Configuration:
    """A configuration whose algorithm sets these hyperparameters."""
    base = configured(name, task)
    return replace(base, label=label, algorithm={**base.algorithm, **hyperparameters})


def labelled(rate: float, epochs: int) -> str:
    """The label of a setting as a grid on the command line writes it."""
    return f"ppo learning_rate={rate} n_epochs={epochs}"


def runs(
    configuration: Configuration, height: float, spread: Iterable[float] = SPREAD
) -> list[PlannedRun]:
    """Completed runs of a setting with scores around its height."""
    return scored(configuration, [height + offset for offset in spread])


def members(spread: Sequence[float] = SPREAD) -> list[PlannedRun]:
    """Every run of six settings on two tasks."""
    return [
        run
        for task in TASKS
        for (i, rate), (j, epochs) in product(enumerate(RATES), enumerate(EPOCHS))
        for run in runs(
            setting(labelled(rate, epochs), task, learning_rate=rate, n_epochs=epochs),
            HEIGHTS[task][i][j],
            spread,
        )
    ]


def grid() -> Evidence:
    """Six settings of one algorithm on two tasks, three seeds each."""
    return evidence(by_label(members()))


def grid_of_costs() -> Evidence:
    """The grid, scored by a cost that is the negated return."""
    return evidence(by_label(map(_scored_by_cost, members())))


def _scored_by_cost(planned: PlannedRun) -> PlannedRun:
    configuration = replace(
        planned.configuration,
        budget=replace(planned.configuration.budget, score="cost"),
        measures={"cost": {"direction": "minimise"}},
    )
    record = planned.record
    assert record.final is not None

    def negated(event: Evaluated) -> Evaluated:
        costs = tuple(-value for value in event.returns)
        return replace(event, returns=(0.0,) * len(costs), measures={"cost": costs})

    record = replace(
        record,
        spec=run_spec(configuration, record.spec.seed),
        evaluations=tuple(map(negated, record.evaluations)),
        final=negated(record.final),
    )
    return replace(planned, configuration=configuration, record=record)


def by_label(unordered: Iterable[PlannedRun]) -> list[PlannedRun]:
    """The members in order of labels, independent of tasks and seeds."""
    return sorted(unordered, key=lambda m: m.label)


def grid_beside_others() -> Evidence:
    """The grid, two settings of another algorithm, and one of a third."""
    others = [
        run
        for task, low in ((CARTPOLE, 50.0), (PENDULUM, -1300.0))
        for run in (
            *runs(setting("dqn gamma=0.9", task, "dqn", gamma=0.9), low),
            *runs(setting("dqn gamma=0.99", task, "dqn", gamma=0.99), low + 20),
            *runs(setting("a2c", task, "a2c"), low + 40),
        )
    ]
    return evidence(by_label([*members(), *others]))


def grid_of_one_seed() -> Evidence:
    """Settings with one run each."""
    return evidence(by_label(members((0.0,))))


def grid_with_failures() -> Evidence:
    """The best setting on CartPole has a run that failed for good."""
    planned = members()
    position = next(
        k
        for k, m in enumerate(planned)
        if (m.label, m.task) == (labelled(0.01, 4), CARTPOLE) and m.record.spec.seed == 1
    )
    configuration = planned[position].configuration
    planned[position] = member(broken(run_spec(configuration, 1)), configuration)
    return evidence(by_label(planned))


def grid_without_overlap() -> Evidence:
    """No setting ran on both tasks."""
    planned = [
        m
        for m in members()
        if (m.task == CARTPOLE) == (m.configuration.algorithm["learning_rate"] == RATES[0])
    ]
    return evidence(by_label(planned))


def grid_without_scores() -> Evidence:
    """No run on one of the tasks has a score."""
    planned = [m if m.task == CARTPOLE else _failed(m) for m in members()]
    return evidence(by_label(planned))


def _failed(planned: PlannedRun) -> PlannedRun:
    return member(broken(planned.record.spec), planned.configuration)


def grid_of_equal_scores() -> Evidence:
    """Every run of a task scores the same."""
    planned = [
        run
        for task in TASKS
        for rate in RATES
        for run in runs(setting(f"ppo {rate}", task, learning_rate=rate), -200.0, (0.0, 0.0))
    ]
    return evidence(by_label(planned))


def grid_of_immense_scores() -> Evidence:
    """Scores of the largest allowed size."""
    planned = [
        run
        for task in TASKS
        for k, rate in enumerate(RATES)
        for run in scored(
            setting(f"ppo {rate}", task, learning_rate=rate), [1e308, 1e308 / (k + 1)]
        )
    ]
    return evidence(by_label(planned))


def grid_on_tuning_seeds() -> Evidence:
    """The same grid, run on tuning seeds."""
    planned = [
        member(
            replace(m.record, spec=run_spec(m.configuration, m.record.spec.seed, Phase.TUNING)),
            m.configuration,
        )
        for m in members()
    ]
    return evidence(by_label(planned), phase=Phase.TUNING)


GRIDS: Mapping[str, Callable[[], Evidence]] = {
    make.__name__: make
    for make in (
        grid,
        grid_beside_others,
        grid_of_one_seed,
        grid_with_failures,
        grid_without_overlap,
        grid_without_scores,
        grid_of_equal_scores,
        grid_of_immense_scores,
        grid_on_tuning_seeds,
    )
}
"""Every kind of grid that a section about grids has to handle, by name."""
