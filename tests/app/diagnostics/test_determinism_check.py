"""`rlexp doctor --determinism` trains twice and names the cause if the numbers differ."""

import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from finished_runs import Finished, prepared, study
from in_full import long
from quick_parts import quick_parts
from samples import write_tree
from warm_processes import warm_up

from rlexp.app.commands.setup.doctor import doctor
from rlexp.app.diagnostics import repeating
from rlexp.app.diagnostics.determinism import (
    check_environment_repeats,
    explain_traces,
    first_difference,
    read_target,
)
from rlexp.app.diagnostics.finding import Finding, FindingStatus
from rlexp.app.diagnostics.repeating import CURES, execute
from rlexp.cli.setup.doctor import doctor as command
from rlexp.config.compose import compose
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import local

quick = pytest.fixture(autouse=True)(quick_parts)

HERE = Path(__file__).parents[1]
SMALL = ("algorithm.n_steps=32", "algorithm.batch_size=16", "algorithm.n_epochs=1")
DEPENDING = {
    "Clock": "rewards differ at step 0, with equal seeds and actions: it reads the clock",
    "Date": "rewards differ at step 0, with equal seeds and actions: it reads the clock",
    "LateClock": "rewards differ at step 10, with equal seeds and actions: it reads the clock",
    "OwnGenerator": "it draws from a separate generator that the system seeds",
    "PythonGenerator": "it draws from a separate generator that the system seeds",
    "ClockAndGenerator": "it reads the clock, and draws from a separate generator",
    "Remembering": "neither the clock nor the system's entropy explains it",
}


def words(name: str) -> tuple[str, ...]:
    """The configuration of one of the environments."""
    module = "unrepeatable_environments"
    return (
        "environment=gymnasium",
        f"environment.id='{module}:unrepeatable/{name}-v0'",
    )


@cache
def configured() -> dict[str, Any]:
    """The configuration of the steady environment as plain data."""
    (composed,) = compose(words("Steady"), HERE)
    settings: dict[str, Any] = composed.plain["environment"]
    return settings


def environment(name: str) -> dict[str, Any]:
    """The configuration of an environment as plain data."""
    return {**configured(), "id": f"unrepeatable_environments:unrepeatable/{name}-v0"}


def finding_about(name: str, folder: Path) -> Finding:
    """The finding about an environment that is played in this process."""
    request = {"environment": environment(name), "allowed": []}
    (folder / "request.json").write_text(json.dumps(request))
    for cure in CURES:
        execute([str(folder), cure, f"own-{cure}"])
    traces = {path.stem: json.loads(path.read_text()) for path in folder.glob("own-*.json")}
    equal_traces = dict.fromkeys(("again", "hashed"), traces["own-nothing"])
    return explain_traces({**traces, **equal_traces})


def diagnosed(
    trained: Sequence[str], folder: Path, *allowed: str
) -> tuple[bool, dict[str, dict[str, str]]]:
    """Whether a check failed, and the findings by the name of their check."""
    diagnosis = doctor(None, study(folder, *allowed), trained=trained)
    return diagnosis.failed, {f.check: asdict(f) for f in diagnosis.findings}


@pytest.fixture
def short_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit plays to a few episodes."""
    monkeypatch.setattr(repeating, "STEPS", 30)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork server processes from a warm process, so that they import nothing again."""
    warm_up(monkeypatch, local)


@pytest.mark.parametrize(("name", "expected"), DEPENDING.items(), ids=DEPENDING)
@pytest.mark.usefixtures("short_plays")
def test_the_cause_of_an_environment_that_does_not_repeat_is_named(
    name: str, expected: str, tmp_path: Path
) -> None:
    """An environment that does not repeat fails the check, which names the cause."""
    result = finding_about(name, tmp_path)
    assert FindingStatus.FAIL is result.status
    assert expected in result.detail
    assert result.fix


@pytest.mark.parametrize("name", ["Steady", "GlobalGenerator"])
def test_environments_that_repeat_pass(name: str, tmp_path: Path) -> None:
    """An environment passes if its numbers depend only on generators that the training seeds."""
    result = finding_about(name, tmp_path)
    assert FindingStatus.OK is result.status
    assert "repeats over 500 steps" in result.detail


@pytest.mark.usefixtures("short_plays")
def test_clock_and_entropy_are_restored_after_a_play(tmp_path: Path) -> None:
    """After a play, the clock and the entropy of the system are the real ones."""
    finding_about("ClockAndGenerator", tmp_path)
    assert abs(time.time() - (tmp_path / "own-both.json").stat().st_mtime) < 60.0
    assert random.Random().random() != random.Random().random()


def test_dependence_on_the_order_of_a_set_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with another hash seed shows that an environment depends on string hashes."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    result = check_environment_repeats(environment("Names"), (), tmp_path, tmp_path)
    assert FindingStatus.FAIL is result.status
    assert "between two processes" in result.detail
    assert "the order of a set of strings" in result.detail


@pytest.mark.usefixtures("warm")
def test_environment_that_cannot_be_played(tmp_path: Path) -> None:
    """An environment that cannot be started fails the check."""
    settings = {**environment("Steady"), "id": "nowhere:Missing-v0"}
    result = check_environment_repeats(settings, (), tmp_path, tmp_path)
    assert FindingStatus.FAIL is result.status
    assert "cannot be played twice" in result.detail


def test_the_first_difference_is_located() -> None:
    """The first differing value is named with its step; resets do not count as steps."""
    step = ["o", "r", "f", "f"]
    trace = [["s"], step, step, ["s"], step]
    assert first_difference(trace, trace) is None
    assert "observations differ at the reset after 0 steps" == first_difference(trace, [["x"]])
    assert "observations differ at the reset after 2 steps" == first_difference(
        trace, [["s"], step, step, ["x"]]
    )
    assert "terminated differ at step 2" == first_difference(
        trace, [["s"], step, step, ["s"], ["o", "r", "t", "f"]]
    )


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        ((), 6144),
        (SMALL, 200),
        (("algorithm=a2c", "environment.vector.count=64"), 960),
        (("algorithm=dqn",), 300),
        (("budget.steps=77",), 77),
        (("budget.steps=1e3", "budget.evaluation_every=10"), 1000),
    ],
    ids=str,
)
def test_the_budget_is_shortened(overrides: tuple[str, ...], steps: int, tmp_path: Path) -> None:
    """The budget is shortened to a few updates unless overrides set its steps."""
    target = read_target(overrides, study(tmp_path))
    assert steps == target.spec.budget["steps"]
    expected = 10 if "budget.evaluation_every=10" in overrides else steps // 2
    assert expected == target.spec.budget["evaluation_every"]


def test_a_run_is_checked_by_its_name(tmp_path: Path) -> None:
    """A check of a named run uses the seed and the settings of that run."""
    run = prepared(tmp_path, *SMALL, "seeds.test=[7]", "budget.evaluation_deterministic=false")
    target = read_target([run.name, "budget.timeout=5"], run.study)
    assert 7 == target.spec.seed
    assert 32 == target.spec.algorithm["n_steps"]
    assert not target.spec.budget["evaluation_deterministic"]
    assert (200, 5.0) == (target.spec.budget["steps"], target.timeout)


TWO_TASKS = """\
tasks:
  cartpole: {algorithms: {ppo: {}, a2c: {}}}
  acrobot: {algorithms: {ppo: {}, a2c: {}}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A recorded run in a workspace with a benchmark."""
    folder = tmp_path_factory.mktemp("a study")
    write_tree(folder, {"conf/benchmark/two_tasks.yaml": TWO_TASKS})
    return prepared(folder, *SMALL)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("algorithm=ppo,a2c",),
            "one configuration at a time is checked, and the overrides select 2 ",
        ),
        (
            ("+benchmark=two_tasks",),
            r"select 4 \(ppo on CartPole-v1, .*…\): choose a single one with .*algorithm=ppo",
        ),
        (("tiny", "algorithm=a2c"), "together with the name of a run, only budget.steps="),
        (("tiny", "budget.score=auc"), "together with the name of a run, only budget.steps="),
        (("tiny", "budget.steps=0"), "budget.steps=0 must be a number greater than 0"),
        (("algorithm.n_stps=5",), "did you mean 'algorithm.n_steps=5'"),
    ],
    ids=str,
)
def test_overrides_that_select_no_single_training_are_refused(
    overrides: tuple[str, ...], message: str, run: Finished
) -> None:
    """Overrides that do not select exactly one training are refused."""
    arguments = [run.name if word == "tiny" else word for word in overrides]
    with pytest.raises(ConfigError, match=message):
        read_target(arguments, run.study)


def test_code_named_by_run_files_needs_permission(tmp_path: Path) -> None:
    """Code that only the files of a run name is not imported without permission."""
    write_tree(tmp_path, {"named_by_a_run.py": "raise SystemExit('imported')\n"})
    run = prepared(tmp_path, *SMALL)
    spec = json.loads(run.paths.spec.read_text())
    spec["environment"]["imports"] = ["named_by_a_run"]
    run.paths.spec.write_text(json.dumps(spec))
    with pytest.raises(RecordError, match=r"was changed"):
        read_target([run.name], run.study)
    other = prepared(tmp_path / "odd", *SMALL, "environment.imports=[statistics]")
    with pytest.raises(RecordError, match=r"--allow-import statistics"):
        read_target([other.name], other.study)


def check_that_trainings_repeat(folder: Path) -> None:
    """Check the findings about a learner that reaches the same weights each time."""
    failed, result = diagnosed([*SMALL], folder)
    assert not failed
    assert {"ok"} == {finding["status"] for finding in result.values()}
    assert "equal weights" in result["trainings"]["detail"]
    assert "equal under another PYTHONHASHSEED" == result["hash seed"]["detail"]


@pytest.mark.usefixtures("warm")
def test_trainings_that_repeat(tmp_path: Path) -> None:
    """A learner on CartPole reaches the same weights in separate processes."""
    check_that_trainings_repeat(tmp_path)


@pytest.mark.slow
@long
def test_trainings_that_share_nothing_repeat(tmp_path: Path) -> None:
    """A learner on CartPole reaches the same weights in processes that share no memory."""
    check_that_trainings_repeat(tmp_path)


@pytest.mark.usefixtures("warm")
def test_trainings_that_differ_because_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings have the first difference and name the environment as its cause."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    failed, result = diagnosed([*words("Clock"), *SMALL], tmp_path)
    assert failed
    assert "they differ at step 32, " in result["trainings"]["detail"]
    assert "it reads the clock" in result["environment"]["detail"]
    assert not {"learner", "hash seed", "threads"} & set(result)


@pytest.mark.slow
@long
def test_trainings_that_differ_under_another_hash_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainings that agree but differ under another hash seed fail the check."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    failed, result = diagnosed([*words("Names"), *SMALL], tmp_path)
    assert failed
    assert ("ok", "fail", "fail") == tuple(
        result[check]["status"] for check in ("trainings", "hash seed", "environment")
    )


LEARNER = """\
import os
from dataclasses import asdict, dataclass

from rlexp.algorithms.ppo import PPO


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaken(PPO):
    def build(self, *arguments, **settings):
        model = PPO.build(self, *arguments, **settings)
        parameter = next(model.policy.parameters())
        parameter.data += int.from_bytes(os.urandom(4)) / 2**32
        return model
"""


@pytest.mark.usefixtures("warm")
def test_a_learner_that_does_not_repeat_is_named(tmp_path: Path) -> None:
    """The finding names the learner if only the environment repeats."""
    write_tree(tmp_path, {"shaken_learner.py": LEARNER})
    target = "algorithm._target_=shaken_learner.Shaken"
    failed, result = diagnosed([*SMALL, target], tmp_path, "shaken_learner")
    assert failed
    assert ("fail", "ok", "fail") == tuple(
        result[check]["status"] for check in ("trainings", "environment", "learner")
    )
    assert "torch's deterministic algorithms change nothing" in result["learner"]["detail"]


@pytest.mark.usefixtures("warm")
def test_trainings_that_take_too_long(tmp_path: Path) -> None:
    """A training that exceeds its time fails the check, with a setting that allows more time."""
    failed, result = diagnosed(["budget.timeout=0.2"], tmp_path)
    assert failed
    assert "6,144 steps took more than 0.2 s" in result["trainings"]["detail"]
    assert "budget.timeout=2" in result["trainings"]["fix"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arguments": ["algorithm=ppo"]}, "'algorithm=ppo' has no meaning without --determinism"),
        ({"environment": "cartpole", "determinism": True}, "are separate checks: give only one"),
    ],
    ids=["words alone", "both checks"],
)
def test_options_that_exclude_one_another(options: dict[str, Any], message: str) -> None:
    """Overrides without --determinism and two checks in one command are refused."""
    with pytest.raises(ConfigError, match=message):
        command(**options)
