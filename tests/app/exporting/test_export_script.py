"""Scripts and model folders of `rlexp export` rebuild real runs without rlexp."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from finished_runs import Finished, finish, study

from rlexp.app.commands.exchange.export import export
from rlexp.app.exporting.output import ExportedFiles, ExportRequest
from rlexp.errors import RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.store.files import read_json
from rlexp.store.runs import read_run
from rlexp.store.schemas import SPEC

WRAPPERS = "[{name:ClipReward,arguments:{max_reward:0.5}},{name:TimeAwareObservation}]"
NETWORKS = "{'pi': [16], 'vf': [16, 8], 'qf': [16, 8]}"
KINDS: Mapping[str, tuple[str, ...]] = {
    "ppo": (
        "algorithm=ppo",
        "algorithm.n_steps=32",
        "algorithm.batch_size=32",
        "algorithm.learning_rate={shape:linear,initial:0.001}",
        "algorithm.clip_range={shape:constant,initial:0.1}",
        "agent.actor=[16]",
        "agent.critic=[16,8]",
        "agent.activation=elu",
        "environment=cartpole",
        "environment.max_episode_steps=60",
        f"environment.wrappers={WRAPPERS}",
        "environment.vector.frame_stack=3",
        "environment.vector.count=2",
    ),
    "sac": (
        "algorithm=sac",
        "algorithm.learning_starts=16",
        "algorithm.action_noise={kind:ornstein_uhlenbeck,sigma:0.1}",
        "agent.network=[16]",
        "environment=pendulum",
        "environment.max_episode_steps=40",
        "environment.vector.normalise_observations=true",
        "environment.vector.normalise_rewards=true",
    ),
    "dqn": (
        "algorithm=dqn",
        "algorithm.learning_starts=16",
        "algorithm.exploration_final_eps=0.3",
        "environment=cartpole",
        "budget.evaluation_deterministic=false",
    ),
    "tqc": (
        "algorithm=tqc",
        "algorithm.learning_starts=16",
        "algorithm.train_freq=[1,episode]",
        "agent.network=[16]",
        "environment=pendulum",
        "environment.max_episode_steps=40",
        "environment.vector.normalise_observations=true",
        "budget.evaluation_deterministic=false",
    ),
    "recurrent_ppo": (
        "algorithm=recurrent_ppo",
        "agent=lstm",
        "agent.lstm_hidden_size=8",
        "algorithm.n_steps=32",
        "algorithm.batch_size=32",
        "environment=cartpole",
    ),
}
"""Runs that cover schedules, noise, networks, wrappers, normalisation, frames and memory."""
PLAYING = """
import contextlib, io, json, runpy, sys
results = {}
for folder, option in json.loads(sys.argv[1]):
    sys.argv[1:] = [option] if option else []
    main = runpy.run_path(folder + "/evaluate.py")["main"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main()
    results[folder + option] = code, said.getvalue()
print(json.dumps({"results": results, "rlexp": "rlexp" in sys.modules}))
"""


@dataclass(frozen=True, slots=True)
class Exported:
    """Runs and their scripts by kind, and the results of the scripts."""

    runs: Mapping[str, Finished]
    folders: Mapping[str, Path]
    played: Mapping[str, Any]
    hub: Path
    altered: Path


def write(run: Finished, kind: str, target: str, **options: Any) -> ExportedFiles:
    """Export a run."""
    return export(ExportRequest(format=kind, targets=(target,), **options), run.study)


def play(pairs: list[tuple[Path, str]]) -> Any:
    """Execute scripts in one process, each with at most one option."""
    arguments = json.dumps([(str(folder), option) for folder, option in pairs])
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.run(
        [sys.executable, "-c", PLAYING, arguments],
        capture_output=True,
        check=False,
        env=environment,
    )
    assert process.stdout, process.stderr.decode()
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One completed run of three planned ones."""
    return finish(tmp_path_factory.mktemp("trained"), "algorithm=a2c", "seeds.test=3")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, trained: Finished) -> Exported:
    """One run of each kind, trained and exported, and the result of its script."""
    home = tmp_path_factory.mktemp("exported")
    runs = {kind: finish(home / kind, *arguments) for kind, arguments in KINDS.items()}
    folders = {kind: home / kind / "out" for kind in KINDS}
    for run in runs.values():
        write(run, "script", run.name, output="out")
    write(trained, "huggingface", "tiny", output=str(home / "hub"))
    altered = _altered(folders["recurrent_ppo"], home / "altered")
    other_scripts = [(home / "hub" / "seed-0", ""), (altered, "")]
    trainings = [(folders[kind], "--train") for kind in ("ppo", "sac")]
    played = play([*((folder, "") for folder in folders.values()), *trainings, *other_scripts])
    return Exported(runs, folders, played, home / "hub", altered)


def _altered(folder: Path, copy: Path) -> Path:
    """A copy of a script that recorded another length of its first episode."""
    shutil.copytree(folder, copy)
    script = copy / "evaluate.py"
    script.write_text(script.read_text().replace("LENGTHS = [", "LENGTHS = [1", 1))
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_plays_the_same_episodes(exported: Exported, kind: str) -> None:
    """The script gives exactly the recorded returns without rlexp."""
    code, output = exported.played["results"][str(exported.folders[kind])]
    final = read_run(exported.runs[kind].paths).record.final
    assert final is not None
    expected = [
        f"episode {i}: return {value!r}, length {length}"
        for i, (value, length) in enumerate(zip(final.returns, final.lengths, strict=True))
    ]
    assert expected == output.splitlines()[: len(expected)]
    assert (0, False) == (code, exported.played["rlexp"])


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_the_script_trains_the_same_policy(exported: Exported, kind: str) -> None:
    """With --train, the script gives the recorded returns, so it contains all settings."""
    code, output = exported.played["results"][f"{exported.folders[kind]}--train"]
    assert 0 == code, output


def test_hyperparameters_are_readable(exported: Exported) -> None:
    """Hyperparameters are keyword arguments of the library's class."""
    source = (exported.folders["ppo"] / "evaluate.py").read_text()
    for line in (
        "learning_rate=LinearSchedule(0.001, 0.0, 1.0),",
        "clip_range=ConstantSchedule(0.1),",
        f"policy_kwargs={{'net_arch': {NETWORKS}, 'activation_fn': nn.ELU}},",
    ):
        assert line in source
    sac = (exported.folders["sac"] / "evaluate.py").read_text()
    noise = "OrnsteinUhlenbeckActionNoise(np.zeros(shape), np.full(shape, 0.1))"
    assert f"action_noise={noise}," in sac
    assert "NormalActionNoise" not in sac.replace(noise, "")
    assert "import rlexp" not in source


def test_the_script_reports_different_numbers(exported: Exported) -> None:
    """A script with other numbers ends with code 1 and names the first episode that differs."""
    code, output = exported.played["results"][str(exported.altered)]
    assert 1 == code
    assert "1 of them differ" in output
    assert "episode 0 was" in output


def test_the_same_run_gives_the_same_bytes(exported: Exported) -> None:
    """A second export has the same bytes in every file."""
    run, folder = exported.runs["sac"], exported.folders["sac"]
    assert {"evaluate.py", "model.zip", "normalisation.npz", "requirements.txt"} == {
        p.name for p in folder.iterdir()
    }
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    exported_files = write(run, "script", run.name, output="out", force=True)
    final = read_run(run.paths).record.final
    assert final is not None
    assert (run.name, 1, final.mean) == (
        exported_files.run,
        exported_files.n,
        exported_files.mean_return,
    )
    assert before == {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.fixture
def run(trained: Finished, tmp_path: Path) -> Finished:
    """A copy of the run, which a test may damage."""
    shutil.copytree(trained.study.folder, tmp_path, dirs_exist_ok=True)
    workspace = study(tmp_path)
    return Finished(workspace, workspace.run(trained.name))


def test_a_changed_model_is_not_exported(run: Finished, tmp_path: Path) -> None:
    """A model whose weights differ from the recorded ones is refused."""
    model = run.paths.model
    model.write_bytes(model.read_bytes()[:-100])
    with pytest.raises(RlexpError, match=r"model\.zip"):
        write(run, "script", run.name, output="out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("group", "settings", "message"),
    [
        ("algorithm", {"_target_": "os.path.join"}, "would be executed: os"),
        ("environment", {"imports": ["antigravity"]}, "would be executed: antigravity"),
        ("environment", {"id": "mine:Cart-v1"}, "would be executed: mine"),
        ("environment", {"arguments": {"x": "${oc.env:HOME}"}}, "environment.arguments.x is read"),
        ("environment", {"arguments": {"api_key": "abcdefgh"}}, "looks like a secret"),
    ],
)
def test_runs_that_a_script_cannot_hold_are_refused(
    run: Finished, group: str, settings: Mapping[str, Any], message: str
) -> None:
    """Runs with code without permission, environment variables or secrets are refused."""
    changed_run = _changed(run, group, settings)
    with pytest.raises(RlexpError) as refusal:
        write(changed_run, "script", changed_run.name, output="out")
    assert message in str(refusal.value)
    assert "abcdefgh" not in str(refusal.value)


def _changed(run: Finished, group: str, settings: Mapping[str, Any]) -> Finished:
    """The run with other settings, as records of unknown origin may have them."""
    document = read_json(run.paths.spec)
    document[group] = {**document[group], **settings}
    spec = RunSpec.from_plain(document)
    document["id"] = spec.id
    run.paths.spec.write_text(json.dumps({**SPEC.head(), **document}))
    folder = run.paths.folder.rename(run.paths.folder.with_name(spec.name))
    return Finished(run.study, type(run.paths)(folder))


def test_a_model_card_states_its_evidence(exported: Exported) -> None:
    """The card states the interval, n, the seeds, the rule of the score and missing runs."""
    hub = exported.hub
    assert {
        "README.md",
        "config.json",
        "results.json",
        "seed-0/a2c-CartPole-v1.zip",
        "seed-0/evaluate.py",
        "seed-0/requirements.txt",
    } == {str(p.relative_to(hub)) for p in hub.rglob("*") if p.is_file()}
    text = (hub / "README.md").read_text()
    _, head, body = text.split("---\n", 2)
    document = yaml.safe_load(head)
    assert "stable-baselines3" == document["library_name"]
    results = json.loads((hub / "results.json").read_text())
    [score] = [run["score"] for run in results["runs"] if run["score"] is not None]
    [metric] = document["model-index"][0]["results"][0]["metrics"]
    assert ("mean_reward", round(score, 2)) == (metric["type"], metric["value"])
    assert "(n = 1; too few runs for an interval)" in body
    assert "1 of 3 runs (seeds 0–2), 2 planned without a score" in body
    for sentence in ("mean return of the final policy over 10 fresh episodes", "would unpickle"):
        assert sentence in body
    assert (1, 3, "test") == (results["n"], results["planned"], results["phase"])
    assert ["completed", "planned", "planned"] == [r["state"] for r in results["runs"]]
    assert 0 == exported.played["results"][str(hub / "seed-0")][0]


def test_an_existing_report_is_included(run: Finished, tmp_path: Path) -> None:
    """An existing report is included, and a second export has the same bytes."""
    page = tmp_path / "reports" / "tiny" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html>")
    for name in ("hub", "again"):
        write(run, "huggingface", "tiny", output=name)
    assert "<html>" == (tmp_path / "hub" / "report.html").read_text()
    files = [p.relative_to(tmp_path / "hub") for p in (tmp_path / "hub").rglob("*") if p.is_file()]
    assert all(
        (tmp_path / "hub" / p).read_bytes() == (tmp_path / "again" / p).read_bytes() for p in files
    )
