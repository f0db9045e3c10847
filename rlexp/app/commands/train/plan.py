"""`rlexp plan`: proposes how a sweep spends some hours, and what to expect of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite
from typing import ClassVar

from rlexp.app.commands.train.sweep import SweepOptions, sweep
from rlexp.app.execution.request import other_name
from rlexp.app.observer import Observer
from rlexp.app.plans import POPULATIONS, SweepOutline
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.design_table import DesignResult, DesignTable, SweepDesign, read_design_table
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.stats.pairs.power import ComparisonPlan, detectable_effect
from rlexp.text import format_count, format_duration

TEST_SEEDS = (30, 20, 15, 10, 5)
"""Numbers of test seeds that are proposed, the largest first."""
TEST_SHARE = 1 / 3
"""Share of the runs that the tests of winner and default take at most."""
MOST_TEST_SEEDS = 50
"""Test seeds at most, where the table has no larger design of the search."""
SAMPLES = 500
"""Simulated comparisons for the detectable difference, which is right to about 3 %."""
DECIDED = (
    *("sweep.trials", "sweep.full_runs", "sweep.steps", "sweep.hours", "sweep.allocation"),
    *("sweep.promoted", "sweep.finalists", "seeds.tuning", "seeds.selection", "seeds.test"),
)
"""Keys that a proposal decides; words with them are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsk:
    """The sweep that is planned.

    Attributes:
        hours: Wall-clock time that it may take.
        name: The name of a definition, or a study file; None for a sweep of overrides only.
        overrides: Overrides in Hydra's grammar.
        probe: Whether to measure what a run costs; None does so where the first guess is long.
    """

    hours: float
    name: str | None
    overrides: tuple[str, ...]
    probe: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedSweep:
    """A design, and what it reached on the landscapes.

    Scores are on the scale of a task, where 0 and 1 are the 5th and 95th percentile of its
    configurations.

    Attributes:
        hours: Wall-clock time that it may take.
        trials: Number of configurations.
        tuning_seeds: Number of tuning seeds of a promoted trial.
        promoted: Share of the trials that is promoted to all tuning seeds.
        finalists: Number of trials on selection seeds.
        selection_seeds: Number of selection seeds.
        test_seeds: Number of test seeds of winner and default.
        runs: Number of runs of tuning, selection and test.
        true: Expected score of the winner on seeds that nothing was chosen on.
        true_spread: Standard deviation of that score between landscapes.
        optimism: Expected tuning score of the winner minus that score.
        optimism_spread: Standard deviation of the optimism between landscapes.
        detectable: Difference between winner and default that the test seeds detect with 80 % power,
            in standard deviations of the runs of a configuration; null if they detect none.
        detectable_score: The same difference on the scale, by the mean standard deviation of good
            configurations on the landscapes.
    """

    hours: float
    trials: int
    tuning_seeds: int
    promoted: float
    finalists: int
    selection_seeds: int
    test_seeds: int
    runs: int
    true: float
    true_spread: float
    optimism: float
    optimism_spread: float
    detectable: float | None
    detectable_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAdvice(Displayed):
    """How a sweep can spend some hours on this machine, and what to expect of it.

    Attributes:
        experiment: The name of the experiment.
        hours: Wall-clock time that the sweep may take.
        runs: Number of runs that fit into this time.
        seconds_per_run: Expected time in seconds between the ends of two runs.
        workers: Number of runs at a time.
        basis: Where the time comes from: `runs` (earlier runs), `probe` (some seconds of training) or
            `guess`.
        proposal: The proposed design.
        more: The design for one hour more.
        seconds: Expected duration of the proposed sweep, in seconds.
        seconds_low: The least duration to expect, in seconds; null for a first guess.
        seconds_high: The longest duration to expect, in seconds; null for a first guess.
        default: Expected score of a random configuration, on the scale.
        landscapes: Number of landscapes that the expectations come from.
        repeats: Number of searches of each design on each of them.
        largest: Whether the search is the largest one that the landscapes can tell about.
        largest_trials: Number of trials of that search. Nothing is expected of larger ones.
        offline_steps: Gradient steps on a dataset before the first step of a run, which are in the time; 0
            without a dataset.
        next: The command that starts the proposed sweep.
    """

    schema: ClassVar[Schema] = Schema("sweep-advice")

    experiment: str
    hours: float
    runs: int
    seconds_per_run: float
    workers: int
    basis: str
    proposal: ProposedSweep
    more: ProposedSweep
    seconds: float
    seconds_low: float | None
    seconds_high: float | None
    default: float
    landscapes: int
    repeats: int
    largest: bool
    largest_trials: int
    offline_steps: int
    next: tuple[NextCommand, ...]


def plan(ask: PlanAsk, workspace: Workspace, observer: Observer) -> SweepAdvice:
    """Propose a design of a sweep for a number of hours.

    Raises:
        RlexpError: The definition or the overrides are wrong, the sweep exists, or too few runs fit
            into the hours; nothing was started or written.
    """
    if not isfinite(ask.hours) or ask.hours <= 0:
        raise ConfigError(f"--hours {ask.hours:g} must be a number above 0", key="--hours")
    pilot = _outline(ask.name, ask.overrides, ask.probe, workspace, observer)
    paths = workspace.layout.experiment(pilot.experiment)
    if paths.definition.exists():
        raise RecordError(
            f"experiment {paths.name} exists, so its plan is made: give the new sweep another name "
            f"with experiment={other_name(paths)}"
        )
    if pilot.tuner in POPULATIONS:
        raise ConfigError(
            f"--hours does not fit tuner={pilot.tuner}, whose cost follows from tuner.population and "
            "tuner.generations: a dry run of the sweep (--dry-run) shows how long it takes",
            key="--hours",
        )
    if len(pilot.objective) > 1:
        raise ConfigError(
            f"--hours plans a search for the best {pilot.objective[0]}, and sweep.objective names "
            f"{len(pilot.objective)}: write one objective; for several, a dry run of the sweep (--dry-run) shows "
            "how long it takes",
            key="--hours",
        )
    each = _seconds(pilot) / max(pilot.runs, 1)
    table = read_design_table()
    runs = floor(ask.hours * 3600 / each)
    proposal = _proposed(table, ask.hours, runs)
    if proposal is None:
        raise ConfigError(_too_short(table, ask.hours, runs, each), key="--hours")
    more = _proposed(table, ask.hours + 1, floor((ask.hours + 1) * 3600 / each)) or proposal
    words = _words(ask.overrides, proposal)
    # The dry run of the proposal shows that the command is valid, and how long it will take.
    outline = _outline(ask.name, words, False, workspace, observer)
    command = ["rlexp", "sweep", *([ask.name] if ask.name else []), *words]
    return SweepAdvice(
        experiment=pilot.experiment,
        hours=ask.hours,
        runs=runs,
        seconds_per_run=each,
        workers=pilot.workers,
        basis=pilot.basis,
        proposal=proposal,
        more=more,
        seconds=_seconds(outline),
        seconds_low=outline.seconds_low,
        seconds_high=outline.seconds_high,
        default=table.default,
        landscapes=table.landscapes,
        repeats=table.repeats,
        largest=_largest(table, runs),
        largest_trials=max(result.design.trials for result in table.results),
        offline_steps=pilot.offline_steps,
        next=(NextCommand(why="start it", command=shlex.join([*command, *workspace.permission])),),
    )


def _outline(
    name: str | None,
    words: Sequence[str],
    probe: bool | None,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutline:
    """The plan of the sweep with these words."""
    options = SweepOptions(dry_run=True, probe=probe)
    outline = sweep(name, tuple(words), options, workspace, observer)
    assert isinstance(outline, SweepOutline)
    return outline


def _seconds(outline: SweepOutline) -> float:
    """The expected duration; a sweep takes some time, however little is expected."""
    return max(outline.seconds or 0.0, 1e-3)


def _proposed(table: DesignTable, hours: float, runs: int) -> ProposedSweep | None:
    """The design for a number of runs; None where no design is so small."""
    fits = [seeds for seeds in TEST_SEEDS if 2 * seeds <= TEST_SHARE * runs]
    seeds = fits[0] if fits else TEST_SEEDS[-1]
    result = table.best_within(runs - 2 * seeds)
    if result is None:
        return None
    if _largest(table, runs):
        seeds = max(seeds, min((runs - result.design.runs) // 2, MOST_TEST_SEEDS))
    return _proposal(table, result, seeds, hours)


def _largest(table: DesignTable, runs: int) -> bool:
    """Whether the landscapes tell of no larger search than the one for this number of runs."""
    largest = max(result.design.runs for result in table.results)
    return runs - 2 * TEST_SEEDS[0] >= largest


def _proposal(table: DesignTable, result: DesignResult, seeds: int, hours: float) -> ProposedSweep:
    design = result.design
    detectable = detectable_effect(ComparisonPlan(samples=SAMPLES), seeds)
    return ProposedSweep(
        hours=hours,
        trials=design.trials,
        tuning_seeds=design.tuning,
        promoted=design.promoted,
        finalists=min(design.finalists, design.promotions),
        selection_seeds=design.selection,
        test_seeds=seeds,
        runs=design.runs + 2 * seeds,
        true=result.true,
        true_spread=result.true_spread,
        optimism=result.optimism,
        optimism_spread=result.optimism_spread,
        detectable=detectable,
        detectable_score=None if detectable is None else detectable * table.deviation,
    )


def _words(overrides: Sequence[str], proposal: ProposedSweep) -> tuple[str, ...]:
    """The words of the sweep with those of the proposal."""
    kept = (w for w in overrides if w.lstrip("+").partition("=")[0] not in DECIDED)
    return (
        *kept,
        f"sweep.trials={proposal.trials}",
        "sweep.allocation=two_stage",
        f"sweep.promoted={proposal.promoted:g}",
        f"sweep.finalists={proposal.finalists}",
        f"seeds.tuning={proposal.tuning_seeds}",
        f"seeds.selection={proposal.selection_seeds}",
        f"seeds.test={proposal.test_seeds}",
    )


def _too_short(table: DesignTable, hours: float, runs: int, each: float) -> str:
    """Why no design fits, and how many hours would do."""
    design: SweepDesign = min((r.design for r in table.results), key=lambda d: d.runs)
    needed = design.runs + 2 * TEST_SEEDS[-1]
    enough = needed * each / 3600
    return (
        f"{format_count(runs, 'run')} of {format_duration(each)} fit into {hours:g} h, and the smallest "
        f"plan has {needed}: give --hours {enough * 1.05:.2g}, or a smaller budget.steps"
    )
