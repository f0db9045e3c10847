"""Plans are measured by probes where it is worth it, and refused where a learner cannot be built."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from finished_runs import study

from rlexp.app.execution import probes
from rlexp.app.execution.estimate import Basis
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.probes import Costs, find_costs
from rlexp.app.execution.request import read_request
from rlexp.app.observer import SilentObserver
from rlexp.errors import ConfigError
from rlexp.executors.local import Local
from rlexp.protocol.spec import RunSpec

MEASURED = {"start": 1.0, "step": 0.01, "update": 0.02, "episode": 0.5, "spread": 1.3}
MEASURED |= {"episode_spread": 2.0, "model": 1000, "gradient": 0.015}
PROBE_FROM = probes.PROBE_FROM
"""The limit that users have, read before tests/conftest.py changes it."""


@pytest.fixture(autouse=True)
def _as_users_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and the usual limit from which on a plan is probed."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(probes, "PROBE_FROM", PROBE_FROM)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the algorithms of each series of probes, which measure at once."""
    series: list[list[str]] = []

    def measure(specs: Sequence[RunSpec], *_: Any) -> dict[str, list[dict[str, Any]]]:
        series.append([spec.algorithm["plug_in"]["name"] for spec in specs])
        return {
            spec.fingerprint: [{"error": "no", "built": False}]
            if spec.algorithm.get("replay_buffer_kwargs")
            else [MEASURED]
            for spec in specs
        }

    monkeypatch.setattr(probes, "_probe", measure)
    return series


def costs(folder: Path, *words: str, probing: bool | None = None) -> tuple[Costs, list[RunSpec]]:
    """The costs of the runs of a command, and the runs."""
    asked = read_request(words, study(folder))
    launch = LaunchSettings(executor=asked.executor, threads=1, operational={}, command=())
    specs = asked.specs()
    return find_costs(specs, launch, study(folder), SilentObserver(), probing=probing), specs


SHORT = ("algorithm=ppo", "budget.steps=2048", "seeds.test=2")
LONG = ("algorithm=ppo,sac", "environment=pendulum", "budget.steps=1_000_000", "seeds.test=2")


def test_a_short_plan_is_not_probed(tmp_path: Path, probed: list[list[str]]) -> None:
    """A plan of seconds starts at once; --probe measures it all the same."""
    assert Basis.GUESS is next(iter(costs(tmp_path, *SHORT)[0].rates.values())).basis
    assert [] == probed
    known, (spec, *_) = costs(tmp_path, *SHORT, probing=True)
    assert [["ppo"]] == probed
    assert (0.01, Basis.PROBE) == (
        known.rates[spec.fingerprint].step,
        known.rates[spec.fingerprint].basis,
    )


def test_a_long_plan_is_probed_once(tmp_path: Path, probed: list[list[str]]) -> None:
    """Each configuration is probed once, the costly one first, and then the cache is read."""
    assert {} == costs(tmp_path, *LONG, probing=False)[0].refused
    assert [] == probed
    costs(tmp_path, *LONG)
    costs(tmp_path, *LONG)
    assert [["sac", "ppo"]] == probed


def test_what_cannot_be_built_is_refused(tmp_path: Path, probed: list[list[str]]) -> None:
    """The refusal names algorithm and task, and nothing is kept of such a probe."""
    words = (*LONG[1:], "algorithm=sac", "algorithm.replay_buffer_kwargs={fast: 1}")
    for _ in range(2):
        found, specs = costs(tmp_path, *words)
        with pytest.raises(ConfigError, match="sac on Pendulum-v1 cannot be built: no"):
            found.check(specs)
    assert [["sac"]] * 2 == probed


def test_a_command_probes_a_long_plan_unasked(tmp_path: Path, probed: list[list[str]]) -> None:
    """A command without `--probe` measures a long plan, and says so; with `--no-probe`, it does not."""
    words = ("run", *LONG, "--dry-run")
    assert "Measuring for some seconds" not in rlexp(tmp_path, *words, "--no-probe").err
    assert [] == probed
    assert "Measuring for some seconds" in rlexp(tmp_path, *words).err
    assert [["sac", "ppo"]] == probed


def test_a_probe_that_dies_leaves_a_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that died after the learner was built refuses nothing."""
    monkeypatch.setattr(
        probes,
        "_probe",
        lambda specs, *_: {s.fingerprint: [{"error": "killed", "built": True}] for s in specs},
    )
    found, specs = costs(tmp_path, *LONG)
    found.check(specs)
    assert {Basis.GUESS} == {rates.basis for rates in found.rates.values()}


def test_a_real_probe_measures_and_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run probes in another process, leaves out what cannot be built, and writes no run."""
    monkeypatch.chdir(tmp_path)
    words = ("algorithm=dqn", "algorithm.replay_buffer_kwargs=null,{fast: 1}", "seeds.test=1")
    plan = rlexp(tmp_path, "run", *words, "--dry-run", "--probe", "--json").document("run-plan")
    assert (1, True, "probe") == (plan["runs"], plan["measured"], plan["basis"])
    assert plan["seconds_low"] < plan["seconds"] < plan["seconds_high"]
    (cell,) = plan["refused"]
    assert "change algorithm.replay_buffer_kwargs.fast" in cell["reason"]
    with pytest.raises(ConfigError, match=r"dqn on CartPole-v1 cannot be built: .*fast"):
        rlexp(tmp_path, "run", *words, "--probe")
    assert [] == list(tmp_path.glob("runs/*"))


def test_finished_runs_replace_the_first_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a run, a plan of the same configuration is measured, with another budget and seed."""
    monkeypatch.chdir(tmp_path)
    words = ["algorithm=ppo", "algorithm.n_steps=64", "budget.final_episodes=8", "seeds.test=1"]
    evaluated = ["budget.evaluation_every=128", "budget.evaluation_episodes=8"]
    plan = ["run", *words, *evaluated, "budget.steps=2560", "seeds.root=7", "--dry-run", "--json"]
    before = rlexp(tmp_path, *plan, "--no-probe").document("run-plan")
    rlexp(tmp_path, "run", *words, *evaluated, "budget.steps=512")
    after = rlexp(tmp_path, *plan, "--no-probe").document("run-plan")
    assert ("guess", "runs") == (before["basis"], after["basis"])


def test_the_folder_of_a_killed_command_is_removed_by_the_next_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed while it probes leaves a folder, which does not stay for ever."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    words = ["run", *SHORT, "--dry-run", "--probe", "--quiet"]
    command = subprocess.Popen([sys.executable, "-m", "rlexp", *words], cwd=tmp_path)
    while not (abandoned := list(temporary.glob("rlexp-probe-*/0-0/request.json"))):
        assert command.poll() is None
        time.sleep(0.02)
    command.kill()
    command.wait()
    assert abandoned[0].exists()
    # The next probe: its processes are left out, which takes most of its time.
    monkeypatch.setattr(Local, "open", lambda *_, **__: nullcontext())
    monkeypatch.setattr(probes, "_execute", lambda *_: None)
    costs(tmp_path, *SHORT, probing=True)
    assert [] == list(temporary.glob("rlexp-probe-*"))


def test_the_command_itself_imports_no_learning_library() -> None:
    """Torch takes seconds and much memory, so only the processes of probes and runs import it."""
    code = "import sys; import rlexp.app.commands.train.run; print('torch' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "False\n" == printed.stdout
