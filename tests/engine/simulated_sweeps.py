"""Sweeps whose runs follow a formula, with any workers, any order of ends and any interruption."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samples import configuration

from rlexp.engine.objectives import Objectives
from rlexp.engine.search import Search, SearchProblem
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.engine.trial_state import Proposal
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import digest as canonical_digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.space import Parameter, Real, Space
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.sweep import SweepPlan, SweepTask
from rlexp.protocol.value_schedule import with_earlier
from rlexp.pruners import Pruner
from rlexp.pruners.none import Never
from rlexp.records.events import Ending, Evaluated, Failure
from rlexp.records.run import RunRecord, State
from rlexp.records.selection import Selection
from rlexp.tuners import Problem, Suggester, Suggestion, Tuner
from rlexp.tuners.random import RandomSearch

SPACE = Space(parameters=(Parameter(key="algorithm.x", domain=Real(0.0, 1.0)),))
STEPS, EVERY = 100, 10
Score = Callable[[float, RunSpec], float | None]


def quality(x: float, spec: RunSpec) -> float:
    """The score of a run: best at x = 0.7, with noise that depends on x, seed and phase only."""
    noise = random.Random(f"{spec.phase} {spec.seed} {x:.12f}").gauss(0, 0.1)
    return 1 - (x - 0.7) ** 2 + noise


def plan(**changes: Any) -> SweepPlan:
    """A plan of 12 trials; keyword arguments change it."""
    settings: dict[str, Any] = {
        "trials": 12,
        "full_runs": None,
        "steps": None,
        "hours": None,
        "allocation": "fixed",
        "promoted": 0.25,
        "objective": "score",
        "aggregate": "mean",
        "finalists": 2,
        "lag": 3,
        "failures": "worst",
        "stop_after": 5,
        "storage": None,
    }
    return SweepPlan(**{**settings, **changes})


@dataclass(slots=True)
class Notes:
    """A ledger in memory."""

    proposals: list[tuple[Proposal, tuple[Configuration, ...]]] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    refused: Callable[[float], bool] = lambda _: False
    continued: list[RunSpec] = field(default_factory=list)
    lost: str | None = None
    tasks: tuple[SweepTask, ...] = ()

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """A configuration on each task, whose algorithm has the parameter `x`."""
        x = with_earlier(suggestion.parameters, suggestion.earlier)["algorithm.x"]
        if self.refused(x):
            return (), f"x={x} cannot be run"
        base = configuration(steps=suggestion.steps or STEPS, evaluation_every=EVERY)
        algorithm = {**base.algorithm, "x": x}
        if (shared := suggestion.experience) is not None:
            digest = canonical_digest([spec.id for spec in shared.runs])
            algorithm[EXPERIENCE] = shared.schedule(digest)
        trial = replace(base, algorithm=algorithm, label=f"trial {number}")
        if not self.tasks:
            return (trial,), ""
        on_tasks = (({**base.environment, "id": t.task}, t.task) for t in self.tasks)
        return tuple(replace(trial, environment=e, task=t) for e, t in on_tasks), ""

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """A state one evaluation before the end of each run, as runs with rollouts keep it."""
        del configuration
        states = (
            None if r is None else Parent(r.spec.id, r.spec.budget["steps"] - EVERY, "state")
            for r in runs
        )
        return tuple(states), None

    def hand_over(self, spec: RunSpec) -> str | None:
        """Note a run that continues another run."""
        self.continued.append(spec)
        return self.lost

    def propose(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Keep a proposal."""
        self.proposals.append((proposal, configurations))

    def choose(self, selection: Selection) -> None:
        """Keep a selection."""
        self.selections.append(selection)


@dataclass(slots=True)
class World:
    """The state that outlives a command: proposals, selection and the runs that have ended.

    `stopped` holds the step at which each run was asked to end, by the run's name.
    """

    plan: SweepPlan = field(default_factory=plan)
    tuner: Tuner = field(default_factory=RandomSearch)
    pruner: Pruner = field(default_factory=Never)
    one_by_one: bool = False
    seeds: SeedPlan = field(
        default_factory=lambda: SeedPlan(root=0, tuning=3, selection=2, test=2)
    )
    score: Score = quality
    refused: Callable[[float], bool] = lambda _: False
    notes: Notes = field(default_factory=Notes)
    records: dict[str, RunRecord] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    trained: int = 0
    tasks: tuple[SweepTask, ...] = ()
    search_seed: int = 0
    space: Space = SPACE

    def open(self, until: SweepStage = SweepStage.TEST, hours: float = 0.0) -> SweepSource:
        """The sweep as a new command finds it."""
        self.notes.refused, self.notes.tasks = self.refused, self.tasks
        question = SearchProblem(
            plan=self.plan,
            seeds=len(self.seeds.seeds(Phase.TUNING)),
            steps=STEPS,
            every=EVERY,
            objectives=Objectives(
                names=self.plan.objectives,
                aggregate=self.plan.aggregate,
                threshold=0.9,
                tasks=self.tasks,
            ),
            default={"algorithm.x": 0.5},
            space=SPACE,
        )
        problem = Problem(
            space=self.space,
            objectives=len(self.plan.objectives),
            steps=STEPS,
            seed=self.search_seed,
        )
        suggester: Suggester = self.tuner.open(problem)
        search = Search(question, suggester, self.pruner, self.one_by_one)
        sweeping = SweepSource(
            search, self.seeds, self.notes, lambda: hours, records=dict(self.records), until=until
        )
        sweeping.resume(list(self.notes.proposals))
        sweeping.selection = self.notes.selections[-1] if self.notes.selections else None
        return sweeping

    def run(self, workers: int, order: int, cut: int | None = None) -> SweepSource:
        """Work on the sweep; runs advance and end in a random order.

        Args:
            workers: Runs at a time.
            order: Seed of the order.
            cut: Number of moves after which the command is killed and the running runs are lost.
        """
        sweeping, dice = self.open(), random.Random(order)
        running: dict[str, tuple[RunSpec, int]] = {}
        moves = 0
        while True:
            while len(running) < workers and (spec := sweeping.take()) is not None:
                running[spec.id] = (spec, 0)
            if not running or (cut is not None and moves >= cut):
                return sweeping
            moves += 1
            key = dice.choice(sorted(running))
            spec, step = running[key]
            step = min(step + dice.choice((EVERY, 3 * EVERY, STEPS)), spec.budget["steps"])
            running[key] = (spec, step)
            self.trained += step
            self._advance(sweeping, spec, step, running)

    def finish(self, sweeping: SweepSource, spec: RunSpec) -> None:
        """Bring a run to its end, or to the step at which it is asked to end."""
        self._advance(sweeping, spec, spec.budget["steps"], {spec.id: (spec, 0)})

    def _advance(
        self,
        sweeping: SweepSource,
        spec: RunSpec,
        step: int,
        running: dict[str, tuple[RunSpec, int]],
    ) -> None:
        record = self.record(spec)
        evaluations = tuple(e for e in record.evaluations if e.step <= step)
        sweeping.evaluated(spec, evaluations)
        request = sweeping.stopping(spec)
        if request is not None:
            evaluations_to_rung = tuple(
                e for e in evaluations if request.rung is None or e.step <= request.rung
            )
            record = replace(
                record,
                state=State.PRUNED,
                step=step,
                evaluations=evaluations_to_rung,
                final=None,
                spent=step,
            )
            self.stopped[spec.name] = request.rung or 0
        elif step < spec.budget["steps"]:
            return
        del running[spec.id]
        self.records[spec.id] = record
        sweeping.ended(record)

    def record(self, spec: RunSpec) -> RunRecord:
        """The record of a completed run, whose curve rises to its score, or of a failed run."""
        score = self.score(spec.algorithm["x"], spec)
        steps = spec.budget["steps"]
        if score is None:
            return RunRecord(
                spec=spec, state=State.FAILED, failure=Failure.ENVIRONMENT, reason="step 17 broke"
            )
        curve = tuple(evaluated(s, score * s / steps) for s in range(EVERY, steps + 1, EVERY))
        return RunRecord(
            spec=spec,
            state=State(Ending.COMPLETED),
            step=steps,
            evaluations=curve,
            final=evaluated(steps, score, final=True),
            spent=steps,
            seconds=1.0,
        )

    def outcome(self) -> Mapping[str, Any]:
        """Everything that must not depend on workers, order or interruptions."""
        sweeping = self.open()
        trials = [e.trial for e in sweeping.search.entries]
        return {
            "parameters": [p.parameters for p, _ in self.notes.proposals],
            "trials": trials,
            "selections": self.notes.selections,
            "tests": sorted(
                (r.spec.name, r.score)
                for r in self.records.values()
                if r.spec.phase is not Phase.TUNING
            ),
        }


def evaluated(step: int, value: float, *, final: bool = False) -> Evaluated:
    """An evaluation of one episode."""
    return Evaluated(time=0.0, step=step, returns=(value,), lengths=(1,), seconds=0.0, final=final)
