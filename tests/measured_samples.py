"""Evidence of runs with measures besides returns: contexts, success, cost."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    broken,
    configured,
    evidence,
    interrupted,
    learned,
    member,
    run_spec,
)

from rlexp.protocol.experiment import Configuration
from rlexp.records.events import Evaluated, Examined, Measures
from rlexp.records.run import RunRecord
from rlexp.reports.evidence.runs import Evidence, PlannedRun

Context = tuple[float, ...]
GRAVITY, LENGTH = (8.0, 9.0, 10.0, 11.0, 12.0), (0.25, 0.5, 0.75, 1.0)
GRID: tuple[Context, ...] = tuple(product(GRAVITY, LENGTH))
TRAINED: tuple[Context, ...] = ((9.0, 0.5), (10.0, 0.75), (11.0, 0.5), (10.0, 0.5))


def contexts(names: Sequence[str], played: Iterable[Context]) -> Measures:
    """The context of every episode, as measures."""
    columns = zip(*played, strict=True)
    return {f"context/{n}": tuple(column) for n, column in zip(names, columns, strict=True)}


def played_out(
    configuration: Configuration,
    seed: int,
    returns: Sequence[float],
    measures: Measures | None = None,
    *,
    known: Sequence[float] = (),
    known_measures: Measures | None = None,
) -> PlannedRun:
    """A completed run with these final episodes, and optionally with in-distribution ones."""
    low = configuration.reference.get("random") or 0.0
    mean = math.fsum(returns) / len(returns)
    record = learned(run_spec(configuration, seed), mean, low)
    assert record.final is not None
    lengths = (1,) * len(returns)
    final = replace(record.final, returns=tuple(returns), lengths=lengths, measures=measures)
    examinations = (_examined(final, known, known_measures),) if len(known) else ()
    return member(replace(record, final=final, examinations=examinations), configuration)


def _examined(final: Evaluated, returns: Sequence[float], measures: Measures | None) -> Examined:
    return Examined(
        time=final.time,
        step=final.step,
        distribution="in_distribution",
        returns=tuple(returns),
        lengths=(1,) * len(returns),
        seconds=0.1,
        measures=measures,
    )


def height(context: Context, skill: float) -> float:
    """A return that falls with the distance of a context from the training contexts."""
    gravity, length = context[:2]
    distance = abs(gravity - 10) / 2 + 3 * abs(length - 0.6)
    return round(500 * skill * math.exp(-0.35 * distance), 3)


def on_contexts(
    label: str,
    seed: int,
    played: Sequence[Context],
    *,
    skill: float = 0.9,
    names: Sequence[str] = ("gravity", "length"),
    task: str = CARTPOLE,
) -> PlannedRun:
    """A run whose returns fall with the distance of a context from the training contexts."""
    run_skill = skill + 0.02 * ((3 * seed + len(label)) % 5 - 2)
    shift = 0.0 if task == CARTPOLE else -1200.0
    returns = [height(c, run_skill) + shift for c in played]
    known = [height(c, run_skill) + shift for c in TRAINED]
    success = tuple(float(r - shift > 250) for r in returns)
    extra = {
        "success": success,
        "cost": tuple(0.5 * k for k in range(len(played))),
        "return/speed": tuple(r / 10 for r in returns),
    }
    known_contexts = contexts(("gravity", "length"), TRAINED) if len(names) > 1 else {}
    return played_out(
        configured(label, task),
        seed,
        returns,
        {**contexts(names, played), **extra},
        known=known,
        known_measures={**known_contexts, "success": tuple(float(r - shift > 250) for r in known)},
    )


def grid_tested() -> Evidence:
    """Three labels on two tasks, tested on a grid of two parameters and in distribution."""
    skills = {"ppo": 0.95, "a2c": 0.8, "dqn": 0.6}
    return evidence(
        on_contexts(label, seed, GRID * 2, skill=skill, task=task)
        for label, skill in skills.items()
        for task in (CARTPOLE, PENDULUM)
        for seed in range(5)
    )


def sampled() -> Evidence:
    """Two labels whose contexts are sampled for each run."""

    def drawn(seed: int) -> list[Context]:
        generator = np.random.default_rng(seed)
        pairs = generator.uniform((8, 0.25), (12, 1.0), (20, 2))
        return [(float(a), float(b)) for a, b in pairs]

    return evidence(
        on_contexts(label, seed, drawn(10 * k + seed), skill=0.9 - 0.2 * k)
        for k, label in enumerate(("ppo", "a2c"))
        for seed in range(5)
    )


def one_parameter() -> Evidence:
    """Two labels with one varied and one fixed parameter."""
    played = [(g, 0.5) for g in GRAVITY] * 4
    return evidence(
        on_contexts(label, seed, played) for label in ("ppo", "a2c") for seed in range(4)
    )


def three_parameters() -> Evidence:
    """A grid over three parameters; a map shows two of them."""
    played = [(g, n, w) for g, n in GRID[::3] for w in (0.0, 1.0)]
    names = ("gravity", "length", "wind")
    return evidence(on_contexts("ppo", seed, played, names=names) for seed in range(3))


def levels() -> Evidence:
    """Two labels on a list of eight numbered levels."""

    def run(label: str, seed: int) -> PlannedRun:
        returns = [100.0 * (k % 4) + 10 * seed for k in range(16)]
        played = {"context/level": tuple(float(k % 8) for k in range(16))}
        return played_out(configured(label), seed, returns, played, known=[350.0, 340.0 + seed])

    return evidence(run(label, seed) for label in ("ppo", "a2c") for seed in range(3))


def only_held_out() -> Evidence:
    """Sticky actions in the test only, which give a generalisation gap without contexts."""
    return evidence(
        played_out(configured(), seed, [300.0, 310.0 + seed], known=[400.0, 410.0 + 3 * seed])
        for seed in range(4)
    )


def one_measured_run() -> Evidence:
    """A single run, for which no interval is possible."""
    return evidence([on_contexts("ppo", 0, GRID)])


def partly_measured() -> Evidence:
    """A label whose runs failed, were interrupted, or lack contexts or an examination."""
    configuration = configured("a2c")
    examined = on_contexts("a2c", 4, GRID)
    unexamined = replace(examined, record=replace(examined.record, examinations=()))
    return evidence(
        [
            *(on_contexts("ppo", seed, GRID) for seed in range(5)),
            on_contexts("a2c", 0, GRID),
            member(broken(run_spec(configuration, 1)), configuration),
            member(interrupted(run_spec(configuration, 2)), configuration),
            played_out(configuration, 3, [100.0, 120.0], {"success": (0.0, 1.0)}),
            unexamined,
            member(RunRecord(spec=run_spec(configured("dqn"), 0)), configured("dqn")),
        ],
        failures="worst",
    )


def other_grids() -> Evidence:
    """Two labels on one task, tested on different grids."""
    return evidence(
        on_contexts(label, seed, played)
        for label, played in (("ppo", GRID[:12]), ("a2c", GRID[8:]))
        for seed in range(3)
    )


def odd_measures() -> Evidence:
    """Measures that are missing in some episodes, constant, or immense."""
    nan = math.nan
    played = {"context/gravity": (8.0, nan, 8.0, 9.0), "context/length": (1.0, 1.0, 1.0, 1.0)}
    further = {"success": (1.0, 2.0, nan, 0.0), "cost": (nan,) * 4, "huge": (1e200, 1.0, 2.0, 3.0)}
    ordinary = [
        played_out(configured(), seed, [1.0, 2.0, 3.0, 4.0], {**played, **further})
        for seed in range(2)
    ]
    immense = played_out(configured(), 2, [1e200, -1e200, 3.0, 4.0], {**played, **further})
    return evidence([*ordinary, immense])


MEASURED: Mapping[str, Callable[[], Evidence]] = {
    make.__name__: make
    for make in (
        grid_tested,
        sampled,
        one_parameter,
        three_parameters,
        levels,
        only_held_out,
        one_measured_run,
        partly_measured,
        other_grids,
        odd_measures,
    )
}
"""Every kind of evidence that sections on contexts and measures have to handle, by name."""
