"""A sweep for the lowest cost decides as one for the highest negated cost, on every surface."""

from collections.abc import Mapping
from math import log10
from pathlib import Path

import optuna
import pytest
from command_line import give_json
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.reporting.build import make_report
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.mirrored import mirrored_sweep
from rlexp.config.report_settings import read_report
from rlexp.engine.sweep_source import SweepSource
from rlexp.exchange.optuna_study import OptunaStudyMirror, redirect_library_logs
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import directions
from rlexp.reports.analysis.sweep_tables import incumbents, is_minimised
from rlexp.reports.drawing.blocks import ScatterFigure
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.store.runs import read_definition
from rlexp.store.sweeps import read_selection, read_trials

SEARCH = (
    *("tuner=tpe", "sweep.trials=24", "sweep.finalists=3", "component=safety"),
    "environment.components.safety.constraints={track: {entry: 0, above: 0.1, below: -0.1}}",
)
MINIMISED = ("budget.score=cost", "environment.measures={cost: {direction: minimise}}")


def skill(spec: RunSpec) -> float:
    """A score with its best epochs in the middle, and some luck on tuning seeds."""
    epochs, rate = int(spec.algorithm["n_epochs"]), float(spec.algorithm["learning_rate"])
    luck = 7.0 * ((spec.seed + epochs) % 3) if spec.phase is Phase.TUNING else spec.seed
    return 200.0 - (epochs - 12) ** 2 - 3.0 * abs(log10(rate) + 3) + luck


class Searched:
    """A finished sweep and its evidence."""

    def __init__(self, folder: Path, *words: str, cost: str | None) -> None:
        self.sweep: StoredSweep = stored_sweep(folder, *SEARCH, *words, score=skill)
        self.sweep.cost = cost
        self.source: SweepSource = self.sweep.go_on()
        self.collected = collect_evidence(
            ["made_up"], Phase.TEST, self.sweep.study, importance=True
        )

    @property
    def evidence(self) -> SweepEvidence:
        """The evidence of the sweep."""
        return self.collected.sweeps[0]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Searched]:
    """Two sweeps: one maximises a return, the other one minimises the negated return."""
    with pytest.MonkeyPatch.context() as patch:
        quick_parts(patch)
        return {
            "return": Searched(tmp_path_factory.mktemp("return"), cost=None),
            "cost": Searched(tmp_path_factory.mktemp("cost"), *MINIMISED, cost="cost"),
        }


def test_the_same_trials_are_tried_and_the_same_one_wins(searched: Mapping[str, Searched]) -> None:
    """The tuner sees costs with reversed signs, and the winner has the lowest cost."""
    tried = [[trial.parameters for trial in read_trials(s.sweep.paths)] for s in searched.values()]
    assert tried[0] == tried[1]
    high, low = (read_selection(s.sweep.paths) for s in searched.values())
    assert high is not None
    assert low is not None
    assert high.winner == low.winner
    assert [f.number for f in high.finalists] == [f.number for f in low.finalists]
    costs = {f.number: sum(f.selection) for f in low.finalists}
    assert low.winner == min(costs, key=lambda number: costs[number])


def test_the_best_so_far_falls(searched: Mapping[str, Searched]) -> None:
    """The trials that led in turn are the same, and their costs fall."""
    high, low = (s.evidence for s in searched.values())
    assert [t.number for t in incumbents(high)] == [t.number for t in incumbents(low)]
    costs = [t.value for t in incumbents(low) if t.value is not None]
    assert len(costs) > 1
    assert sorted(costs, reverse=True) == costs
    assert (False, True) == (is_minimised(high), is_minimised(low))


def test_importances_are_those_of_the_negated_cost(searched: Mapping[str, Searched]) -> None:
    """Importance asks what reaches the best values: for costs the lowest ones."""
    high, low = (s.evidence.importances for s in searched.values())
    assert [i.method for i in high] == [i.method for i in low]
    assert any(i.shares for i in high)
    for one, other in zip(high, low, strict=True):
        assert one.shares == other.shares


def test_status_show_and_best_name_the_same_trial(searched: Mapping[str, Searched]) -> None:
    """The commands name the same best trial and winner, with the cost in its units."""
    shown = []
    for factor, one in zip((1, -1), searched.values(), strict=True):
        folder = one.sweep.study.folder
        sweep = give_json(folder, "experiment-details", "show", "made_up")["sweep"]
        best = give_json(folder, "best", "best", "made_up")
        means = {m["phase"]: factor * m["mean"]["estimate"] for m in best["scores"][:3]}
        optimism = best["optimism"]["estimate"]
        assert optimism == pytest.approx(means["tuning"] - means["test"])
        leader = (sweep["best"]["trial"], factor * sweep["best"]["value"])
        improvement = best["improvement"]["estimate"]
        shown.append((leader, sweep["winner"], best["trial"], means, improvement))
    assert shown[0] == shown[1]


def test_the_report_has_the_same_history(searched: Mapping[str, Searched]) -> None:
    """The stairs of the search are those of the negated cost."""
    drawn = []
    for factor, one in zip((1, -1), searched.values(), strict=True):
        settings = read_report(["section=[history]"], one.sweep.study.folder, ())
        blocks = [b for part in make_report(one.collected, settings).parts for b in part.blocks]
        lines = [line for b in blocks if isinstance(b, ScatterFigure) for line in b.lines]
        drawn.append([[factor * y for y in line.y if y is not None] for line in lines])
    assert drawn[0] == drawn[1] != []


def test_optuna_minimises_the_cost(searched: Mapping[str, Searched]) -> None:
    """The mirrored study has the direction of the cost, and Optuna finds the same best trial."""
    redirect_library_logs()
    best = []
    for factor, one in zip((1, -1), searched.values(), strict=True):
        experiment = read_definition(one.sweep.paths)
        assert experiment.sweep is not None
        journal = one.sweep.study.folder / "optuna.journal"
        mirrored = mirrored_sweep(one.source, "made_up")
        mirror = OptunaStudyMirror(
            None,
            journal=journal,
            name="made_up",
            space=experiment.sweep.space,
            directions=directions(experiment.sweep.plan.objectives, experiment.minimised),
        )
        mirror.sync(mirrored.trials, mirrored.attributes, mirrored.notes)
        mirror.close()
        storage = JournalStorage(JournalFileBackend(str(journal)))
        trial = optuna.load_study(study_name="made_up", storage=storage).best_trial
        curve = {step: factor * value for step, value in trial.intermediate_values.items()}
        assert trial.value is not None
        best.append((trial.number, factor * trial.value, curve))
    assert best[0] == best[1]
    assert best[0][0] == incumbents(searched["cost"].evidence)[-1].number
