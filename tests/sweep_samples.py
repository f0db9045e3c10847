"""Evidence of made-up sweeps: a typical one, one in progress, and unusual ones."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import nan
from typing import Any

from evidence_samples import CARTPOLE, STEPS, configured, evidence, of_scores, scored
from samples import PRUNER, part

from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.records.selection import Finalist, Selection
from rlexp.reports.evidence.fronts import FrontEvidence, FrontPolicy
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import (
    ImportanceByMethod,
    PhaseCost,
    SweepEvidence,
    TrialEvidence,
)
from rlexp.stats.interval import Interval

LEARNING_RATE, EPOCHS = "algorithm.learning_rate", "algorithm.n_epochs"
NETWORK, WIDTH = "agent.network", "agent.width"
SPACE = Space(
    parameters=(
        Parameter(key=LEARNING_RATE, domain=Real(1e-5, 1e-1, "log")),
        Parameter(key=EPOCHS, domain=Integer(1, 20)),
        Parameter(key=NETWORK, domain=Choice(("linear", "mlp"))),
        Parameter(key=WIDTH, domain=Choice((32, 64)), when={NETWORK: ("mlp",)}),
    )
)
DEFAULT: Mapping[str, Any] = {
    LEARNING_RATE: 3e-4,
    EPOCHS: 10,
    NETWORK: "mlp",
    WIDTH: 64,
}
TUNING_SEEDS, SELECTION_SEEDS = (0, 1, 2), (0, 1, 2, 3)
PLAN: Mapping[str, Any] = {
    "trials": 12,
    "full_runs": None,
    "steps": None,
    "hours": None,
    "allocation": "two_stage",
    "promoted": 0.25,
    "objective": ("score",),
    "aggregate": "mean",
    "finalists": 2,
    "lag": 3,
    "failures": "worst",
    "stop_after": 5,
    "storage": None,
}
TUNED = (430.0, 440.0, 450.0, 460.0, 470.0)
UNTUNED = (300.0, 310.0, 320.0, 330.0, 340.0)
"""Test scores of the winner and of the default."""


def sweep(space: Space = SPACE, **changes: Any) -> Sweep:
    """A sweep definition; keyword arguments change its plan."""
    return Sweep(
        name="ppo_cartpole",
        space=space,
        tuner=part("tuner", "tpe", "rlexp.tuners.tpe.TPE", startup=10),
        pruner=PRUNER,
        plan=SweepPlan(**{**PLAN, **changes}),
    )


def parameters(number: int) -> dict[str, Any]:
    """The parameters of a trial; trials with a linear network have no width."""
    if number == 0:
        return dict(DEFAULT)
    return SPACE.decode([(number * k * 0.37) % 1 for k in (1, 2, 3, 5)])


def trial(number: int, *scores: float, state: str = "complete", **changes: Any) -> TrialEvidence:
    """A trial with these scores on the first tuning seeds."""
    value = sum(scores) / len(scores) if scores and state == "complete" else None
    count = max(len(scores), 1)
    defaults: dict[str, Any] = {
        "number": number,
        "parameters": parameters(number),
        "steps": STEPS,
        "state": state,
        "value": value,
        "values": () if value is None else (value,),
        "scores": dict(zip(TUNING_SEEDS, scores, strict=False)),
        "eligible": state == "complete" and len(scores) == len(TUNING_SEEDS),
        "ended_at": (number + 1) * 20_000,
        "spent": count * STEPS,
        "runs": tuple(f"ppo-tuning-{k}-{number}" for k in range(count)),
    }
    return TrialEvidence(**{**defaults, **changes})


def trials() -> tuple[TrialEvidence, ...]:
    """Twelve trials: three on all tuning seeds, six screened, three that did not complete."""
    return (
        trial(0, 320.0, 330.0, 340.0),
        trial(1, 200.0),
        trial(2, 410.0, 430.0, 450.0),
        trial(3, state="pruned", spent=4000, reason="below the median"),
        trial(4, 250.0),
        trial(5, 480.0, 490.0, 500.0),
        trial(6, state="failed", spent=100, reason="nan: the loss is not a number"),
        trial(7, 499.0),
        trial(8, 150.0),
        trial(9, 300.0),
        trial(10, 120.0),
        trial(11, state="unfinished", spent=50),
    )


def share(estimate: float) -> Interval:
    """A share of importance with its interval."""
    return Interval(
        estimate=estimate,
        low=estimate / 2,
        high=min(1.0, 2 * estimate),
        level=0.95,
        method="percentile bootstrap of the trials",
        repetitions=100,
        n=40,
        seed=0,
    )


def importances() -> tuple[ImportanceByMethod, ...]:
    """The importances by both methods, the learning rate first."""
    keys = (EPOCHS, LEARNING_RATE, NETWORK, WIDTH)
    return (
        ImportanceByMethod(
            method="PED-ANOVA",
            shares=dict(zip(keys, map(share, (0.2, 0.6, 0.15, 0.05)), strict=True)),
            note="From the best 5 of 40 complete trials.",
        ),
        ImportanceByMethod(
            method="fANOVA",
            shares=dict(zip(keys, map(share, (0.05, 0.9, 0.03, 0.02)), strict=True)),
            quality=0.7,
            pairs={(LEARNING_RATE, EPOCHS): 0.04},
        ),
    )


SELECTION = Selection(
    winner=5,
    finalists=(
        Finalist(number=5, tuning=(480.0, 490.0, 500.0), selection=(450.0, 460.0, 470.0, 480.0)),
        Finalist(number=2, tuning=(410.0, 430.0, 450.0), selection=(400.0, 410.0, 420.0, 430.0)),
    ),
    rule="the finalist with the best mean on selection seeds",
)
COSTS = {
    "tuning": PhaseCost(runs=18, steps=160_000, seconds=1800.0),
    "selection": PhaseCost(runs=8, steps=88_000, seconds=900.0),
    "test": PhaseCost(runs=10, steps=110_000, seconds=900.0),
}


def swept_evidence(experiment: str = "sample", **changes: Any) -> SweepEvidence:
    """A completed sweep of twelve trials; the sixth won."""
    defaults: dict[str, Any] = {
        "experiment": experiment,
        "definition": sweep(),
        "steps": STEPS,
        "tuning_seeds": TUNING_SEEDS,
        "selection_seeds": SELECTION_SEEDS,
        "trials": trials(),
        "selection": SELECTION,
        "default": DEFAULT,
        "importances": importances(),
        "costs": COSTS,
    }
    return SweepEvidence(**{**defaults, **changes})


def of_sweep(sweep_evidence: SweepEvidence, **scores: tuple[float, ...]) -> Evidence:
    """A sweep with test runs of these labels, which differ in a setting outside the search."""
    members = [
        m
        for label, values in scores.items()
        for m in scored(replace(configured(), label=label), values)
    ]
    return evidence(members, sweeps=(sweep_evidence,))


def swept() -> Evidence:
    """Winner and default on five test seeds each."""
    return of_sweep(swept_evidence(), tuned=TUNED, default=UNTUNED)


def searching() -> Evidence:
    """A running search without selection and test runs."""
    sweep_evidence = swept_evidence(
        selection=None, importances=(), costs={"tuning": COSTS["tuning"]}
    )
    return evidence([], sweeps=(sweep_evidence,))


def just_begun() -> Evidence:
    """A search without an ended trial."""
    sweep_evidence = swept_evidence(trials=(), selection=None, importances=(), costs={})
    return evidence([], sweeps=(sweep_evidence,))


def none_succeeded() -> Evidence:
    """A search whose trials all failed."""
    failed = tuple(trial(k, state="failed", reason="crashed") for k in range(4))
    uncomputed = ImportanceByMethod(
        method="PED-ANOVA", shares={}, reason="0 complete trials are too few"
    )
    sweep_evidence = swept_evidence(trials=failed, selection=None, importances=(uncomputed,))
    return evidence([], sweeps=(sweep_evidence,))


def untested() -> Evidence:
    """A sweep with a selected winner and without ended test runs."""
    return of_sweep(swept_evidence(), tuned=(), default=())


def default_won() -> Evidence:
    """The default configuration won, so only its test runs exist."""
    winner = Finalist(number=0, tuning=(320.0, 330.0, 340.0))
    selection = Selection(winner=0, finalists=(winner,), rule="the best on tuning seeds")
    sweep_evidence = swept_evidence(selection=selection, selection_seeds=(), importances=())
    return of_sweep(sweep_evidence, default=UNTUNED)


def one_tuning_seed() -> Evidence:
    """One tuning seed and one test seed per side: noise and spread cannot be separated."""
    three_trials = tuple(trial(k, 100.0 + k, eligible=True) for k in range(3))
    winner = Finalist(number=2, tuning=(102.0,))
    selection = Selection(winner=2, finalists=(winner,), rule="the best on the tuning seed")
    sweep_evidence = swept_evidence(
        trials=three_trials, selection=selection, tuning_seeds=(0,), selection_seeds=()
    )
    return of_sweep(sweep_evidence, tuned=(90.0,), default=(95.0,))


def odd_values() -> Evidence:
    """Non-finite or immense values, and defaults outside their ranges."""
    odd_parameters = {LEARNING_RATE: "linear_3e-4", EPOCHS: 0, NETWORK: "cnn"}
    odd_trials = (
        trial(0, 1e200, 1e201, 1e202, parameters=odd_parameters),
        trial(1, 1.0, 2.0, float("inf")),
        trial(2, float("nan"), 1.0, 2.0, parameters={LEARNING_RATE: None}),
        trial(3, 1.0, 2.0, 3.0),
    )
    winner = Finalist(number=3, tuning=(1.0, 2.0, 3.0))
    selection = Selection(winner=3, finalists=(winner,), rule="the best on tuning seeds")
    sweep_evidence = swept_evidence(
        trials=odd_trials, selection=selection, default=odd_parameters, importances=()
    )
    return of_sweep(sweep_evidence, tuned=(1.0, 1e200), default=(2.0, 2.0))


def minimised() -> Evidence:
    """A sweep that minimises two objectives, steps and spread."""
    two_objective_trials = tuple(
        replace(t, values=(t.value, 5.0) if t.value is not None else ()) for t in trials()
    )
    sweep_evidence = swept_evidence(
        trials=two_objective_trials,
        definition=sweep(objective=("steps_to_threshold", "spread")),
        importances=(),
    )
    return of_sweep(sweep_evidence, tuned=TUNED, default=UNTUNED)


def front_policy(number: int, name: str, *, on_front: bool = True) -> FrontPolicy:
    """A policy with an energy on two tuning seeds, one selection seed and two of three test seeds."""
    base = (100.0 * number, 10.0 * number)
    return FrontPolicy(
        trial=number,
        name=name,
        on_front=on_front,
        values={
            "tuning": {s: (base[0] + s, base[1] + s) for s in (0, 1)},
            "selection": {0: base},
            "test": {s: (base[0] - s, base[1] + 2 * s) for s in (0, 2)},
        },
        whole={
            "tuning": (base[0] + 0.5, base[1] + 0.5),
            "selection": base,
            "test": (base[0] - 1, base[1] + 2),
        },
        planned={"tuning": 2, "selection": 1, "test": 3},
        chosen_by=base,
    )


def front_evidence(**changes: Any) -> FrontEvidence:
    """The front of score and energy of three policies, of which the second one was chosen."""
    defaults: dict[str, Any] = {
        "objectives": ("score", "energy"),
        "minimised": frozenset({"energy"}),
        "reference": (0.0, 60.0),
        "reference_rule": "declared as sweep.reference_point",
        "frozen": True,
        "searched": {n: (100.0 * n, 10.0 * n) for n in (0, 2, 5)} | {4: (150.0, 55.0)},
        "searched_seeds": 2,
        "volumes": {0: 10.0, 1: 10.0, 2: 30.0, 4: 30.0, 5: 45.5},
        "policies": (
            front_policy(0, "default (trial 0)", on_front=False),
            front_policy(2, "trial 2"),
            front_policy(5, "tuned (trial 5)"),
        ),
        "known": {"score": {"minimum": 0.0, "maximum": 500.0}, "energy": {}},
        "weights": None,
        "utility": True,
    }
    return FrontEvidence(**{**defaults, **changes})


def several_objectives() -> Evidence:
    """A finished sweep of score and energy, whose second test seed failed for every policy."""
    definition = sweep(objective=("score", "energy"), choose="knee")
    sweep_evidence = swept_evidence(
        front=front_evidence(), definition=definition, minimised=frozenset({"energy"})
    )
    return of_sweep(sweep_evidence, tuned=TUNED, default=UNTUNED)


def odd_front() -> Evidence:
    """A front without runs on test seeds, one of immense values, and one of three objectives."""
    point = (1e99, -1e99)
    immense = replace(
        front_policy(2, "trial 2"), values={"tuning": {0: point}}, whole={"tuning": point}
    )
    no_spread = replace(front_policy(2, "trial 2"), values={"test": {0: (1.0, nan)}}, whole={})
    fronts = [
        front_evidence(policies=()),
        front_evidence(policies=(no_spread,)),
        front_evidence(policies=(immense,), frozen=False, volumes={}),
        front_evidence(
            objectives=("score", "energy", "time"),
            reference=(0.0, 60.0, 0.0),
            searched={0: (1.0, 2.0, 3.0)},
            policies=(
                replace(
                    front_policy(0, "default (trial 0)"),
                    values={"test": {0: (1e160, -1e160, 1e160)}},
                    whole={"test": (1e160, -1e160, 1e160)},
                    chosen_by=(1.0, 1.0, 1.0),
                ),
            ),
            known={},
        ),
    ]
    sweeps = [
        swept_evidence(f"odd_{k}", front=front, selection=None, importances=())
        for k, front in enumerate(fronts)
    ]
    return evidence([], sweeps=tuple(sweeps))


def two_sweeps() -> Evidence:
    """Two completed sweeps; the second has a wider range and three times the steps."""
    wider = Space(
        parameters=(
            Parameter(key=LEARNING_RATE, domain=Real(1e-6, 1.0, "log")),
            *SPACE.parameters[1:],
        )
    )
    first = swept()
    costs = {phase: replace(cost, steps=3 * cost.steps) for phase, cost in COSTS.items()}
    second = swept_evidence("other", definition=sweep(wider), costs=costs)
    renamed = [
        replace(m, experiment="other", label=f"other/{m.label}")
        for m in of_sweep(second, tuned=UNTUNED, default=TUNED).members
    ]
    return replace(
        first,
        experiments=(*first.experiments, replace(first.experiments[0], name="other")),
        members=(*first.members, *renamed),
        sweeps=(*first.sweeps, second),
    )


def beside_untuned() -> Evidence:
    """A sweep, and a label that was not tuned."""
    untuned = of_scores({("a2c", CARTPOLE): (200.0, 210.0, 220.0, 230.0, 240.0)})
    tuned = swept()
    return replace(tuned, members=(*tuned.members, *untuned.members))


SWEEPS: Mapping[str, Callable[[], Evidence]] = {
    make.__name__: make
    for make in (
        swept,
        searching,
        just_begun,
        none_succeeded,
        untested,
        default_won,
        one_tuning_seed,
        odd_values,
        minimised,
        several_objectives,
        odd_front,
        two_sweeps,
        beside_untuned,
    )
}
"""Every kind of sweep that a section about sweeps has to handle, by name."""


def trials_reordered(evidence_of_sweeps: Evidence, seed: int = 0) -> Evidence:
    """The same evidence with the trials of its sweeps in another order."""
    generator = random.Random(seed)

    def shuffled(sweep_evidence: SweepEvidence) -> SweepEvidence:
        return replace(
            sweep_evidence,
            trials=tuple(generator.sample(sweep_evidence.trials, len(sweep_evidence.trials))),
        )

    return replace(evidence_of_sweeps, sweeps=tuple(map(shuffled, evidence_of_sweeps.sweeps)))
