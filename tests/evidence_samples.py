"""Evidence of made-up runs: a typical experiment, and every kind of defect."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from samples import configuration, ended, evaluated, started

from rlexp.metrics import Metric
from rlexp.metrics.iqm import InterquartileMean
from rlexp.metrics.mean import Mean
from rlexp.metrics.median import Median
from rlexp.metrics.optimality_gap import OptimalityGap
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.identity import Plain
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Event, Failure
from rlexp.records.run import RunRecord
from rlexp.reports.analysis.report_context import ReportContext, ReportSettings
from rlexp.reports.evidence.runs import Evidence, PlannedRun

LABELS = ("ppo", "a2c", "dqn")
CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
TASKS = (CARTPOLE, PENDULUM)
EVALUATIONS = 11
STEPS = 11_000
REFERENCES: Mapping[str, Plain] = {
    CARTPOLE: {
        "random": 22.5,
        "threshold": 475.0,
        "minimum": 1.0,
        "maximum": 500.0,
        "source": "measured",
    },
    PENDULUM: {
        "random": -1235.0,
        "threshold": -150.0,
        "minimum": None,
        "maximum": 0.0,
        "source": "measured",
    },
}
"""Pendulum declares no minimum, so the score of a missing run there has no lower bound."""
PROVENANCE: Mapping[str, Any] = {
    "command": ["rlexp", "run", "algorithm=ppo,a2c,dqn"],
    "folder": "study",
    "code": {
        "commit": "a" * 40,
        "branch": "main",
        "remote": None,
        "dirty": [],
        "untracked": [],
        "saved": True,
    },
    "python": "3.11.7",
    "executable": "python",
    "packages": {
        "gymnasium": "1.4.0",
        "numpy": "2.1.0",
        "rlexp": "0.1.0",
        "stable-baselines3": "2.9.0",
        "torch": "2.8.0",
    },
    "machine": {
        "host": "here",
        "system": "Linux",
        "processor": "Example 3000",
        "cores": 2,
        "memory": 8_000_000_000,
    },
    "variables": {"OMP_NUM_THREADS": "1"},
}

Scores = Mapping[tuple[str, str], Sequence[float]]
"""Scores of the runs by label and task; the first score is that of seed 0."""


def settings(**changes: Any) -> ReportSettings:
    """The settings of `conf/report.yaml`, with few resamples."""
    defaults: dict[str, Any] = {
        "iqm": "exact",
        "interval": "t",
        "level": 0.95,
        "alpha": 0.05,
        "power": 0.8,
        "margin": None,
        "repetitions": 1000,
        "curve_repetitions": 200,
        "curve_points": 20,
        "seed": 0,
        "normalisation": "anchors",
    }
    return ReportSettings(**{**defaults, **changes})


def inquiry(evidence: Evidence, **changes: Any) -> ReportContext:
    """The context of sections, with the four metrics of `conf/report.yaml`."""
    metrics: dict[str, Metric] = {
        "iqm": InterquartileMean(changes.get("iqm", "exact")),
        "median": Median(),
        "mean": Mean(),
        "optimality_gap": OptimalityGap(),
    }
    return ReportContext(evidence=evidence, settings=settings(**changes), metrics=metrics)


def configured(label: str = "ppo", task: str = CARTPOLE, **changes: Any) -> Configuration:
    """A configuration of 11 evaluations; keyword arguments change its budget."""
    budget: dict[str, Any] = {"steps": STEPS, "evaluation_every": STEPS // EVALUATIONS, **changes}
    return configuration(label, task=task, reference=REFERENCES[task], **budget)


def run_spec(configuration: Configuration, seed: int = 0, phase: Phase = Phase.TEST) -> RunSpec:
    """The spec of a configuration's run."""
    return configuration.spec(phase, 0, seed)


def learned(spec: RunSpec, score: float, low: float) -> RunRecord:
    """A completed run whose evaluations rise from near `low` to its score."""
    every = spec.budget["evaluation_every"]
    events: list[Event] = [started()]
    for number in range(1, EVALUATIONS + 1):
        mean = low + (score - low) * number / EVALUATIONS
        events.append(evaluated(every * number, mean - 1, mean + 1))
    final = evaluated(spec.budget["steps"], score - 1, score + 1, final=True)
    record = RunRecord.fold(spec, [[*events, final, ended(spec.budget["steps"])]])
    # Equal digests would make runs of different labels with equal scores identical.
    return replace(record, weights=f"weights of {spec.name}")


def broken(spec: RunSpec, failure: Failure = Failure.NAN) -> RunRecord:
    """A run that failed after two evaluations."""
    every = spec.budget["evaluation_every"]
    events: list[Event] = [started(), evaluated(every, 1.0, 2.0), evaluated(2 * every, 2.0, 3.0)]
    return RunRecord.fold(spec, [[*events, ended(2 * every, failure=failure)]])


def interrupted(spec: RunSpec) -> RunRecord:
    """A run that was interrupted after an evaluation."""
    every = spec.budget["evaluation_every"]
    events: list[Event] = [started(), evaluated(every, 1.0, 2.0), ended(every, Ending.INTERRUPTED)]
    return RunRecord.fold(spec, [events])


def member(
    record: RunRecord,
    configuration: Configuration,
    *,
    experiment: str = "sample",
    provenance: Plain = PROVENANCE,
    problem: str | None = None,
) -> PlannedRun:
    """A planned run of an experiment; a run that never started has no provenance."""
    return PlannedRun(
        experiment=experiment,
        label=configuration.label,
        configuration=configuration,
        record=record,
        provenance=provenance if record.attempts else {},
        problem=problem,
    )


def scored(
    configuration: Configuration, scores: Sequence[float], phase: Phase = Phase.TEST
) -> list[PlannedRun]:
    """Completed runs of a configuration, one for each score; the first run has seed 0."""
    low = configuration.reference.get("random") or 0.0
    return [
        member(learned(run_spec(configuration, seed, phase), score, low), configuration)
        for seed, score in enumerate(scores)
    ]


def evidence(
    members: Iterable[PlannedRun],
    *,
    phase: Phase = Phase.TEST,
    failures: Failures = "missing",
    **changes: Any,
) -> Evidence:
    """The evidence of one experiment with these runs."""
    runs = tuple(members)
    unique = {m.configuration.fingerprint: m.configuration for m in runs}
    planned = max([m.record.spec.seed + 1 for m in runs], default=0)
    experiment = Experiment(
        name="sample",
        configurations=tuple(unique.values()) or (configured(),),
        seeds=SeedPlan(root=0, tuning=3, selection=0, test=planned),
        failures=failures,
    )
    return Evidence(
        phase=phase,
        experiments=(experiment,),
        members=runs,
        folders={"sample": "runs/sample"},
        **changes,
    )


def of_scores(scores: Scores, **changes: Any) -> Evidence:
    """The evidence of completed runs with these scores."""
    runs = [
        m
        for (label, task), values in scores.items()
        for m in scored(configured(label, task), values)
    ]
    return evidence(runs, **changes)


def typical_scores(seeds: int = 5) -> Scores:
    """Three labels on two tasks: ppo clearly first, a2c and dqn close to each other."""
    height = {"ppo": 0.95, "a2c": 0.6, "dqn": 0.55}
    return {
        (label, task): [_spread(height[label], task, seed + 2 * k) for seed in range(seeds)]
        for k, label in enumerate(LABELS)
        for task in TASKS
    }


def _spread(height: float, task: str, number: int) -> float:
    low, high = REFERENCES[task]["random"], REFERENCES[task]["threshold"]
    share = height + 0.1 * ((7 * number + 3) % 11 - 5) / 5
    return round(float(low + (high - low) * share), 1)


def typical() -> Evidence:
    """Three labels on two tasks with five seeds each, all completed."""
    return of_scores(typical_scores())


def one_task() -> Evidence:
    """Three labels on one task."""
    return of_scores(
        {key: scores for key, scores in typical_scores().items() if key[1] == CARTPOLE}
    )


def one_label() -> Evidence:
    """One label on two tasks, without another label to compare."""
    return of_scores({key: scores for key, scores in typical_scores().items() if key[0] == "ppo"})


def one_seed() -> Evidence:
    """Three labels on two tasks with one seed each."""
    return of_scores(typical_scores(1))


def one_run() -> Evidence:
    """A single run."""
    return of_scores({("ppo", CARTPOLE): [400.0]})


def all_failed() -> Evidence:
    """Every run of two labels failed."""
    runs = [
        (configuration, seed) for configuration in map(configured, LABELS[:2]) for seed in range(3)
    ]
    return evidence(
        member(broken(run_spec(configuration, seed)), configuration)
        for configuration, seed in runs
    )


def nothing_run() -> Evidence:
    """Planned runs, none of which started."""
    runs = [
        (configuration, seed) for configuration in map(configured, LABELS[:2]) for seed in range(3)
    ]
    return evidence(
        member(RunRecord(spec=run_spec(configuration, seed)), configuration)
        for configuration, seed in runs
    )


def empty() -> Evidence:
    """An experiment without planned runs."""
    return evidence([])


def not_finite() -> Evidence:
    """Two labels, each with a completed run whose score is not finite."""
    nan, inf = float("nan"), float("inf")
    return of_scores(
        {
            ("ppo", CARTPOLE): [400.0, nan, 420.0],
            ("a2c", CARTPOLE): [200.0, inf, 210.0],
        }
    )


def immense_scores() -> Evidence:
    """Returns of diverged runs, too large for any aggregate."""
    return of_scores(
        {
            ("ppo", CARTPOLE): [400.0, 1e200, 420.0],
            ("a2c", CARTPOLE): [200.0, -1e149, 210.0],
        }
    )


def constant() -> Evidence:
    """Every run of two labels reached the same score."""
    return of_scores({(label, CARTPOLE): [500.0] * 5 for label in LABELS[:2]})


def task_missing() -> Evidence:
    """One label has no planned runs on the second task."""
    scores = {key: value for key, value in typical_scores().items() if key != ("dqn", PENDULUM)}
    return of_scores(scores)


def task_failed() -> Evidence:
    """All runs of one label on one task failed."""
    members = [
        member(broken(m.record.spec), m.configuration)
        if (m.label, m.task) == ("dqn", PENDULUM)
        else m
        for m in typical().members
    ]
    return evidence(members)


def unequal_budgets() -> Evidence:
    """One label trained half as long as the other, and was evaluated on fewer episodes."""
    scores = typical_scores()
    short_training = configured("a2c", CARTPOLE, steps=STEPS // 2, final_episodes=1)
    return evidence(
        [
            *scored(configured("ppo", CARTPOLE), scores["ppo", CARTPOLE]),
            *scored(short_training, scores["a2c", CARTPOLE]),
        ]
    )


def unequal_seeds() -> Evidence:
    """Labels with different numbers of runs, on tasks with different numbers of runs."""
    counts = {("a2c", CARTPOLE): 3, ("dqn", PENDULUM): 4}
    return of_scores({k: scores[: counts.get(k, 5)] for k, scores in typical_scores().items()})


def incomplete() -> Evidence:
    """One label has a failed, an interrupted, a missing and an unreadable run."""
    members = list(typical().members)
    first = next(k for k, m in enumerate(members) if (m.label, m.task) == ("a2c", CARTPOLE))
    configuration = members[first].configuration
    members[first] = member(broken(run_spec(configuration, 0)), configuration)
    members[first + 1] = member(interrupted(run_spec(configuration, 1)), configuration)
    members[first + 2] = member(RunRecord(spec=run_spec(configuration, 2)), configuration)
    unreadable = "its records are damaged: ValueError('no JSON')"
    damaged = RunRecord(spec=run_spec(configuration, 3))
    members[first + 3] = member(damaged, configuration, problem=unreadable)
    name = damaged.spec.name
    return evidence(
        members,
        left_out={Phase.TUNING: 4},
        problems=(f"sample: {name}: {unreadable}",),
    )


def worst() -> Evidence:
    """Failed runs count as the task's declared minimum."""
    members = [
        *scored(configured("ppo"), [400.0, 410.0, 420.0]),
        *scored(configured("a2c"), [300.0, 310.0]),
    ]
    configuration = configured("a2c")
    members.append(member(broken(run_spec(configuration, 2)), configuration))
    return evidence(members, failures="worst")


def without_anchors() -> Evidence:
    """Two tasks, one of which declares no anchors for normalisation."""
    members = [
        replace(m, configuration=replace(m.configuration, reference={}))
        if m.task == PENDULUM
        else m
        for m in typical().members
    ]
    return evidence(members)


def tuning_phase() -> Evidence:
    """Runs of the tuning phase, which are not for reports."""
    scores = typical_scores()
    return evidence(
        [
            m
            for key, values in scores.items()
            for m in scored(configured(*key), values, Phase.TUNING)
        ],
        phase=Phase.TUNING,
    )


SAMPLES: Mapping[str, Callable[[], Evidence]] = {
    make.__name__: make
    for make in (
        typical,
        immense_scores,
        one_task,
        one_label,
        one_seed,
        one_run,
        all_failed,
        nothing_run,
        empty,
        not_finite,
        constant,
        task_missing,
        task_failed,
        unequal_budgets,
        unequal_seeds,
        incomplete,
        worst,
        without_anchors,
        tuning_phase,
    )
}
"""Every kind of evidence that a section has to handle, by name."""


def reordered(evidence_of_runs: Evidence, seed: int = 0) -> Evidence:
    """The same evidence with its runs in another order and its labels in the same order."""
    order = {label: position for position, label in enumerate(evidence_of_runs.labels)}
    members = list(evidence_of_runs.members)
    random.Random(seed).shuffle(members)
    return replace(evidence_of_runs, members=tuple(sorted(members, key=lambda m: order[m.label])))
