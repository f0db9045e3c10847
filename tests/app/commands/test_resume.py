"""`rlexp resume` selects the experiments that it continues, skips or refuses."""

import json
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from samples import gymnasium_task, part
from stored_runs import (
    PROVENANCE,
    Stored,
    configuration,
    console,
    ended,
    evaluated,
    failed,
    output,
    stored,
    study,
)
from stored_sweeps import WORDS, StoredSweep, stored_sweep

from rlexp.app.commands.train.recorded_requests import phase_requests
from rlexp.app.execution.launch_settings import LaunchOptions
from rlexp.app.reading.experiment_scan import survey
from rlexp.app.reading.provenance import read_last_command
from rlexp.app.sweeps.request import read_sweep
from rlexp.cli.train.resume import execute as resume
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending
from rlexp.store.files import publish_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)

DRY = LaunchOptions(dry_run=True)
REAL = {
    "algorithm": part("algorithm", "ppo", "rlexp.algorithms.ppo.PPO", learning_rate=0.5),
    "environment": gymnasium_task("CartPole-v1"),
}


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Three planned runs: one completed, one interrupted, one never started."""
    experiment = stored(study(tmp_path).layout)
    experiment.complete(0, 100.0)
    experiment.attempt(1, [evaluated(50, 1.0), ended(Ending.INTERRUPTED, 60)])
    return experiment


def requests_of(
    experiment: Stored, folder: Path, *words: str, settings: dict[str, Any] | None = None
) -> list[Any]:
    """The requests from the records of an experiment; `settings` replace those of its attempts."""
    for seed in () if settings is None else (0, 1):
        publish_json(experiment.run(seed).attempt(1).settings, {"allowed": [], **(settings or {})})
    scan = survey(experiment.paths)
    return list(
        phase_requests(scan, read_last_command(scan), words, study(folder), ("rlexp", "resume"))
    )


def test_requests_follow_the_definition(alpha: Stored, tmp_path: Path) -> None:
    """Each phase with runs has a request with all its planned runs."""
    (request,) = requests_of(alpha, tmp_path)
    assert (Phase.TEST, [0, 1, 2]) == (request.phase, [s.seed for s in request.specs()])
    alpha.attempt(0, phase=Phase.TUNING)
    assert [Phase.TUNING, Phase.TEST] == [r.phase for r in requests_of(alpha, tmp_path)]


def test_operational_settings_of_the_last_attempt_are_kept(alpha: Stored, tmp_path: Path) -> None:
    """Checkpoint and time settings are those of the last attempt unless overrides change them."""
    settings = {"checkpoint_every": 500, "checkpoint_minutes": None, "timeout": 60.0}
    settings |= {"keep_last": True}
    (request,) = requests_of(alpha, tmp_path, "budget.checkpoint_minutes=5", settings=settings)
    expected = {
        "checkpoint_every": 500,
        "checkpoint_minutes": 5.0,
        "timeout": 60.0,
        "keep_last": True,
        "system_metrics_seconds": None,
    }
    assert expected == request.budget.operational()
    (request,) = requests_of(alpha, tmp_path, "executor.workers=3")
    assert 3 == request.executor.workers


def test_damaged_settings_give_way_to_the_configuration(alpha: Stored, tmp_path: Path) -> None:
    """Damaged checkpoint settings are replaced by those of the configuration."""
    (request,) = requests_of(alpha, tmp_path, settings={"checkpoint_every": "often"})
    assert (None, 10.0) == (request.budget.checkpoint_every, request.budget.checkpoint_minutes)
    alpha.run(0).attempt(1).settings.write_text("{")
    (request,) = requests_of(alpha, tmp_path)
    assert 10.0 == request.budget.checkpoint_minutes


@pytest.mark.parametrize(
    "word", ["algorithm=a2c", "seeds.test=9", "budget.steps=5", "compute.threads=2", "+a.b=1"]
)
def test_overrides_that_change_a_number_are_refused(
    alpha: Stored, tmp_path: Path, word: str
) -> None:
    """Overrides that change numbers are refused with the allowed ones."""
    with pytest.raises(
        ConfigError, match=re.escape(f"{word}: 'rlexp resume' does not change")
    ) as error:
        requests_of(alpha, tmp_path, word)
    assert "budget.checkpoint_minutes" in str(error.value)
    assert "\n" not in str(error.value)


def test_code_that_only_records_name_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that an earlier attempt was allowed to import needs permission again."""
    monkeypatch.chdir(tmp_path)
    import_marker = tmp_path / "executed"
    (tmp_path / "foreign.py").write_text(f"open({str(import_marker)!r}, 'w')\n")
    environment = {**configuration().environment, "imports": ["foreign"]}
    experiment = stored(
        study(tmp_path).layout, "alpha", replace(configuration(), environment=environment)
    )
    experiment.attempt(0, [ended(Ending.INTERRUPTED)])
    publish_json(experiment.run(0).attempt(1).settings, {"allowed": ["foreign"]})
    arguments = ("alpha", "executor.workers=2")
    with pytest.raises(RecordError, match="foreign; if you trust it") as error:
        resume(arguments, DRY, study(tmp_path), console())
    command = "rlexp resume alpha executor.workers=2 --allow-import foreign"
    assert str(error.value).endswith(command)
    assert not import_marker.exists()


def test_a_single_run_can_be_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan for a single run has only that run."""
    experiment = experiment_to_run(tmp_path)
    experiment.attempt(1, [ended(Ending.INTERRUPTED)])
    assert 0 == resume([f"alpha/{experiment.spec(1).name}"], DRY, study(tmp_path), console())
    assert "  1 run × 100 environment steps" in output(capsys)


def test_an_unplanned_run_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """A run that the present definition does not include is refused."""
    other = replace(
        alpha, experiment=replace(alpha.experiment, configurations=(OTHER_CONFIGURATION,))
    )
    other.attempt(0, [ended(Ending.INTERRUPTED)])
    with pytest.raises(
        RecordError, match=r"run ppo-test-0-.* is not part of the present definition"
    ):
        resume([other.spec(0).name], DRY, study(tmp_path), console())


def test_all_unfinished_experiments_are_continued(
    alpha: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unfinished experiments are continued, and one that another command runs is skipped."""
    workspace = study(tmp_path)
    finished = stored(workspace.layout, "beta", test=1)
    finished.complete(0, 1.0)
    experiment_to_run(tmp_path, "gamma")
    with hold(alpha.paths.lock, "alpha", now=time.time()):
        assert 0 == resume([], DRY, workspace, console())
    plan, *_, skipped = output(capsys).splitlines()
    driver = "another call in this process"
    assert f"alpha is skipped, because another command runs it: {driver}" == skipped
    assert plan.startswith("gamma · test phase")


def test_a_damaged_experiment_does_not_stop_others(
    alpha: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged experiment is reported with exit code 2, and the others are continued."""
    alpha.paths.definition.write_text("{")
    experiment_to_run(tmp_path, "gamma")
    assert 2 == resume([], DRY, study(tmp_path), console())
    captured = capsys.readouterr()
    assert "rlexp: alpha: " in captured.err
    assert "gamma · test phase" in captured.out
    with pytest.raises(RecordError, match="lists its runs"):
        resume(["alpha"], DRY, study(tmp_path), console())


def test_nothing_to_continue_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without unfinished runs the output says so; failed runs are continued only with --retry."""
    assert 0 == resume([], DRY, study(tmp_path), console())
    assert "nothing to continue: no experiments under runs/" == output(capsys).strip()
    experiment = experiment_to_run(tmp_path, runs=1)
    experiment.attempt(0, failed())
    assert 0 == resume([], DRY, study(tmp_path), console())
    assert "1 experiment under runs/, all finished" in output(capsys)
    assert 0 == resume([], replace(DRY, retry=True), study(tmp_path), console())
    assert "1 run × 100" in output(capsys)


def test_a_finished_experiment_is_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished experiment gets no attempt, and the JSON document has its result."""
    experiment = stored(study(tmp_path).layout, test=2)
    experiment.complete(0, 1.0)
    experiment.attempt(1, failed())
    assert 1 == resume(["alpha"], LaunchOptions(), study(tmp_path), console(as_json=True))
    (outcome,) = json.loads(output(capsys))["parts"]
    summary = outcome["summary"]
    assert ("alpha", 0, 1) == (summary["experiment"], outcome["ran"], summary["cells"][0]["n"])
    next_commands = {step["why"]: step["command"] for step in outcome["next"]}
    assert "rlexp resume alpha --retry" == next_commands["repeat the failed runs"]
    assert 1 == len(experiment.run(1).attempts())


def test_a_name_may_look_like_an_override(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An experiment with an equals sign in its name is found."""
    stored(study(tmp_path).layout, "a=b", test=1).complete(0, 1.0)
    assert 0 == resume(["a=b"], LaunchOptions(), study(tmp_path), console())
    assert "a=b: nothing to run" in output(capsys)


def test_a_sweep_continues_from_its_recorded_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep uses its recorded overrides, except those of the executor and the storage."""
    sweep = sweep_in_progress(
        tmp_path, *WORDS, "executor.workers=7", "sweep.storage=sqlite:///else.db"
    )
    arguments = ("made_up", "executor.workers=2")
    assert 0 == resume(arguments, DRY, sweep.study, console())
    plan = output(capsys)
    assert "left out of the recorded command of made_up" in plan
    assert "sweep.storage=sqlite:///else.db; to use it, add it" in plan
    assert "8 trials by random" in plan
    assert "2 workers" in plan


def test_a_run_of_a_sweep_cannot_be_continued_alone(tmp_path: Path) -> None:
    """A single run of a sweep is refused with the command that continues the sweep."""
    sweep = sweep_in_progress(tmp_path, *WORDS)
    with pytest.raises(RecordError, match=r"continue the sweep: rlexp resume made_up$"):
        resume([f"made_up/{sweep.made[0].name}"], DRY, sweep.study, console())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("rlexp", "compare", "made_up"), "is not recorded.* repeat the command 'rlexp sweep …'"),
        (("rlexp", "sweep", *WORDS, "+a.token=********"), "contains a secret"),
        (("rlexp", "sweep", *WORDS[:-1], "experiment=other"), "now defines other"),
        (("rlexp", "sweep", *WORDS, "algorithm=none"), "is not valid any more"),
        (("rlexp", "sweep", *WORDS, "algorithm.n_steps=32"), "exists with another definition"),
        (("rlexp", "sweep", "gone", *WORDS), "is not valid any more .it was typed in study.: "),
    ],
)
def test_a_sweep_with_an_unusable_command_is_refused(
    tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    """A sweep whose recorded command cannot be used is refused."""
    sweep = sweep_in_progress(tmp_path, *WORDS)
    record(sweep.paths, command)
    with pytest.raises((RecordError, ConfigError), match=message):
        resume(["made_up"], DRY, sweep.study, console())


def test_the_command_for_a_sweep_of_another_name_can_be_pasted(tmp_path: Path) -> None:
    """The refusal of a recorded command with another name prints a command with one name."""
    sweep = sweep_in_progress(tmp_path, *WORDS)
    record(sweep.paths, ("rlexp", "sweep", *WORDS[:-1], "experiment=other"))
    with pytest.raises(RecordError) as refused:
        resume(["made_up"], DRY, sweep.study, console())
    words = shlex.split(str(refused.value).partition("experiment=made_up: rlexp sweep ")[2])
    assert "made_up" == read_sweep(None, words, sweep.study).experiment.name


def test_a_sweep_stops_at_the_recorded_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep that has reached the recorded stage is finished."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(SweepStage.SEARCH)
    record(sweep.paths, ("rlexp", "sweep", *WORDS), until="search")
    assert 0 == resume([], DRY, sweep.study, console())
    assert "all finished" in output(capsys)
    record(sweep.paths, ("rlexp", "sweep", *WORDS), until="test")
    assert 0 == resume([], DRY, sweep.study, console())
    assert "made_up · ppo on CartPole-v1" in output(capsys)


OTHER_CONFIGURATION = replace(
    configuration(), agent=part("agent", "mlp", "rlexp.agents.mlp.MLP", x=1)
)


def experiment_to_run(folder: Path, name: str = "alpha", runs: int = 3) -> Stored:
    """An experiment whose plug-ins exist and whose runs have not started."""
    workspace = study(folder)
    (configured,) = _configurations(workspace)
    labelled = replace(configured, label="ppo")
    return stored(workspace.layout, name, labelled, test=runs)


def _configurations(workspace: Any) -> list[Any]:
    from rlexp.app.execution.request import read_request

    arguments = ["budget.steps=100", "algorithm.n_steps=64", "budget.evaluation_every=50"]
    return list(read_request(arguments, workspace).experiment.configurations)


def sweep_in_progress(folder: Path, *command: str) -> StoredSweep:
    """A sweep with three runs and this recorded command."""
    sweep = stored_sweep(folder)
    sweep.go_on(runs=3)
    record(sweep.paths, ("rlexp", "sweep", *command))
    return sweep


def record(paths: ExperimentPaths, command: Sequence[str], until: str = "test") -> None:
    """Record this command in every attempt."""
    for run in paths.runs():
        for attempt in run.attempts():
            publish_json(attempt.provenance, {**PROVENANCE, "command": list(command)})
            publish_json(attempt.settings, {"allowed": [], "until": until})
