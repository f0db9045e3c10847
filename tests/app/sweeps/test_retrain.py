"""A trial of a sweep becomes an experiment of its own, changed by any override."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import give, give_json, typed
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, finished_sweep, stored_sweep

from rlexp.app.commands.order.move import move
from rlexp.app.commands.setup.configuration import show_configuration
from rlexp.app.execution.request import RunRequest
from rlexp.app.sweeps.retrain import SweepTrial, request_trial_again
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_definition, write_experiment
from rlexp.store.sweeps import read_selection, read_trials

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def stored(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    """A finished sweep with the root 0."""
    return finished_sweep(tmp_path, tmp_path_factory)


def requested(sweep: StoredSweep, *overrides: str, trial: int | None = None) -> RunRequest:
    """The request of `rlexp run --from-sweep` with these overrides."""
    return request_trial_again(SweepTrial("made_up", trial), overrides, sweep.study)


def winner(sweep: StoredSweep) -> tuple[int, Configuration]:
    """The number and the configuration of the winner."""
    selection = read_selection(sweep.paths)
    assert selection is not None
    configuration = read_trials(sweep.paths)[selection.winner].configuration
    assert configuration is not None
    return selection.winner, configuration


def refusal(sweep: StoredSweep, overrides: Sequence[str]) -> str:
    """The one-line error of a refused request."""
    with pytest.raises(ConfigError) as caught:
        requested(sweep, *overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_winner_is_trained_on_another_task(stored: StoredSweep) -> None:
    """Another environment keeps the hyperparameters, and the name says where they come from."""
    number, tuned = winner(stored)
    experiment = requested(stored, "environment=acrobot").experiment
    (configuration,) = experiment.configurations
    assert tuned.algorithm == configuration.algorithm
    assert tuned.budget.defining() == configuration.budget.defining()
    assert "Acrobot-v1" == configuration.task
    assert f"tuned {number}" == configuration.label
    assert experiment.name.startswith(f"made_up-trial-{number}-Acrobot-v1-ppo-")


def test_a_grid_on_top_of_the_winner_has_a_label_for_each_choice(stored: StoredSweep) -> None:
    """Several values give one configuration each, and the labels name the values."""
    number, _ = winner(stored)
    configurations = requested(stored, "algorithm.gamma=0.5,0.6").experiment.configurations
    assert [f"tuned {number} gamma=0.5", f"tuned {number} gamma=0.6"] == [
        c.label for c in configurations
    ]


def test_different_words_have_different_names(stored: StoredSweep) -> None:
    """Two changes of a trial never compete for one name."""
    words = ("algorithm.gamma=0.5", "algorithm.gamma=0.6", "environment=acrobot")
    names = {requested(stored, word).experiment.name for word in words}
    assert 4 == len({*names, requested(stored).experiment.name})
    assert "mine" == requested(stored, words[0], "experiment=mine").experiment.name


@pytest.mark.parametrize("words", [(), ("algorithm.gamma=0.5",), ("environment=acrobot",)])
def test_an_experiment_keeps_its_name_after_its_sweep_is_renamed(
    stored: StoredSweep, words: tuple[str, ...]
) -> None:
    """The same command with the new name of the sweep continues the experiment that exists."""
    before = requested(stored, *words).experiment
    write_experiment(ExperimentPaths(stored.study.layout.root / before.name), before)
    move("made_up", "renamed", stored.study)
    after = request_trial_again(SweepTrial("renamed", None), words, stored.study).experiment
    assert (before.name, before.fingerprint) == (after.name, after.fingerprint)
    other = request_trial_again(SweepTrial("renamed", 0), words, stored.study).experiment
    assert other.name.startswith("renamed-trial-0")


def test_a_changed_trial_does_not_use_the_test_seeds_of_its_sweep(stored: StoredSweep) -> None:
    """On the task of the sweep, changed hyperparameters get other test seeds."""
    assert 1 == requested(stored, "algorithm.gamma=0.5").experiment.seeds.root
    assert 7 == requested(stored, "algorithm.gamma=0.5", "seeds.root=7").experiment.seeds.root
    error = refusal(stored, ["algorithm.gamma=0.5", "seeds.root=0"])
    assert "choose a seeds.root other than 0" in error


def test_another_task_and_the_trial_itself_keep_the_seeds_of_the_sweep(
    stored: StoredSweep,
) -> None:
    """The same seeds are used on another task, and for words that change nothing."""
    number, tuned = winner(stored)
    assert 0 == requested(stored, "environment=acrobot").experiment.seeds.root
    same = requested(stored, f"algorithm.n_epochs={tuned.algorithm['n_epochs']}", "seeds.test=4")
    (configuration,) = same.experiment.configurations
    assert (0, f"made_up-trial-{number}", tuned.fingerprint) == (
        same.experiment.seeds.root,
        same.experiment.name,
        configuration.fingerprint,
    )


def test_before_the_selection_no_word_uses_the_test_seeds(tmp_path: Path) -> None:
    """Before the winner is selected, the test seeds stay unused on every task."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(until=SweepStage.SEARCH)
    for words in (["environment=acrobot"], ["algorithm.gamma=0.5"], []):
        assert 1 == requested(sweep, *words).experiment.seeds.root
    assert "has not chosen its winner" in refusal(sweep, ["environment=acrobot", "seeds.root=0"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm=a2c"], "are those of algorithm=ppo; leave algorithm=a2c out"),
        (["algorithm=a2c,ppo"], "are those of algorithm=ppo"),
        (["+benchmark=cartpole"], "benchmark has no place here; leave +benchmark=cartpole out"),
        (["tuner=random"], "tuner has no place here"),
        (["sweep.trials=3"], "sweep has no place here"),
        (["algorithm.gama=0.5"], "did you mean 'algorithm.gamma"),
        (["environment=acrobat"], "did you mean 'acrobot'"),
    ],
)
def test_words_without_a_meaning_are_refused(
    stored: StoredSweep, words: list[str], message: str
) -> None:
    """A word that cannot change a trial is refused in one line."""
    assert message in refusal(stored, words)


def test_the_origin_is_recorded_and_read_back(stored: StoredSweep) -> None:
    """The record names sweep, trial, selection and changes, and changes no identity."""
    number, tuned = winner(stored)
    words = ("environment=acrobot", "seeds.test=2", "budget.steps=200", "budget.timeout=9")
    experiment = requested(stored, *words).experiment
    paths = ExperimentPaths(stored.study.layout.root / experiment.name)
    write_experiment(paths, experiment)
    origin = read_definition(paths).origin
    assert origin is not None
    assert ("made_up", number, True) == (origin.sweep, origin.trial, origin.winner)
    assert sha256(stored.paths.selection.read_bytes()).hexdigest() == origin.selection
    assert tuned.fingerprint == origin.fingerprint
    assert ("environment=acrobot", "budget.steps=200") == origin.changes
    assert read_definition(paths).fingerprint == experiment.fingerprint
    document = json.loads(paths.definition.read_text())
    paths.definition.write_text(json.dumps({**document, "origin": None}))
    assert read_definition(paths).fingerprint == experiment.fingerprint


def test_show_names_the_origin(stored: StoredSweep) -> None:
    """`show` has the trial and its changes, as text and as JSON."""
    number, _ = winner(stored)
    experiment = requested(stored, "environment=acrobot").experiment
    write_experiment(ExperimentPaths(stored.study.layout.root / experiment.name), experiment)
    line = f"Made from trial {number} of made_up, its winner, with environment=acrobot"
    assert line in give(stored.study.folder, "show", experiment.name)
    document = give_json(stored.study.folder, "experiment-details", "show", experiment.name)
    assert number == document["origin"]["trial"]


def test_config_show_has_the_configuration_that_is_trained(stored: StoredSweep) -> None:
    """`config show --from-sweep` shows the hyperparameters, the task and the seeds of the run."""
    _, tuned = winner(stored)
    words = ["algorithm.gamma=0.5"]
    shown = show_configuration(words, stored.study, SweepTrial("made_up", None))
    (resolved,) = shown.configurations
    settings = resolved.configuration
    assert tuned.algorithm["learning_rate"] == settings["algorithm"]["learning_rate"]
    assert (0.5, 1) == (settings["algorithm"]["gamma"], settings["seeds"]["root"])
    printed = give(
        stored.study.folder,
        *("config", "show", "--from-sweep", "made_up", "--trial", "0", "environment=acrobot"),
    )
    assert "id: Acrobot-v1" in printed
    failed = typed(stored.study.folder, "config", "show", "--trial", "0")
    assert (2, 1) == (failed.code, failed.err.count("\n"))
