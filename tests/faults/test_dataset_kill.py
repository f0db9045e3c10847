"""A run that starts from a dataset continues after a kill in each of its stages, with the same numbers."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("minari", reason="needs minari[hdf5]")
pytest.importorskip("h5py", reason="needs minari[hdf5]")

from in_full import IN_FULL
from last_words import last_words
from recorded_data import record
from studies import StudyFolder, new_study, wait_until

from rlexp.engine.run_in_flight import read_progress

ARGUMENTS = (
    *("environment=pendulum", "dataset=minari", "dataset.id=pendulum/random-v0"),
    *("dataset.offline_steps=1000", "budget.steps=600", "seeds.test=1", "agent.network=[16]"),
    *("budget.evaluation_every=300", "budget.evaluation_episodes=1", "budget.final_episodes=2"),
    *("algorithm.learning_starts=100", "algorithm.batch_size=16", "budget.checkpoint_every=100"),
)
MIXED = ("dataset.use=mix", "replay=prior_data", "replay.source=dataset", "replay.share=0.5")
CASES = {
    "sac": ("algorithm=sac",),
    "td3 with mixed data": ("algorithm=td3", *MIXED),
    "crossq": ("algorithm=crossq",),
}
if not IN_FULL:
    CASES = {"sac": CASES["sac"]}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudyFolder]:
    """A study with a dataset of random actions."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    record("pendulum/random-v0")
    with new_study(tmp_path / "study", warm=True) as study:
        yield study


def kill_once(study: StudyFolder, reached: Callable[[], bool], *arguments: str) -> None:
    """Start the command, and kill all its processes once a state is reached."""
    command = study.start("run", "experiment=killed", *arguments)
    wait_until(reached, 120.0)
    for process in [psutil.Process(command.pid), *study.processes()]:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    wait_until(lambda: not study.processes(), 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_both_stages_continue_bit_for_bit(case: str, study: StudyFolder) -> None:
    """A run killed on its data, and again in its environment, ends with the weights of the control."""
    arguments = last_words(*ARGUMENTS, *CASES[case])
    code, output = study.give("run", "experiment=control", *arguments)
    assert 0 == code, output
    runs = study.folder / "runs" / "killed"

    def on_data() -> bool:
        return any(runs.glob("*/checkpoints/0/manifest.json"))

    def in_environment() -> bool:
        paths = [*runs.glob("*/attempts/2/progress.bin")]
        return bool(paths) and read_progress(paths[0])[0] >= 300

    kill_once(study, on_data, *arguments)
    kill_once(study, in_environment, *arguments)
    code, output = study.give("run", "experiment=killed", *arguments)
    assert 0 == code, output
    continued = [event["step"] for event in study.events("killed", "continued")]
    assert 0 == continued[0], study.events("killed", "refused")
    assert continued[1] >= 100
    weights = {event["weights"] for event in study.events("control", "ended")}
    assert weights == {event["weights"] for event in study.events("killed", "ended")}
    final = {
        name: [e["returns"] for e in study.events(name, "evaluated") if e["final"]]
        for name in ("control", "killed")
    }
    assert final["control"] == final["killed"]
