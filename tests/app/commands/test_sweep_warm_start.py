"""`sweep.warm_start`: sweeps that begin from the trials of earlier ones."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import configuration, stored, study
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.sweeps.request import read_sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.earlier_sweeps import EarlierSweep
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.trial import TrialOrigin

quick = pytest.fixture(autouse=True)(quick_parts)

WARM = "sweep.warm_start=[first]"


def earlier_sweep(folder: Path, *words: str) -> StoredSweep:
    """A finished sweep that is named `first`."""
    warm = stored_sweep(folder, *words)
    warm.go_on()
    assert "first" in rlexp(folder, "mv", "made_up", "first").out
    return warm


def taken_over(warm: StoredSweep) -> EarlierSweep:
    """What the sweep takes over from its only earlier one."""
    (earlier,) = read_sweep(None, warm.words, warm.study).sweep.earlier
    return earlier


@pytest.mark.parametrize("tuner", ["random", "tpe", "smac", "cma_es"])
def test_the_best_earlier_trials_go_first(tmp_path: Path, tuner: str) -> None:
    """The three best trials of the earlier sweep are trials 1 to 3, its winner is trial 1."""
    first = earlier_sweep(tmp_path)
    entries = json.loads((first.study.layout.experiment("first").selection).read_text())
    warm = stored_sweep(tmp_path, WARM, f"tuner={tuner}", "environment=acrobot")
    source = warm.go_on()
    proposals = [entry.proposal for entry in source.search.entries]
    lines = (tmp_path / "runs" / "first" / "trials.jsonl").read_text().splitlines()
    assert json.loads(lines[entries["winner"]])["parameters"] == proposals[1].parameters
    assert [TrialOrigin.EARLIER] * 3 == [p.origin for p in proposals[1:4]]
    # The score of the samples rises with the epochs.
    epochs = [p.parameters["algorithm.n_epochs"] for p in proposals[1:4]]
    assert sorted(epochs, reverse=True) == epochs
    assert source.selection is not None


def test_standings_are_ranks(tmp_path: Path) -> None:
    """The standing of a trial is its mean rank, from the screening or all tuning seeds, over the trials."""
    earlier_sweep(tmp_path)
    earlier = taken_over(stored_sweep(tmp_path, WARM))
    standings = [trial.standing for trial in earlier.trials]
    assert sorted(standings, reverse=True) == standings
    assert 8 / 2 == pytest.approx(sum(standings))
    epochs = [trial.parameters["algorithm.n_epochs"] for trial in earlier.trials]
    assert sorted(epochs, reverse=True) == epochs


def test_test_and_selection_seeds_do_not_enter(tmp_path: Path) -> None:
    """Without the runs on selection and test seeds of the earlier sweep, the same is taken over."""
    first = earlier_sweep(tmp_path)
    paths = first.study.layout.experiment("first")
    before = taken_over(stored_sweep(tmp_path, WARM))
    other = [s for s in first.made if s.phase is not Phase.TUNING]
    assert {Phase.SELECTION, Phase.TEST} == {s.phase for s in other}
    for spec in other:
        shutil.rmtree(paths.run(spec.name).folder)
    assert before == taken_over(stored_sweep(tmp_path, WARM))


def test_what_is_taken_over_is_frozen(tmp_path: Path) -> None:
    """The earlier sweep may disappear after the sweep has begun: same trials, same definition."""
    earlier_sweep(tmp_path / "kept")
    earlier_sweep(tmp_path / "gone")
    proposed = []
    for name in ("kept", "gone"):
        warm = stored_sweep(tmp_path / name, WARM, "tuner=smac", "tuner.startup=3")
        warm.go_on(runs=2)
        definition = warm.paths.definition.read_text()
        assert "standing" in definition
        if name == "gone":
            shutil.rmtree(warm.study.layout.experiment("first").folder)
        answer = rlexp(tmp_path / name, "sweep", *warm.words, "--dry-run", "--json")
        assert 0 == answer.code, answer.err
        ended = warm.go_on()
        assert definition == warm.paths.definition.read_text()
        proposed.append([entry.proposal.parameters for entry in ended.search.entries])
    assert proposed[0] == proposed[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is no experiment 'frist'"),
        (["sweep.warm_start=[made_up]"], "must name other sweeps, each once"),
        (["sweep.warm_start=[first,first]"], "must name other sweeps, each once"),
        (
            [WARM, "algorithm.n_epochs=3"],
            "searches other parameters: it also has algorithm.n_epochs",
        ),
        (
            [WARM, "algorithm.gamma=interval(0.9,0.99)"],
            "searches other parameters: it lacks algorithm.gamma",
        ),
        ([WARM, "sweep.objective=auc"], "has sweep.objective=score, and this sweep has auc"),
        ([WARM, "sweep.objective=[score,auc]"], "ranks need one objective"),
        ([WARM, "tuner=grid", "algorithm.learning_rate=0.1,0.2"], "does not fit tuner=grid"),
        (
            [WARM, "algorithm.n_epochs=int(interval(30,40))"],
            "no trial with a tuning score in this",
        ),
    ],
)
def test_earlier_sweeps_that_do_not_fit_are_refused(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], message: str
) -> None:
    """An earlier sweep that says nothing about this search is one line, before anything trains."""
    folder = tmp_path_factory.mktemp("refused")
    earlier_sweep(folder)
    warm = stored_sweep(folder, *(words or ["sweep.warm_start=[frist]"]))
    with pytest.raises(RlexpError, match=r"sweep\.warm_start") as error:
        read_sweep(None, warm.words, warm.study)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not warm.paths.folder.exists()


def test_a_sweep_without_scores_is_refused(tmp_path: Path) -> None:
    """An earlier sweep whose trials all failed is refused."""

    def never(_: RunSpec) -> None:
        """No score."""

    failed = stored_sweep(tmp_path, score=never)
    failed.go_on(until=SweepStage.SEARCH)
    rlexp(tmp_path, "mv", "made_up", "first")
    with pytest.raises(ConfigError, match="first has no trial with a tuning score"):
        read_sweep(None, stored_sweep(tmp_path, WARM).words, failed.study)


def test_experiments_that_are_no_sweeps_are_refused(tmp_path: Path) -> None:
    """An experiment of `rlexp run` has no trials."""
    stored(study(tmp_path).layout, "first", configuration())
    with pytest.raises(ConfigError, match="first is not a sweep"):
        read_sweep(None, stored_sweep(tmp_path, WARM).words, study(tmp_path))
