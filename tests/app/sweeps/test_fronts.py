"""Sweeps of several objectives, on disk: the front, the choice, the phases and every reader."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import fsum
from pathlib import Path
from typing import Any

import pytest
from command_line import give_json, typed
from front_samples import energy_of, front_sweep, score_of
from last_words import last_words
from quick_parts import quick_parts
from stored_sweeps import StoredSweep

from rlexp.api import best
from rlexp.app.reporting.build import make_report
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.app.sweeps.request import read_sweep
from rlexp.config.report_settings import read_report
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.selection import Selection
from rlexp.reports.drawing.blocks import LineFigure, ReportDocument, ScatterFigure, Table
from rlexp.stats.pareto import default_reference, front_of, hypervolume
from rlexp.store.files import read_json
from rlexp.store.sweeps import read_selection, read_trials

quick = pytest.fixture(autouse=True)(quick_parts)
BOUND = "sweep.choose={constraint: {energy: 100}}"


@cache
def _finished_at(folder: Path) -> StoredSweep:
    sweep = front_sweep(folder, BOUND)
    sweep.go_on()
    return sweep


@pytest.fixture
def stored(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    """A finished sweep of score and energy in a folder of its own; it is made once and copied."""
    return _finished_at(tmp_path_factory.getbasetemp() / "finished front").copied_to(tmp_path)


def selection_of(sweep: StoredSweep) -> Selection:
    """The selection on disk."""
    selection = read_selection(sweep.paths)
    assert selection is not None
    return selection


def report_of(sweep: StoredSweep) -> ReportDocument:
    """The report about the winner and the front."""
    evidence = collect_evidence(["made_up"], Phase.TEST, sweep.study)
    parts = read_report(["section=[winner,front,trials]"], sweep.study.folder, ())
    return make_report(evidence, parts)


def blocks_of(sweep: StoredSweep, kind: type[Any]) -> dict[str, Any]:
    """The blocks of one kind in the report, by name."""
    every: list[Any] = [block for part in report_of(sweep).parts for block in part.blocks]
    return {block.name: block for block in every if isinstance(block, kind)}


def values_of(sweep: StoredSweep, number: int, phase: Phase, seeds: int) -> tuple[float, float]:
    """The mean score and energy of a trial in a phase, from the functions that made them up."""
    trial = read_trials(sweep.paths)[number].configuration
    assert trial is not None
    specs = [trial.spec(phase, 0, seed) for seed in range(seeds)]
    scores = [score_of(spec) for spec in specs]
    return fsum(scores) / seeds, fsum(energy_of(s)["energy"] for s in specs) / seeds


def oriented(values: tuple[float, float]) -> tuple[float, float]:
    """Greater is better: more score, less energy."""
    return values[0], -values[1]


def test_the_selection_holds_the_front_and_the_rule(stored: StoredSweep) -> None:
    """The front is what no finalist dominates on selection seeds; the bound chooses one of it."""
    selection = selection_of(stored)
    assert selection.front is not None
    assert ("score", "energy") == selection.front.objectives
    every = {
        f.number: values_of(stored, f.number, Phase.SELECTION, 2) for f in selection.finalists
    }
    expected = front_of([oriented(each) for each in every.values()])
    assert sorted(list(every)[k] for k in expected) == list(selection.front.numbers)
    for member in selection.front.members:
        assert every[member.number] == pytest.approx(member.selection)
        assert values_of(stored, member.number, Phase.TUNING, 3) == pytest.approx(member.tuning)
    kept = {number: each for number, each in every.items() if each[1] <= 100}
    assert max(kept, key=lambda number: kept[number][0]) == selection.winner
    assert selection.rule.startswith(
        "the best score with energy at most 100 (means on 2 selection"
    )
    document = read_json(stored.paths.definition)
    assert {"constraint": {"energy": 100}} == document["sweep"]["plan"]["choose"]


def test_finalists_are_the_front_of_all_trials_on_tuning_seeds(stored: StoredSweep) -> None:
    """No trial dominates a finalist on tuning seeds, and the cheapest and the best one are among them."""
    every = [
        oriented(values_of(stored, t.number, Phase.TUNING, 3)) for t in read_trials(stored.paths)
    ]
    front = front_of(every)
    finalists = [f.number for f in selection_of(stored).finalists]
    assert 4 == len(finalists) < len(front)
    assert set(finalists) < set(front)


def test_the_whole_front_runs_on_test_seeds_and_nothing_else_does(stored: StoredSweep) -> None:
    """Each policy of the front and the default has every test seed."""
    selection = selection_of(stored)
    assert selection.front is not None
    tested = {*selection.front.numbers, 0}
    by_fingerprint = {
        t.configuration.fingerprint: t.number
        for t in read_trials(stored.paths)
        if t.configuration is not None
    }
    runs = [(by_fingerprint[s.fingerprint], s.seed) for s in stored.made if s.phase is Phase.TEST]
    assert {(number, seed) for number in tested for seed in range(3)} == set(runs)
    assert len(runs) == len(set(runs))


def test_the_choice_knows_no_test_score(tmp_path: Path) -> None:
    """Scores and energies that are upside down on test seeds change nothing that was chosen."""

    def misleading(spec: RunSpec) -> float:
        return -score_of(spec) if spec.phase is Phase.TEST else score_of(spec)

    def costly(spec: RunSpec) -> Mapping[str, float]:
        return {"energy": 1e6} if spec.phase is Phase.TEST else energy_of(spec)

    usual, reverse = front_sweep(tmp_path / "a"), front_sweep(tmp_path / "b")
    usual.go_on()
    replace(reverse, score=misleading, measured=costly).go_on()
    assert selection_of(usual) == selection_of(reverse)


@pytest.mark.parametrize("tuner", ["nsga2", "tpe"])
def test_a_sweep_that_stopped_after_every_run_ends_equally(tmp_path: Path, tuner: str) -> None:
    """Rebuilt from its records after every few runs, a sweep has the same trials and selection."""
    words = [f"tuner={tuner}", "sweep.trials=14", f"tuner.{_SMALL[tuner]}"]
    whole = front_sweep(tmp_path / "whole", *words)
    whole.go_on()
    cut = front_sweep(tmp_path / "cut", *words)
    for count in range(5, len(whole.made) + 5, 5):
        cut.go_on(runs=count)
    assert whole.paths.selection.read_bytes() == cut.paths.selection.read_bytes()
    parameters = [[t.parameters for t in read_trials(s.paths)] for s in (whole, cut)]
    assert parameters[0] == parameters[1]


_SMALL = {"nsga2": "population=4", "tpe": "startup=5"}


def test_the_hypervolume_over_trials_is_that_of_the_records(stored: StoredSweep) -> None:
    """Each point of the curve is the volume of the trials so far above the frozen reference point."""
    every = [
        oriented(values_of(stored, t.number, Phase.TUNING, 3)) for t in read_trials(stored.paths)
    ]
    reference = default_reference(every)
    front = selection_of(stored).front
    assert front is not None
    assert oriented((front.reference[0], front.reference[1])) == pytest.approx(reference)
    line = blocks_of(stored, LineFigure)["front-hypervolume"].lines[0]
    expected = [hypervolume(every[: k + 1], reference) for k in range(len(every))]
    assert list(line.y) == pytest.approx(expected)
    assert tuple(map(float, range(1, len(every) + 1))) == line.x


def test_a_declared_reference_point_is_used(tmp_path: Path) -> None:
    """The declared point is frozen in the selection, and the rule says that it was declared."""
    sweep = front_sweep(tmp_path, "sweep.reference_point={score: 0, energy: 300}")
    sweep.go_on()
    front = selection_of(sweep).front
    assert front is not None
    assert ((0.0, 300.0), "declared as sweep.reference_point") == (
        front.reference,
        front.reference_rule,
    )


def test_the_report_has_each_policy_in_each_phase(stored: StoredSweep) -> None:
    """Means, runs and volumes of the tables are those of the records."""
    selection = selection_of(stored)
    assert selection.front is not None
    tables = blocks_of(stored, Table)
    seeds = {"tuning": 3, "selection": 2, "test": 3}
    rows = tables["front-policies"].rows
    assert len(rows) == 3 * len({*selection.front.numbers, 0})
    for name, _, phase, n, planned, score, energy in rows:
        number = int(str(name).rstrip(")").rpartition(" ")[2])
        expected = values_of(stored, number, Phase(phase), seeds[phase])
        assert (seeds[phase], seeds[phase]) == (n, planned)
        assert expected == pytest.approx((score.estimate, energy.estimate))
    (volume,) = [row for row in tables["front-volumes"].rows if row[0] == "test"]
    by_seed = []
    for seed in range(3):
        points = [
            oriented((score_of(spec), energy_of(spec)["energy"]))
            for spec in stored.made
            if spec.phase is Phase.TEST and spec.seed == seed
        ]
        reference = oriented((selection.front.reference[0], selection.front.reference[1]))
        by_seed.append(hypervolume(points, reference))
    # The default configuration is on this front, so that all test runs are of its policies.
    assert 0 in selection.front.numbers
    assert fsum(by_seed) / 3 == pytest.approx(volume[3].estimate)
    assert 3 == volume[4]


def test_the_pictures_show_every_seed(stored: StoredSweep) -> None:
    """The picture of a phase has a point for each run, and one for the mean of each policy."""
    figures = blocks_of(stored, ScatterFigure)
    selection = selection_of(stored)
    assert selection.front is not None
    count = len(selection.front.numbers)
    for phase, seeds in (("selection", 2), ("test", 3)):
        clouds = {cloud.label: cloud for cloud in figures[f"front-{phase}"].clouds}
        assert seeds * count == len(clouds.pop("one seed").x)
        assert count == sum(len(cloud.x) for cloud in clouds.values())
    assert 12 == sum(len(cloud.x) for cloud in figures["front-trials"].clouds)


def test_a_failed_test_run_is_visible(tmp_path: Path) -> None:
    """A policy with a failed run has fewer runs, its seed has no volume, and the picture says so."""

    def fails(spec: RunSpec) -> float | None:
        broken = spec.phase is Phase.TEST and spec.seed == 1 and spec.algorithm["n_epochs"] == 16
        return None if broken else score_of(spec)

    sweep = replace(front_sweep(tmp_path), score=fails)
    sweep.go_on()
    tables = blocks_of(sweep, Table)
    lacking = [row for row in tables["front-policies"].rows if row[3] < row[4]]
    assert [(2, 3)] == [row[3:5] for row in lacking]
    (volume,) = [row for row in tables["front-volumes"].rows if row[0] == "test"]
    assert 2 == volume[4]
    assert "has 2 of 3 runs" in blocks_of(sweep, ScatterFigure)["front-test"].note


def test_a_finalist_with_a_failed_selection_run_is_not_on_the_front(tmp_path: Path) -> None:
    """It stays a finalist with fewer scores, and is not tested."""

    def fails(spec: RunSpec) -> float | None:
        broken = spec.phase is Phase.SELECTION and spec.seed == 1
        return None if broken and spec.algorithm["n_epochs"] == 5 else score_of(spec)

    sweep = replace(front_sweep(tmp_path), score=fails)
    sweep.go_on()
    selection = selection_of(sweep)
    assert selection.front is not None
    (broken,) = [f.number for f in selection.finalists if len(f.selection) < 2]
    assert broken not in selection.front.numbers
    assert "3 finalists" in selection.rule


def test_a_finalist_that_another_one_dominates_on_selection_seeds_is_not_tested(
    tmp_path: Path,
) -> None:
    """What looked cheap on tuning seeds and is dear on selection seeds leaves the front."""

    def lucky(spec: RunSpec) -> Mapping[str, float]:
        dear = spec.phase is Phase.SELECTION and spec.algorithm["n_epochs"] == 5
        return {"energy": 1e6} if dear else energy_of(spec)

    sweep = replace(front_sweep(tmp_path), measured=lucky)
    sweep.go_on()
    selection = selection_of(sweep)
    assert selection.front is not None
    finalists = {f.number for f in selection.finalists}
    (left,) = finalists - set(selection.front.numbers)
    assert 5 == read_trials(sweep.paths)[left].parameters["algorithm.n_epochs"]
    assert not [s for s in sweep.made if s.phase is Phase.TEST and s.algorithm["n_epochs"] == 5]
    (row,) = [
        r
        for r in blocks_of(sweep, Table)["front-policies"].rows
        if r[0] == f"trial {left}" and r[2] == "selection"
    ]
    assert "no" == row[1]


def test_the_spread_over_seeds_is_an_objective_of_a_front(tmp_path: Path) -> None:
    """No single run has a spread: the value over all seeds is shown, and no volume of one seed."""
    sweep = front_sweep(tmp_path, "sweep.objective=[score,spread]", "seeds.selection=2")
    sweep.go_on()
    tables = blocks_of(sweep, Table)
    tested = [row for row in tables["front-policies"].rows if row[2] == "test"]
    # The score of a made-up run is a number of its configuration plus its seed.
    assert {(3, 3, 1.0)} == {(row[3], row[4], row[6]) for row in tested}
    assert [None] == [row[3] for row in tables["front-volumes"].rows if row[0] == "test"]
    assert "1.00" in typed(tmp_path, "best", "made_up").out


def test_two_stages_promote_by_fronts(tmp_path: Path) -> None:
    """Screened trials are promoted front by front, so that the cheapest one gets all seeds, too."""
    sweep = front_sweep(
        tmp_path, "sweep.allocation=two_stage", "sweep.promoted=0.2", "sweep.trials=20"
    )
    sweep.go_on(SweepStage.SELECTION)
    trials = read_trials(sweep.paths)
    screened = [oriented(values_of(sweep, t.number, Phase.TUNING, 1)) for t in trials]
    finalists = {f.number for f in selection_of(sweep).finalists}
    cheapest = max(front_of(screened), key=lambda k: screened[k][1])
    assert {max(range(20), key=lambda k: screened[k][0]), cheapest} <= finalists


def test_an_older_sweep_ends_as_it_began(tmp_path: Path) -> None:
    """A definition without a rule of choice keeps its winner by the first objective, without a front."""
    sweep = front_sweep(tmp_path)
    sweep.go_on(SweepStage.SEARCH)
    document = json.loads(sweep.paths.definition.read_text())
    assert "first" == document["sweep"]["plan"].pop("choose")
    sweep.paths.definition.write_text(json.dumps(document))
    sweep.go_on()
    selection = selection_of(sweep)
    assert selection.front is None
    assert "best mean score on 2 selection seeds" in selection.rule


def test_the_rule_is_part_of_the_definition(stored: StoredSweep) -> None:
    """The same name with another rule is another sweep; the same command again changes nothing."""
    same = read_sweep(None, stored.words, stored.study)
    merge_with_existing_sweep(stored.paths, same.experiment, same.request.plan)
    words = [*(w for w in stored.words if w != BOUND), "sweep.choose=knee"]
    other = read_sweep(None, words, stored.study)
    with pytest.raises(Exception, match="exists with another definition"):
        merge_with_existing_sweep(stored.paths, other.experiment, other.request.plan)


def test_a_measure_without_a_direction_is_refused(tmp_path: Path) -> None:
    """A front needs to know which direction of each measure is better."""
    words = [w for w in front_sweep(tmp_path).words if not w.startswith("environment.measures")]
    with pytest.raises(ConfigError) as caught:
        read_sweep(None, words, front_sweep(tmp_path).study)
    assert "sweep.objective=energy: nothing says whether lower values are better" in str(
        caught.value
    )


def test_hours_are_planned_for_one_objective(tmp_path: Path) -> None:
    """`rlexp plan --hours` rests on searches for one best score, and refuses a front in one line."""
    words = last_words(*front_sweep(tmp_path).words, "sweep.objective=[score,auc]")
    answer = typed(tmp_path, "plan", "--hours", "2", "--no-probe", *words)
    assert (2, 1) == (answer.code, len(answer.err.strip().splitlines()))
    assert "--hours plans a search for the best score, and sweep.objective names 2" in answer.err


def test_every_reader_takes_the_front(stored: StoredSweep) -> None:
    """Status, show, best and report give the front as text and as JSON, with the same numbers."""
    folder = stored.study.folder
    for command in (
        "status made_up",
        "show made_up",
        "show made_up --full",
        "report made_up",
        "ls",
    ):
        answer = typed(folder, *shlex.split(command))
        assert (0, command) == (answer.code, command), answer.err
    front = selection_of(stored).front
    assert front is not None
    status = give_json(folder, "experiment-details", "show", "made_up")["sweep"]["front"]
    assert (list(front.numbers), True) == (status["trials"], status["frozen"])
    rows = give_json(folder, "best", "best", "made_up")["front"]["policies"]
    table = blocks_of(stored, Table)["front-policies"].rows
    assert [row[5].estimate for row in table] == [r["means"]["score"]["estimate"] for r in rows]
    of_api = best("made_up", workspace=folder).front
    assert of_api is not None
    volumes = {v.phase: v.of_means for v in of_api.hypervolumes}
    assert volumes == {row[0]: row[2] for row in blocks_of(stored, Table)["front-volumes"].rows}
    assert "Front: " in typed(folder, "show", "made_up").out
    notices = give_json(folder, "report-files", "report", "made_up")["notices"]
    assert any(notice["text"].startswith("The front of made_up by") for notice in notices)


def test_every_reader_takes_a_search_in_progress(tmp_path: Path) -> None:
    """Before the choice, the front is that on tuning seeds so far, and readers say so."""
    sweep = front_sweep(tmp_path)
    sweep.go_on(runs=20)
    for command in ("status made_up", "show made_up", "best made_up", "report made_up"):
        answer = typed(tmp_path, *shlex.split(command))
        assert (0, command) == (answer.code, command), answer.err
    status = give_json(tmp_path, "experiment-details", "show", "made_up")["sweep"]["front"]
    assert not status["frozen"]
    assert "may still change" in str(report_of(sweep))
