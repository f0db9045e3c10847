"""A sweep on several tasks, on disk: its records, its readers, its refusals, and training it again."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import fsum
from pathlib import Path
from typing import Any

import pytest
from command_line import typed
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.api import best
from rlexp.app.reporting.build import make_report
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.app.sweeps.mirrored import metric_names, mirrored_sweep
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.sweeps.retrain import SweepTrial, request_trial_again
from rlexp.config.report_settings import read_report
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.reports.drawing.blocks import Table
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.store.files import read_json
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import read_selection, read_trials

quick = pytest.fixture(autouse=True)(quick_parts)
ON_TASKS = "environment=cartpole,acrobot,pendulum"
TASKS = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")
ENDS: Mapping[str, tuple[float, float]] = {
    "CartPole-v1": (22.5, 475.0),
    "Acrobot-v1": (-499.3, -100.0),
    "Pendulum-v1": (-1235.0, -150.0),
}
"""The scores of a random policy and the threshold, as `conf/environment` declares them."""


def score_on_task(spec: RunSpec) -> float:
    """A score that rises with the epochs, in the units of its task, and varies slightly by seed."""
    low, high = ENDS[spec.environment["id"]]
    epochs: int = spec.algorithm["n_epochs"]
    return low + (epochs / 20 + spec.seed / 100) * (high - low)


def on_tasks(folder: Path, *words: str) -> StoredSweep:
    """A sweep on three tasks that has not started."""
    return stored_sweep(folder, ON_TASKS, *words, score=score_on_task)


@cache
def _finished_at(folder: Path) -> StoredSweep:
    sweep = on_tasks(folder)
    sweep.go_on()
    return sweep


@pytest.fixture
def stored(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    """A finished sweep on three tasks in a folder of its own; it is made once and copied."""
    return _finished_at(tmp_path_factory.getbasetemp() / "finished sweep on tasks").copied_to(
        tmp_path
    )


def evidence_of(sweep: StoredSweep) -> SweepEvidence:
    """The evidence of the sweep."""
    return collect_evidence(["made_up"], Phase.TEST, sweep.study).sweeps[0]


def tables_of(sweep: StoredSweep, *settings: str) -> dict[str, Table]:
    """The tables of the section about the winner, by name."""
    evidence = collect_evidence(["made_up"], Phase.TEST, sweep.study)
    parts = read_report(["section=[winner,trials,protocol]", *settings], sweep.study.folder, ())
    report = make_report(evidence, parts)
    return {b.name: b for part in report.parts for b in part.blocks if isinstance(b, Table)}


def test_the_tasks_and_their_anchors_are_frozen(stored: StoredSweep) -> None:
    """`experiment.json` holds the tasks with their anchors, and each trial its configuration on each."""
    document = read_json(stored.paths.definition)
    frozen = [{"task": t, "low": ENDS[t][0], "high": ENDS[t][1]} for t in TASKS]
    assert frozen == document["sweep"]["tasks"]
    assert "anchors" == document["sweep"]["plan"]["normalisation"]
    assert list(TASKS) == [c["task"] for c in document["configurations"]]
    for trial in read_trials(stored.paths):
        assert TASKS == tuple(c.task for c in trial.configurations)
        assert 1 == len({json.dumps(c.algorithm, sort_keys=True) for c in trial.configurations})
    experiment = read_experiment(stored.paths)
    assert [("tuned", t) for t in TASKS] + [("default", t) for t in TASKS] == [
        (c.label, c.task) for c in experiment.configurations
    ]


@pytest.mark.parametrize(
    "other",
    [
        "environment=cartpole,acrobot",
        "environment=acrobot,cartpole,pendulum",
        "environment=cartpole",
        "sweep.normalisation=ranks",
        "sweep.screening_tasks=2",
    ],
)
def test_the_tasks_are_part_of_the_definition(stored: StoredSweep, other: str) -> None:
    """The same name with other tasks, in another order, or compared otherwise is another sweep."""
    same = read_sweep(None, stored.words, stored.study)
    plan = same.request.plan
    assert read_experiment(stored.paths) == merge_with_existing_sweep(
        stored.paths, same.experiment, plan
    )
    key = other.partition("=")[0]
    words = [*(w for w in stored.words if not w.startswith(f"{key}=")), other]
    changed = read_sweep(None, words, stored.study)
    with pytest.raises(RecordError, match="exists with another definition"):
        merge_with_existing_sweep(stored.paths, changed.experiment, changed.request.plan)


def test_scores_of_the_evidence_are_means_over_the_tasks(stored: StoredSweep) -> None:
    """A seed of the winner has the mean of its normalised scores; by task, the scores of its runs."""
    sweep = evidence_of(stored)
    assert sweep.selection is not None
    winner = sweep.trials[sweep.selection.winner]
    epochs = winner.parameters["algorithm.n_epochs"]
    assert {s: pytest.approx(epochs / 20 + s / 100) for s in (0, 1, 2)} == winner.scores
    assert winner.value == pytest.approx(epochs / 20 + 0.01)
    specs = {(s.environment["id"], s.seed): s for s in stored.made if _is_of(s, epochs)}
    for task, scores in winner.by_task.items():
        expected = {seed: score_on_task(specs[task, seed]) for seed in (0, 1, 2)}
        assert expected == scores
    screened = [t for t in sweep.trials if t.state == "complete" and not t.eligible]
    assert screened
    assert {"CartPole-v1"} == {task for t in screened for task, each in t.by_task.items() if each}


def _is_of(spec: RunSpec, epochs: int) -> bool:
    return spec.phase is Phase.TUNING and spec.algorithm["n_epochs"] == epochs


def test_the_report_shows_each_task_and_the_sensitivity(stored: StoredSweep) -> None:
    """The scores by task are means of the records, and one configuration for all loses nothing here."""
    tables = tables_of(stored)
    rows = tables["winner-tasks"].rows
    assert [(t, c) for t in TASKS for c in ("tuned", "default")] == [
        (row[0], str(row[1]).split(" ")[0]) for row in rows
    ]
    tests = [s for s in stored.made if s.phase is Phase.TEST]
    default = {s.algorithm["n_epochs"] for s in tests} - {_winners_epochs(stored)}
    for row in rows:
        of_default = str(row[1]).startswith("default")
        runs = [
            score_on_task(s)
            for s in tests
            if s.environment["id"] == row[0] and (s.algorithm["n_epochs"] in default) is of_default
        ]
        mean = fsum(runs) / len(runs)
        low, high = ENDS[str(row[0])]
        assert (3, 3) == row[5:7]
        assert row[4].estimate == pytest.approx(mean)  # type: ignore[union-attr]
        assert row[7] == pytest.approx((mean - low) / (high - low))
    # Every task prefers many epochs: the best trial of each is the winner.
    assert {0.0} == {row[4] for row in tables["winner-best-by-task"].rows}
    phi = tables["winner-sensitivity"].rows[2][1]
    assert phi.estimate == pytest.approx(0)  # type: ignore[union-attr]
    words = {str(row[0]): row[1] for row in tables["search"].rows}
    assert "CartPole-v1: 22.5 is 0, 475 is 1" in str(words["score on several tasks"])
    assert "the first task and one tuning seed" in str(words["seeds of a configuration"])


def _winners_epochs(sweep: StoredSweep) -> Any:
    selection = read_selection(sweep.paths)
    assert selection is not None
    return read_trials(sweep.paths)[selection.winner].parameters["algorithm.n_epochs"]


def test_one_number_on_all_surfaces(stored: StoredSweep) -> None:
    """`rlexp best` has the scores of the report; optimism is in normalised units."""
    result = best("made_up", workspace=stored.study.folder)
    tables = tables_of(stored)
    rows = [(m.label, m.trial, m.phase, len(m.scores), m.planned, m.mean) for m in result.scores]
    assert rows == [row[:6] for row in tables["winner-scores"].rows]
    assert result.optimism is not None
    # The same seeds in all phases, and a score that depends on the seed alone.
    assert result.optimism.estimate == pytest.approx(0)


def test_a_failed_test_run_is_visible_and_no_score(tmp_path: Path) -> None:
    """A run that fails on one task is missing there, and its seed has no mean over the tasks."""

    def fails(spec: RunSpec) -> float | None:
        broken = spec.phase is Phase.TEST and spec.seed == 1
        return None if broken and spec.environment["id"] == "Acrobot-v1" else score_on_task(spec)

    sweep = replace(on_tasks(tmp_path), score=fails)
    sweep.go_on()
    tables = tables_of(sweep)
    counts = {(row[0], row[5], row[6]) for row in tables["winner-tasks"].rows}
    assert {("CartPole-v1", 3, 3), ("Acrobot-v1", 2, 3), ("Pendulum-v1", 3, 3)} == counts
    tested = [row for row in tables["winner-scores"].rows if row[2] == "test"]
    assert {(2, 3)} == {row[3:5] for row in tested}


def test_the_choice_knows_no_test_score(tmp_path: Path) -> None:
    """Test scores that are upside down change neither the winner nor a finalist."""

    def misleading(spec: RunSpec) -> float:
        return -score_on_task(spec) if spec.phase is Phase.TEST else score_on_task(spec)

    usual, reverse = on_tasks(tmp_path / "a"), on_tasks(tmp_path / "b")
    usual.go_on()
    replace(reverse, score=misleading).go_on()
    assert read_selection(usual.paths) == read_selection(reverse.paths)


def test_a_sweep_by_ranks_has_no_test_rank(tmp_path: Path) -> None:
    """Ranks choose the winner; its test scores are shown by task, and no mean of them is made up."""
    sweep = on_tasks(tmp_path, "sweep.normalisation=ranks", "sweep.screening_tasks=3")
    sweep.go_on()
    selection = read_selection(sweep.paths)
    assert selection is not None
    assert "best mean rank on 3 tasks × 2 selection seeds" in selection.rule
    epochs = {t.number: t.parameters["algorithm.n_epochs"] for t in read_trials(sweep.paths)}
    assert max(epochs.values()) == epochs[selection.winner]
    tables = tables_of(sweep)
    assert not [row for row in tables["winner-scores"].rows if row[2] == "test"]
    assert {(3, 3)} == {row[5:7] for row in tables["winner-tasks"].rows}
    caution = best("made_up", workspace=sweep.study.folder).caution
    assert caution is not None
    assert "A test score has no rank" in caution


def test_every_reader_takes_the_sweep(stored: StoredSweep) -> None:
    """Status, show, compare, and report read it, before its end and after it."""
    for command in (
        "status made_up",
        "show made_up",
        "compare made_up",
        "report made_up",
        "ls",
        "best made_up --format args",
    ):
        answer = typed(stored.study.folder, *shlex.split(command))
        assert (0, command) == (answer.code, command), answer.err
    begun = on_tasks(stored.study.folder / "begun")
    begun.go_on(SweepStage.TEST, runs=12)
    answer = typed(begun.study.folder, "status", "made_up")
    assert (0, True) == (answer.code, "of 3 tasks" in answer.out or "of 1 task" in answer.out)


def test_the_words_of_the_best_trial_name_all_tasks(stored: StoredSweep) -> None:
    """`--format args` leads to the winner on each task; a file with one environment is refused."""
    answer = typed(stored.study.folder, "best", "made_up", "--format", "args")
    assert ON_TASKS in shlex.split(answer.out)
    for option in (["--save", "mine"], ["--format", "yaml"], ["--format", "rl-zoo"]):
        refused = typed(stored.study.folder, "best", "made_up", *option)
        assert 2 == refused.code
        assert "one environment, and made_up has 3 tasks" in refused.err
        assert 1 == len(refused.err.strip().splitlines())
    refused = typed(stored.study.folder, "ablate", "made_up")
    assert "made_up has 3 tasks, and an ablation is on one" in refused.err


def test_the_winner_is_trained_again_on_all_or_some_tasks(stored: StoredSweep) -> None:
    """Without words on all tasks with the test seeds of the sweep; changed, with other test seeds."""

    def again(*overrides: str) -> tuple[list[str], int, str]:
        experiment = request_trial_again(
            SweepTrial("made_up", None), overrides, stored.study
        ).experiment
        tasks = [configuration.task for configuration in experiment.configurations]
        return tasks, experiment.seeds.root, experiment.name

    tasks, root, name = again()
    assert (list(TASKS), 0) == (tasks, root)
    assert (["Acrobot-v1"], 0, f"{name}-Acrobot-v1") == again("environment=acrobot")
    assert (list(TASKS), 1) == again("algorithm.gamma=0.5")[:2]
    assert (["MountainCar-v0"], 0) == again("environment=mountain_car")[:2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["environment=cartpole,cartpole"], "the task cartpole is there twice"),
        (["environment=cartpole,reacher", "sweep.objective=auc"], "does not fit several tasks"),
        (["environment.reference.random=1"], "environment.reference.random is of one task"),
        (["environment.id=CartPole-v0"], "environment.id is of one task"),
        (["sweep.screening_tasks=4"], "is more than the 3 tasks: give 1 … 3"),
        (["sweep.screening_tasks=2", "sweep.allocation=fixed"], "is for screening"),
        (["sweep.normalisation=ranks", "sweep.allocation=racing"], "compares the scores of runs"),
        (["sweep.normalisation=ranks", "pruner=median"], "compares whole trials"),
        (["sweep.normalisation=scores"], "must be 'anchors' or 'ranks'"),
        (["sweep.screening_episodes=1"], "is for a sweep on one task"),
        (["sweep.steps=600"], "is less than one trial on 3 tasks"),
        (["environment.vector.count=1,2"], "keeps its environments as they are"),
        (["environment=cartpole", "sweep.normalisation=ranks"], "is for a sweep on several tasks"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, words: list[str], message: str
) -> None:
    """Each mistake about tasks is one line that names the key, before anything is written."""
    sweep = on_tasks(tmp_path, *words)
    with pytest.raises(ConfigError) as caught:
        read_sweep(None, sweep.words, sweep.study)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not sweep.paths.folder.exists()


def test_a_task_without_anchors_is_refused_unless_ranks_compare(tmp_path: Path) -> None:
    """A task that declares no threshold needs ranks, and the message names both ways out."""
    file = tmp_path / "conf" / "environment" / "bare.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("defaults: [gymnasium, _self_]\nid: MountainCar-v0\n")
    with pytest.raises(ConfigError, match="MountainCar-v0 has no anchors") as caught:
        read_sweep(None, on_tasks(tmp_path, "environment=cartpole,bare").words, _study(tmp_path))
    assert "sweep.normalisation=ranks" in str(caught.value)
    ranked = on_tasks(tmp_path, "environment=cartpole,bare", "sweep.normalisation=ranks")
    read = read_sweep(None, ranked.words, ranked.study)
    assert 2 == read.experiment.tasks


def _study(folder: Path) -> Any:
    return on_tasks(folder).study


def test_an_algorithm_that_cannot_train_a_task_is_refused(tmp_path: Path) -> None:
    """DQN has no continuous actions: the sweep is refused before any run, and names the task."""
    words = [
        *("sweep", ON_TASKS, "algorithm=dqn", "algorithm.gamma=interval(0.9,0.99)"),
        "budget.steps=1000",
    ]
    answer = typed(tmp_path, *words)
    assert 2 == answer.code
    assert "the actions of Pendulum-v1 are Box, but DQN needs Discrete" in answer.err
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").glob("*/trials.jsonl"))


def test_the_mirror_names_the_tasks(stored: StoredSweep) -> None:
    """The Optuna study has the task of each run, and its value is called a normalised score."""
    definition = read_experiment(stored.paths).sweep
    assert definition is not None
    assert ("normalised score, all tasks and tuning seeds",) == metric_names(definition)
    mirrored = mirrored_sweep(stored.go_on(), "made_up")
    by_state = {trial.state: trial for trial in mirrored.trials}
    assert [*TASKS, *TASKS, *TASKS] == by_state["complete"].attributes["tasks"]
    assert [TASKS[0]] == by_state["pruned"].attributes["tasks"]
    assert "screened by 1 of 9 runs" in by_state["pruned"].attributes["reason"]
