"""The helper of training scripts: what it reads and writes, and how a killed script continues."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from rlexp import trainer
from rlexp.trainer import (
    CHECKED,
    CHECKS,
    CONFIGURATION,
    RESULTS,
    AskedSettings,
    NotARunError,
    Trainer,
)


class Corridor:
    """An environment whose episode has as many steps as its seed modulo 3, plus 1."""

    def reset(self, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode."""
        self.left = (seed or 0) % 3 + 1
        return self.left, {}

    def step(self, action: float) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Go a step; the reward is the action."""
        self.left -= 1
        return self.left, action, self.left == 0, False, {}


def run_of(folder: Path, attempt: int = 1) -> Trainer:
    """A run of 100 steps with an evaluation every 50."""
    configuration = {
        "run": {"attempt": attempt},
        "seed": 7,
        "seeds": {"evaluation": [1, 2, 3]},
        "budget": {
            "steps": 100, "evaluation_every": 50, "evaluation_episodes": 1, "final_episodes": 2,
        },
        "task": "Corridor",
        "settings": {"lr": 0.1},
        "folder": str(folder),
    }  # fmt: skip
    return Trainer(configuration, folder / f"results-{attempt}.jsonl")


def lines_of(run: Trainer) -> list[dict[str, Any]]:
    """What a run has reported."""
    return [json.loads(line) for line in run.results.read_text().splitlines()]


def test_a_script_reads_its_run_and_reports(tmp_path: Path) -> None:
    """Settings, seeds and steps are read; metrics, evaluations and a sign of life are written."""
    run = run_of(tmp_path)
    assert (100, 7, "Corridor", 0.1) == (run.steps, run.seed, run.task, run.settings["lr"])
    run.report(10, loss=0.5)
    run.report(20)
    run.evaluate(Corridor(), lambda _: 1.0, 50)
    run.evaluate(Corridor, lambda _: 2.0, 100, final=True)
    run.evaluated(100, [1], success=[1, None])
    assert lines_of(run) == [
        {"step": 10, "metrics": {"loss": 0.5}},
        {"step": 20},
        {"step": 50, "returns": [2.0], "lengths": [2]},
        {"step": 100, "returns": [2.0, 2.0], "lengths": [1, 1], "final": True},
        {"step": 100, "returns": [1.0], "measures": {"success": [1, None]}},
    ]


def test_evaluations_are_due_once(tmp_path: Path) -> None:
    """An evaluation is due at the first step asked at or after each multiple, not at the end."""
    run = run_of(tmp_path)
    assert [50] == [step for step in (0, 20, 50, 60, 99, 100) if run.is_due(step)]


def test_a_killed_script_continues_from_its_last_complete_checkpoint(tmp_path: Path) -> None:
    """A save that was killed does not count; the next attempt reports from where it continues."""
    first = run_of(tmp_path)
    assert first.restored() is None
    first.checkpoint(30, lambda path: path.write_text("thirty"))
    first.checkpoint(60, lambda path: path.write_text("sixty"))

    def killed(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.checkpoint(90, killed)
    second = run_of(tmp_path, attempt=2)
    saved = second.restored()
    assert saved is not None
    assert ("sixty", 60, 1) == (saved.path.read_text(), saved.step, saved.attempt)
    assert lines_of(second) == [{"step": 60, "continues": 1}]
    assert not second.is_due(60), "the evaluation at 50 is recorded already"
    second.checkpoint(80, lambda path: path.write_text("eighty"))
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-2-80-1"]


class Number:
    """A number that JSON cannot hold, as those of NumPy."""

    def __float__(self) -> float:
        return 0.5


def test_numbers_of_other_libraries_are_reported(tmp_path: Path) -> None:
    """Metrics and measures become plain numbers."""
    run, number = run_of(tmp_path), cast("float", Number())
    run.report(10, loss=number)
    run.evaluated(50, [number], success=[number, None])
    first, second = lines_of(run)
    assert {"loss": 0.5} == first["metrics"]
    assert ([0.5], {"success": [0.5, None]}) == (second["returns"], second["measures"])


def test_a_checkpoint_may_get_an_ending(tmp_path: Path) -> None:
    """A library that adds an ending to the path leaves a checkpoint that can be read."""
    run = run_of(tmp_path)

    def save(path: Path) -> None:
        path.with_name(f"{path.name}.zip").write_text(path.name)

    for _ in range(2):
        run.checkpoint(30, save)
    saved = run_of(tmp_path, attempt=2).restored()
    assert saved is not None
    assert "checkpoint-1-30-2" == saved.path.read_text()
    assert [saved.path] == list(tmp_path.glob("checkpoint-*"))


def test_an_evaluation_comes_before_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    """A checkpoint that would count an evaluation as played is refused."""
    run = run_of(tmp_path)
    assert not run.is_due(40)
    with pytest.raises(RuntimeError, match="an evaluation is due at step 60"):
        run.checkpoint(60, lambda path: path.write_text("x"))
    assert run.is_due(60)
    run.checkpoint(60, lambda path: path.write_text("x"))


def test_a_script_that_is_started_by_hand_is_told_how_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the variables of a run, the message names the command."""
    monkeypatch.delenv(CONFIGURATION, raising=False)
    monkeypatch.delenv(RESULTS, raising=False)
    with pytest.raises(NotARunError, match="rlexp run algorithm=external"):
        Trainer.of_run()


def test_the_helper_needs_nothing_but_the_standard_library() -> None:
    """The module can be imported by a Python without any package."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import rlexp.trainer"
    package = str(Path(trainer.__file__).parents[1])
    subprocess.run([sys.executable, "-I", "-S", "-c", code, package], check=True)


def test_an_unknown_setting_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """A misspelt setting ends the script with one line; known settings do not."""
    run = run_of(tmp_path)
    run.check_settings(["lr", "gamma"])
    with pytest.raises(SystemExit) as caught:
        run.check_settings(["lrs", *(f"other_{k}" for k in range(9))])
    assert str(caught.value).startswith(
        "algorithm.settings.lr: there is no such setting; did you mean 'lrs'? (there are: lrs, "
    )
    assert str(caught.value).endswith(" and 2 more)")


def test_an_unknown_component_is_refused(tmp_path: Path) -> None:
    """The return of the run is one of the components that the script reports."""
    run = run_of(tmp_path)
    run.configuration["environment"] = {"return_of": "agent_1"}  # type: ignore[index]
    run.check_components([trainer.TEAM, "agent_1"])
    with pytest.raises(SystemExit, match=r"return_of=agent_1: .* \(there are: agent_0, team\)"):
        run.check_components([trainer.TEAM, "agent_0"])


def test_the_return_of_a_team_is_the_mean_over_its_agents(tmp_path: Path) -> None:
    """Each episode has a return of the team beside that of each agent."""
    run = run_of(tmp_path)
    run.evaluated_team(50, {"a": [1, 2], "b": [3, 6]}, final=True)
    assert lines_of(run) == [
        {"step": 50, "returns": {"team": [2.0, 4.0], "a": [1, 2], "b": [3, 6]}, "final": True}
    ]


def test_an_environment_has_the_arguments_and_the_limit_of_the_task(tmp_path: Path) -> None:
    """The id is that of the task, not the name under which scores are compared; imports come first."""
    run = run_of(tmp_path)
    asked: dict[str, Any] = {}

    def make(id: str, **arguments: Any) -> str:  # noqa: A002
        asked.update(arguments, id=id)
        return "made"

    run.configuration["environment"] = {  # type: ignore[index]
        "id": "Walk-v1", "arguments": {"slope": 2}, "max_episode_steps": 9, "imports": ["json"],
    }  # fmt: skip
    assert "made" == run.make_environment(make)
    assert {"id": "Walk-v1", "slope": 2, "max_episode_steps": 9} == asked
    run.configuration["environment"] = {"imports": ["no_such_module"]}  # type: ignore[index]
    with pytest.raises(SystemExit, match=r"imports=no_such_module cannot be imported"):
        run.make_environment(make)


@pytest.mark.parametrize(
    "read",
    [
        dict,
        lambda settings: {**settings},
        list,
        lambda settings: settings.copy(),
        lambda settings: settings | {"more": 1},
        lambda settings: {"more": 1} | settings,
        lambda settings: [*settings.values()],
        json.dumps,
        lambda settings: settings.pop("learning_rte"),
        lambda settings: "learning_rte" in settings,
        lambda settings: settings["learning_rte"],
        lambda settings: settings.setdefault("learning_rte", 1),
        lambda settings: settings == {},
    ],
)
def test_a_setting_that_a_script_may_have_read_is_not_misspelt(read: Any) -> None:
    """Whatever reads all settings or this one clears it; until then its similar name shows the mistake."""
    settings = AskedSettings({"learning_rte": 0.1})
    assert settings.misspelt() is None
    settings.get("learning_rate", 0.5)
    assert ("learning_rte", "learning_rate") == settings.misspelt()
    read(settings)
    assert settings.misspelt() is None


def test_an_unread_setting_without_a_similar_name_may_be_read_later() -> None:
    """A setting that nobody read is no mistake for certain."""
    settings = AskedSettings({"save_every": 10})
    assert 3 == settings.get("learning_rate", 3)
    assert settings.misspelt() is None


def test_a_longer_name_is_another_setting() -> None:
    """A script that asks for `gamma_end` in vain may read `gamma` later."""
    settings = AskedSettings({"gamma": 0.9})
    assert settings.get("gamma_end") is None
    assert settings.misspelt() is None


@pytest.mark.parametrize(
    "call",
    [
        "is_due(0)",
        "report(1)",
        "evaluated(1, [1])",
        "evaluated_team(1, {'a': [1]})",
        "evaluated_front(1, [])",
        "evaluate(None, None, 1)",
        "checkpoint(1, None)",
    ],
)
def test_a_check_ends_at_the_first_call_of_the_training(call: str, tmp_path: Path) -> None:
    """The process ends with the code of a check, whatever catches SystemExit; reads before it go on."""
    configuration = {**run_of(tmp_path).configuration, "seeds": {"evaluation": [1, 2]}}
    (tmp_path / "told.json").write_text(json.dumps(configuration))
    script = f"""
from rlexp.trainer import Trainer
run = Trainer.of_run()
run.check_settings(["lr"]), run.restored(), run.seed, run.steps, run.settings["lr"]
print("made", flush=True)
try:
    run.{call}
except BaseException as error:
    print("caught", error)
print("went on")
"""
    variables = {CONFIGURATION: str(tmp_path / "told.json"), RESULTS: str(tmp_path / "results")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**variables, CHECKS: "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (CHECKED, "made\n") == (done.returncode, done.stdout), done.stderr
    assert [{"step": 0, "checked": True}] == [
        json.loads(line) for line in (tmp_path / "results").read_text().splitlines()
    ]
