"""`rlexp sweep --try`: trials that the user proposes while a sweep searches."""

import json
from pathlib import Path

import pytest
from command_line import rlexp
from last_words import last_words
from quick_parts import quick_parts
from stored_sweeps import WORDS, StoredSweep, stored_sweep

from rlexp.app.commands.look.status import status
from rlexp.app.sweeps.request import Configurer, read_sweep
from rlexp.app.sweeps.tries import new_tries, read_tries
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.records.trial import TrialOrigin
from rlexp.store.sweeps import read_trials

quick = pytest.fixture(autouse=True)(quick_parts)


def enter(stored: StoredSweep, source: SweepSource, *words: str) -> list[int]:
    """What a command with these `--try` does: the numbers of the trials that it enters."""
    configurer = Configurer(read_sweep(None, stored.words, stored.study), stored.study, {})
    return [source.enter(each) for each in new_tries(read_tries(words, configurer), source)]


@pytest.mark.parametrize("tuner", ["random", "tpe", "smac", "cma_es"])
def test_a_tried_configuration_is_the_next_trial(tmp_path: Path, tuner: str) -> None:
    """The configuration is the next trial, is marked as such on disk and in status, and can win."""
    stored = stored_sweep(tmp_path, f"tuner={tuner}")
    begun = stored.go_on(runs=3)
    count = len(begun.search.entries)
    assert [count] == enter(stored, begun, "algorithm.n_epochs=20 algorithm.learning_rate=0.01")
    trial = read_trials(stored.paths)[count]
    assert {"algorithm.n_epochs": 20, "algorithm.learning_rate": 0.01} == trial.parameters
    assert TrialOrigin.TRIED is trial.origin
    ended = stored.go_on()
    assert ended.selection is not None
    assert count in {finalist.number for finalist in ended.selection.finalists}
    assert 8 == len(ended.search.entries)
    (experiment,) = status("made_up", stored.study).experiments
    assert experiment.sweep is not None
    assert {count: TrialOrigin.TRIED} == {
        t.number: t.origin for t in experiment.sweep.latest if t.origin is not None
    }
    assert f"trial {count} (from --try) complete" in rlexp(tmp_path, "status", "made_up").out


def test_the_report_names_tried_trials(tmp_path: Path) -> None:
    """The section about the search names the trials that come from --try."""
    stored = stored_sweep(tmp_path)
    enter(stored, stored.go_on(runs=3), "algorithm.n_epochs=20")
    stored.go_on()
    rlexp(
        tmp_path,
        "report",
        "made_up",
        "--format",
        "md",
        "--set",
        "section=[protocol]",
        "--output",
        "out",
    )
    text = "\n".join(file.read_text() for file in (tmp_path / "out").rglob("*.md"))
    assert "configurations from --try" in text


def test_the_same_command_again_enters_nothing(tmp_path: Path) -> None:
    """A command that was killed between two entries enters only the second one when it is repeated."""
    words = ("algorithm.n_epochs=20", "algorithm.n_epochs=19")
    stored = stored_sweep(tmp_path)
    assert [3] == enter(stored, stored.go_on(runs=3), words[0])
    # A line without its end is what a kill during the entry leaves.
    before = stored.paths.trials.read_bytes()
    stored.paths.trials.write_bytes(before + b'{"schema":2,"number":4,"par')
    again = stored.go_on(runs=3)
    assert [4] == enter(stored, again, *words)
    assert [] == enter(stored, stored.go_on(runs=3), *words)
    assert 5 == len(read_trials(stored.paths))


def test_a_sweep_that_has_not_begun_tries_after_the_default(tmp_path: Path) -> None:
    """In a new sweep, the default and the enqueued configurations come first."""
    stored = stored_sweep(tmp_path, "sweep.enqueue=[{algorithm.n_epochs: 2}]")
    assert [2] == enter(stored, stored.go_on(runs=0), "algorithm.n_epochs=20")
    origins = [trial.origin for trial in read_trials(stored.paths)]
    assert [None, TrialOrigin.ENQUEUED, TrialOrigin.TRIED] == origins
    assert 8 == len(stored.go_on().search.entries)


def test_interruptions_after_a_try_change_nothing(tmp_path: Path) -> None:
    """After a tried trial, a sweep in one piece and one in many pieces suggest the same."""
    proposed = []
    for pieces in ((), (4, 5, 7)):
        stored = stored_sweep(tmp_path / str(len(pieces)), "tuner=tpe", "tuner.startup=2")
        enter(stored, stored.go_on(runs=3), "algorithm.n_epochs=20")
        for runs in pieces:
            stored.go_on(runs=runs)
        stored.go_on()
        proposed.append([trial.parameters for trial in read_trials(stored.paths)])
    assert proposed[0] == proposed[1]


def test_no_trial_after_the_choice(tmp_path: Path) -> None:
    """After the selection, a new configuration is refused, and one that is a trial already is not."""
    stored = stored_sweep(tmp_path)
    ended = stored.go_on(until=SweepStage.TEST)
    assert ended.selection is not None
    parameters = ended.search.entries[5].proposal.parameters
    tried = " ".join(f"{key}={value!r}" for key, value in parameters.items())
    assert [] == enter(stored, ended, tried)
    with pytest.raises(RecordError, match="has chosen its winner"):
        enter(stored, ended, "algorithm.n_epochs=13")


def test_limits_of_the_search_hold(tmp_path: Path) -> None:
    """A trial beyond sweep.trials is refused with the words that allow it."""
    stored = stored_sweep(tmp_path)
    searched = stored.go_on(until=SweepStage.SEARCH)
    with pytest.raises(ConfigError, match=r"add sweep\.trials=9 or more"):
        enter(stored, searched, "algorithm.n_epochs=13")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--try", "algorithm.gama=0.9"], "--try: algorithm.gama is not searched"),
        (
            ["--try", "algorithm.n_epochs=99"],
            "algorithm.n_epochs=99 is outside of the space: 1 to",
        ),
        (["--try", "algorithm.n_epochs"], "must be KEY=VALUE"),
        (["--try", "algorithm.n_epochs=1,2"], "has several values of algorithm.n_epochs"),
        (["--try", "'a"], "cannot be read: No closing quotation"),
        (["--try", "algorithm.n_epochs=3", "tuner=dehb"], "--try does not fit tuner=dehb"),
        (["--try", "algorithm.n_epochs=3", "tuner=grid"], "--try does not fit tuner=grid"),
    ],
)
def test_bad_tries_are_refused_on_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    """A wrong configuration is one line, before anything is written."""
    kept = [word for word in WORDS if not (word.startswith("tuner=") and words[2:])]
    with pytest.raises(ConfigError) as error:
        rlexp(tmp_path, "sweep", *kept, *words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs" / "made_up").exists()


def test_a_real_sweep_trains_what_is_tried(tmp_path: Path) -> None:
    """A sweep that really trains runs the tried configuration first, and its repeat does nothing."""
    words = ("quick", "budget.steps=64", "algorithm.n_steps=32", "algorithm.batch_size=32")
    few = (
        "sweep.trials=2",
        "seeds.tuning=1",
        "seeds.selection=0",
        "seeds.test=1",
        "experiment=tried",
    )
    command = (*words, *few, "budget.final_episodes=1", "--try", "algorithm.gamma=0.95", "--json")
    first = json.loads(rlexp(tmp_path, "sweep", *command).out)
    assert 2 == first["trials"]["complete"]
    trials = (tmp_path / "runs" / "tried" / "trials.jsonl").read_text().splitlines()
    assert [None, "try"] == [json.loads(line).get("origin") for line in trials]
    again = json.loads(rlexp(tmp_path, "sweep", *command).out)
    assert 0 == again["ran"]


@pytest.mark.parametrize("tuner", ["random", "smac", "cma_es"])
def test_the_guess_is_tried_first(tmp_path: Path, tuner: str) -> None:
    """With a prior, trial 1 is the guess, and later trials from the prior are marked."""
    space = "sweep.space.algorithm.n_epochs={values: 'int(interval(1, 20))', prior: {guess: 18, width: 0.01}}"
    kept = [word for word in WORDS if not word.startswith("algorithm.n_epochs=")]
    stored = stored_sweep(tmp_path, f"tuner={tuner}", "sweep.trials=12")
    stored.words = [*last_words(*kept, f"tuner={tuner}", "sweep.trials=12"), space]
    source = stored.go_on()
    proposals = [entry.proposal for entry in source.search.entries]
    assert 18 == proposals[1].parameters["algorithm.n_epochs"]
    drawn = [p for p in proposals if p.origin is TrialOrigin.PRIOR]
    assert len(drawn) > 2
    assert {18} == {p.parameters["algorithm.n_epochs"] for p in drawn}
    assert len(drawn) < len(proposals) - 1
