"""`rlexp resume` after kills and signals gives the numbers of undisturbed commands."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from in_full import long
from last_words import last_words
from studies import StudyFolder, new_study, wait_until

from rlexp.store.files import read_json

WORDS = (
    "algorithm.n_steps=64",
    "algorithm.n_epochs=2",
    "budget.steps=2048",
    "budget.evaluation_every=512",
    "budget.evaluation_episodes=3",
    "budget.final_episodes=5",
    "budget.checkpoint_every=128",
    "seeds.test=2",
)
OWN_ENVIRONMENT = (
    "environment=gymnasium",
    "environment.id=odd_environments:Odd-v0",
    "budget.steps=6144",
    "executor.workers=1",
)
SWEEP = (
    "algorithm.n_steps=64",
    "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))",
    "budget.steps=640",
    "budget.evaluation_every=128",
    "budget.evaluation_episodes=3",
    "budget.final_episodes=5",
    "tuner=random",
    "sweep.trials=4",
    "seeds.tuning=1",
    "seeds.test=1",
    "executor.workers=1",
)


@pytest.mark.slow
def test_what_was_interrupted_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """`resume` of one run, then of all, gives the weights and evaluations of a control."""
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give("run", *WORDS, "experiment=control")
        assert code == 0, output
        interrupt(study, "run", *WORDS, "experiment=cut", "executor.workers=1")
        first, second = (run["run"] for run in study.runs("cut"))
        code, output = study.give("resume", "--dry-run")
        assert code == 0, output
        assert "1 of 2 runs continues from a checkpoint at step" in output
        assert len(study.events("cut", "started")) == 1
        code, output = study.give("resume", f"cut/{first}", "budget.checkpoint_every=512")
        assert code == 0, output
        assert {first} == set(attempts_of_completed(study, "cut"))
        code, output = study.give("resume", "executor.workers=1")
        assert code == 0, output
        assert "1 run continued from a checkpoint" in output
        assert numbers(study, "control") == numbers(study, "cut")
        assert [1, 1] == [
            attempts_of_completed(study, "cut")[second],
            len(study.events("cut", "continued")),
        ]
        assert "control" not in output
        assert 512 == settings(study, "cut", first)["checkpoint_every"]
        before = len(study.events("cut", "started"))
        code, output = study.give("resume")
        expected = "nothing to continue: 2 experiments under runs/, all finished"
        assert (0, expected) == (code, output.strip())
        code, output = study.give("resume", "cut")
        assert code == 0, output
        assert "cut: nothing to run, every requested run has ended" in output
        assert before == len(study.events("cut", "started"))


@pytest.mark.slow
@long
def test_a_sweep_goes_on_as_it_was_asked_for(tmp_path: Path) -> None:
    """`resume` continues a sweep up to the stage of its `--until`, with the trials of a control."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        code, output = study.give("sweep", *SWEEP, "experiment=control")
        assert code == 0, output
        interrupt(study, "sweep", *SWEEP, "experiment=cut", "--until", "search", ended=2)
        code, output = study.give("resume", "cut")
        assert code == 0, output
        assert "left out of the recorded command of cut" in output
        assert "executor.workers=1" in output
        assert trials(study, "control") == trials(study, "cut")
        assert not (study.folder / "runs" / "cut" / "selection.json").exists()
        code, output = study.give("resume", "--json")
        assert code == 0, output
        outcome, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])
        assert ([], []) == (outcome["parts"], outcome["errors"])
        code, output = study.give("sweep", *SWEEP, "experiment=cut")
        assert code == 0, output
        assert weights(study, "control") == weights(study, "cut")


@long
@pytest.mark.slow
def test_changed_code_is_continued_only_where_that_is_allowed(tmp_path: Path) -> None:
    """After a change of code `resume` restarts the run, or continues it with `--allow-drift`."""
    with new_study(tmp_path / "study", warm=True) as study:
        overrides = ("seeds.test=1", *OWN_ENVIRONMENT, "--allow-import", "odd_environments")
        interrupt(study, "run", *last_words(*WORDS, *overrides), "experiment=cut")
        module = study.folder / "odd_environments.py"
        module.write_text(module.read_text() + "\nCHANGED = True\n")
        shutil.copytree(study.folder / "runs" / "cut", study.folder / "runs" / "same")
        code, output = study.give("resume", "cut")
        assert 2 == code, output
        assert "rlexp resume cut --allow-import odd_environments" in output
        permission = ("--allow-import", "odd_environments")
        change = "code of odd_environments changed"
        code, output = study.give("resume", "cut", *permission, "--dry-run")
        assert code == 0, output
        drift_command = "rlexp resume cut --allow-import odd_environments --allow-drift"
        assert (
            f"was refused: {change}\n  to continue from these checkpoints anyway: {drift_command}\n"
            in output
        )
        code, output = study.give(*drift_command.split()[1:], "--dry-run")
        assert f"1 of 1 run continues with other versions: {change}\n" in output
        code, output = study.give("resume", "cut", *permission)
        assert code == 0, output
        assert "1 of 1 run starts from step 0, because its checkpoint at step" in output
        assert "1 run restarted from the first step" in output
        assert f"checkpoints of 1 run were refused: {change}" in output
        assert {change} == {e["reason"] for e in study.events("cut", "refused")}
        assert [] == study.events("cut", "continued")
        code, output = study.give("resume", "same", "--allow-drift", *permission)
        assert code == 0, output
        assert f"1 run continued with other versions: {change}" in output
        assert [change] == [e["drift"] for e in study.events("same", "continued")]
        code, output = study.give("report", "same", "--format", "md", "-o", "paper")
        assert code == 0, output
        (page,) = (study.folder / "paper").glob("*.md")
        text = page.read_text().replace("\\_", "_")
        warning = f"1 run continued with other versions: {change}. With unchanged versions, the "
        assert f"{warning}numbers might be different." in text


def interrupt(study: StudyFolder, *arguments: str, ended: int = 0) -> None:
    """Send SIGTERM to a command after two checkpoints, or after `ended` ended runs."""
    command = study.start(*arguments, variables={"RLEXP_QUICK": '{"seconds": 0.5}'})
    if ended:
        wait_until(lambda: len(study.events("cut", "ended")) >= ended)
    else:
        wait_until(lambda: len(study.events("cut", "checkpointed")) >= 2)
    command.send_signal(signal.SIGTERM)
    output, _ = command.communicate(timeout=60)
    assert 143 == command.returncode, output


def numbers(study: StudyFolder, experiment: str) -> dict[str, Any]:
    """Evaluations by step, and weights, of every run over all attempts, by the run's name."""
    numbers_by_run: dict[str, Any] = {}
    for run in study.runs(experiment):
        journals = sorted(
            (study.folder / "runs" / experiment / run["run"]).glob("attempts/*/*.jsonl")
        )
        events = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
        returns = {e["step"]: e["returns"] for e in events if e["event"] == "evaluated"}
        numbers_by_run[run["run"]] = (returns, [e["weights"] for e in events if e.get("weights")])
    return numbers_by_run


def attempts_of_completed(study: StudyFolder, experiment: str) -> dict[str, int]:
    """The number of attempts of every completed run."""
    return {r["run"]: r["attempts"] for r in study.runs(experiment) if r["state"] == "completed"}


def settings(study: StudyFolder, experiment: str, run: str) -> dict[str, Any]:
    """The settings of the last attempt of a run."""
    folders = (study.folder / "runs" / experiment / run / "attempts").iterdir()
    return read_json(max(folders, key=lambda p: int(p.name)) / "attempt.json")


def trials(study: StudyFolder, experiment: str) -> list[Any]:
    """The parameters of every trial."""
    lines = (study.folder / "runs" / experiment / "trials.jsonl").read_text().splitlines()
    return [json.loads(line)["parameters"] for line in lines]


def weights(study: StudyFolder, experiment: str) -> set[str]:
    """The weights of every completed run."""
    return {e["weights"] for e in study.events(experiment, "ended") if e["weights"]}
