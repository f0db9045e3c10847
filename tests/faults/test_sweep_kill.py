"""A sweep that is killed several times and repeated has the same trials, winner and tests."""

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_full import IN_FULL, long
from last_words import last_words
from outcomes import check_same_run
from studies import StudyFolder, new_study, wait_until

from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_run
from rlexp.store.sweeps import read_trials

WORDS = (
    "algorithm=ppo",
    "environment=cartpole",
    "algorithm.n_steps=64",
    "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))",
    "algorithm.n_epochs=int(interval(1, 8))",
    "budget.steps=640",
    "budget.evaluation_every=128",
    "budget.evaluation_episodes=3",
    "budget.final_episodes=5",
    "tuner=tpe",
    "tuner.startup=3",
    "pruner=median",
    "pruner.startup_trials=2",
    "sweep.trials=8",
    "sweep.lag=2",
    "seeds.tuning=2",
    "seeds.selection=1",
    "seeds.test=2",
)


def results_of(study: StudyFolder, name: str) -> dict[str, Any]:
    """The trials, the selection and the runs of a sweep."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    return {
        "trials": [(t.parameters, t.steps, t.refused) for t in read_trials(paths)],
        "selection": read_json(paths.selection),
        "runs": {run.folder.name: read_run(run).record for run in paths.runs()},
    }


@long
@pytest.mark.slow
@pytest.mark.parametrize("dice", range(7) if IN_FULL else [0])
def test_a_killed_sweep_ends_as_one_that_ran_through(tmp_path: Path, dice: int) -> None:
    """A sweep killed at three random moments has the trials, choice and weights of a control."""
    draw = random.Random(dice)
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give("sweep", *WORDS, "experiment=control")
        assert code == 0, output
        for _ in range(3):
            command = study.start("sweep", *WORDS, "experiment=killed")
            wait_until(partial(has_progressed, study, len(study.events("killed", "ended"))))
            time.sleep(draw.random())
            command.kill()
            command.wait()
        code, output = study.give("sweep", *WORDS, "experiment=killed")
        assert code == 0, output
        control, killed = results_of(study, "control"), results_of(study, "killed")
        assert control["trials"] == killed["trials"]
        assert control["selection"] == killed["selection"]
        assert control["runs"].keys() == killed["runs"].keys()
        for name, record in control["runs"].items():
            check_same_run(record, killed["runs"][name])
        assert not study.processes()


def has_progressed(study: StudyFolder, before: int) -> bool:
    """Whether two more runs have ended, or so many that the sweep is near its end."""
    ended = study.events("killed", "ended")
    return len(ended) >= before + 2 or len([e for e in ended if e["weights"]]) >= 12


@long
def test_a_finished_sweep_does_nothing_and_refuses_to_choose_again(tmp_path: Path) -> None:
    """A repeat runs nothing, more test seeds are run, and more trials are refused."""
    with new_study(tmp_path / "study", warm=True) as study:
        assert (
            study.give("sweep", *last_words(*WORDS, "experiment=once", "sweep.trials=3"))[0] == 0
        )
        before = len(study.events("once", "ended"))
        code, output = study.give(
            "sweep", *last_words(*WORDS, "experiment=once", "sweep.trials=3")
        )
        assert (0, before) == (code, len(study.events("once", "ended"))), output
        assert "nothing to run" in output
        code, output = study.give(
            "sweep", *last_words(*WORDS, "experiment=once", "sweep.trials=3", "seeds.test=3")
        )
        assert code == 0, output
        assert len(study.events("once", "ended")) in {before + 1, before + 2}
        code, output = study.give(
            "sweep", *last_words(*WORDS, "experiment=once", "sweep.trials=9")
        )
        assert (2, True) == (code, "has chosen its winner" in output), output
        code, output = study.give("run", "experiment=once")
        assert (2, True) == (code, "is a sweep" in output), output
