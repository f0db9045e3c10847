"""`rlexp evaluate` restores policies exactly, without unpickling, and refuses damaged models."""

import base64
import io
import json
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from command_line import typed as rlexp
from finished_runs import Finished, finish, prepared, study
from quick_parts import quick_parts
from stable_baselines3.common.policies import ActorCriticPolicy

from rlexp.app.commands.judge.evaluate import EvaluationRequest, evaluate
from rlexp.app.evaluation.playback import Policy, find_policy, restore_policy
from rlexp.app.observer import SilentObserver
from rlexp.app.results import document
from rlexp.app.workspace import Workspace
from rlexp.cli.judge.evaluate import evaluation_lines
from rlexp.errors import ConfigError, EnvironmentFault, RecordError
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord
from rlexp.store.files import publish_json
from rlexp.store.films import read_films
from rlexp.store.runs import read_run
from rlexp.training.evaluate import Evaluator
from rlexp.training.video_file import ending

quick = pytest.fixture(autouse=True)(quick_parts)

ON_POLICY = ("algorithm.n_steps=32", "algorithm.batch_size=16", "algorithm.n_epochs=1")
OFF_POLICY = (
    "algorithm.learning_starts=16",
    "algorithm.buffer_size=64",
    "algorithm.batch_size=16",
)
NORMALISED = ("environment.vector.normalise_observations=true",)
PENDULUM = ("environment=pendulum", "environment.max_episode_steps=20")
CASES = {
    "ppo": ("algorithm=ppo", *ON_POLICY),
    "ppo, sampling actions": (
        "algorithm=ppo",
        *ON_POLICY,
        "budget.evaluation_deterministic=false",
    ),
    "ppo, many normalised environments in processes": (
        "algorithm=ppo",
        "algorithm.n_steps=8",
        "algorithm.batch_size=32",
        "environment.vector.count=4",
        "environment.vector.kind=subprocess",
        "environment.vector.normalise_rewards=true",
        *NORMALISED,
    ),
    "ppo, stacked frames": ("algorithm=ppo", *ON_POLICY, "environment.vector.frame_stack=3"),
    "dqn": ("algorithm=dqn", *OFF_POLICY),
    "dqn, exploring": ("algorithm=dqn", *OFF_POLICY, "budget.evaluation_deterministic=false"),
    "sac": ("algorithm=sac", *OFF_POLICY, *PENDULUM),
    "sac, normalised": ("algorithm=sac", *OFF_POLICY, *PENDULUM, *NORMALISED),
    "ars": ("algorithm=ars", "agent=linear", "algorithm.n_delta=2"),
    "recurrent ppo": ("algorithm=recurrent_ppo", "agent=lstm", *ON_POLICY),
}


@pytest.fixture(scope="module")
def ppo(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of PPO with two checkpoints."""
    folder = tmp_path_factory.mktemp("a study")
    arguments = (
        "budget.checkpoint_every=16",
        "algorithm.n_steps=16",
        "budget.evaluation_every=24",
    )
    return finish(folder, *CASES["ppo"], *arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Finished]:
    """A copy of a run with these overrides; each run is trained once."""
    trained_runs: dict[tuple[str, ...], Finished] = {}

    def copy_run(folder: Path, *words: str) -> Finished:
        if words not in trained_runs:
            trained_runs[words] = finish(tmp_path_factory.mktemp("a study"), *words)
        shutil.copytree(trained_runs[words].study.folder, folder, dirs_exist_ok=True)
        workspace = study(folder)
        return Finished(workspace, workspace.run(trained_runs[words].name))

    return copy_run


@pytest.fixture
def replace_run_file(tmp_path: Path, ppo: Finished) -> Callable[[str, bytes], Finished]:
    """A copy of the run with one file replaced."""

    def replace(name: str, content: bytes) -> Finished:
        shutil.copytree(ppo.study.folder, tmp_path / "copy")
        workspace = study(tmp_path / "copy")
        paths = workspace.run(ppo.name)
        (paths.folder / name).write_bytes(content)
        return Finished(workspace, paths)

    return replace


def record(run: Finished) -> RunRecord:
    """The record of the run."""
    return read_run(run.paths).record


def final(run: Finished) -> Evaluated:
    """The final evaluation of the run."""
    evaluated = record(run).final
    assert evaluated is not None
    return evaluated


def replay(run: Finished, policy: Policy, number: int, episodes: int) -> list[float]:
    """The returns of a restored policy on the seeds of an evaluation during training."""
    player = restore_policy(policy, draw=0, deterministic=None, allowed=run.study.allowed)
    streams = player.training.streams
    evaluator = Evaluator(player.training.environment, EVALUATION_ENVIRONMENTS)
    evaluation = evaluator.evaluate(
        player.model,
        seeds=[streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)],
        sampling=streams.sampling(number),
        episodes=episodes,
        deterministic=player.deterministic,
        beat=lambda: None,
    )
    evaluator.close()
    return evaluation.returns


def json_of(run: Finished, **options: Any) -> dict[str, Any]:
    """The JSON document of the command."""
    return document(evaluate(run.name, EvaluationRequest(**options), run.study, SilentObserver()))


@pytest.mark.parametrize("words", CASES.values(), ids=CASES.keys())
def test_restored_policy_repeats_the_final_evaluation(
    words: tuple[str, ...], tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A restored policy repeats the returns of the final evaluation on its seeds."""
    run = trained(tmp_path, *words)
    evaluated = final(run)
    number = len(record(run).evaluations)

    returns = replay(run, find_policy(run.paths, record(run), None), number, 10)

    assert evaluated.returns == tuple(returns)


@pytest.mark.parametrize("words", CASES.values(), ids=CASES.keys())
def test_fresh_episodes_are_equal_with_shortcuts_and_without(
    words: tuple[str, ...], tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A policy has the same bytes of returns and lengths with shortcuts and without."""
    run = trained(tmp_path, *words)
    policy = find_policy(run.paths, record(run), None)
    players = [
        restore_policy(policy, draw=3, deterministic=None, allowed=run.study.allowed, lean=lean)
        for lean in (True, False)
    ]
    assert [True, False] == [bool(player.training.shortcuts) for player in players]

    lean, library = (player.play(19, SilentObserver()) for player in players)

    assert np.array(library.returns).tobytes() == np.array(lean.returns).tobytes()
    assert library.lengths == lean.lengths


def test_episodes_follow_the_setting_of_the_run(
    tmp_path: Path, trained: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy of a run plays with shortcuts, unless the run had `compute.lean=false`."""
    calls: list[object] = []
    predict = ActorCriticPolicy.predict

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return predict(*arguments, **named)

    run = trained(tmp_path / "lean", *CASES["ppo"])
    plain = trained(tmp_path / "library", *CASES["ppo"], "compute.lean=false")
    monkeypatch.setattr(ActorCriticPolicy, "predict", counted)

    lean_document = json_of(run, episodes=8)
    assert not calls
    assert lean_document == json_of(plain, episodes=8)
    assert calls


def test_restored_checkpoint_repeats_its_evaluation(ppo: Finished) -> None:
    """A restored checkpoint repeats the returns of the evaluation at its step of training."""
    evaluation = record(ppo).evaluations[1]

    returns = replay(ppo, find_policy(ppo.paths, record(ppo), 32), 1, 2)

    assert (48, list(evaluation.returns)) == (evaluation.step, returns)


def test_same_draw_gives_the_same_episodes(ppo: Finished) -> None:
    """The same draw repeats the episodes, and another draw gives other episodes."""
    first, repeated, other_draw = (json_of(ppo, episodes=8, draw=draw) for draw in (0, 0, 1))

    assert first == repeated
    assert first["returns"] != other_draw["returns"]


def test_fresh_episodes_differ_from_those_of_training(ppo: Finished) -> None:
    """Fresh episodes have other returns than the final evaluation."""
    assert list(final(ppo).returns) != json_of(ppo, episodes=10)["returns"]


def test_statistics_are_those_of_the_returns(ppo: Finished) -> None:
    """The printed statistics are those of the printed returns."""
    result = json_of(ppo, episodes=9)

    expected = {
        "mean": np.mean(result["returns"]),
        "median": np.median(result["returns"]),
        "standard_deviation": np.std(result["returns"], ddof=1),
        "minimum": min(result["returns"]),
        "maximum": max(result["returns"]),
    }
    assert result["n"] == 9
    assert pytest.approx(expected) == result["return_spread"]


def test_one_episode_has_no_standard_deviation(ppo: Finished) -> None:
    """One episode has no standard deviation."""
    assert json_of(ppo, episodes=1)["return_spread"]["standard_deviation"] is None


def test_the_output_names_policy_seeds_and_limits(ppo: Finished) -> None:
    """The output names the policy, the seeds and the action mode, and has a note on other seeds."""
    request = EvaluationRequest(episodes=3, deterministic=False)
    lines = [*evaluation_lines(evaluate(ppo.name, request, ppo.study, SilentObserver()))]
    assert lines[:3] == [
        ppo.name,
        "  ppo on CartPole-v1, final policy at step 64",
        "  3 fresh episodes, seed set 0, sampled actions, observations not normalised",
    ]
    assert lines[-2:] == [
        "  n = 3 episodes of one run; other training seeds may give other returns",
        f"To play episodes with other seeds: rlexp evaluate {ppo.name} --episodes 3 --draw 1 --stochastic",
    ]


def test_the_name_of_an_experiment_with_one_run_is_enough(ppo: Finished) -> None:
    """An experiment with exactly one run stands for that run."""
    request = EvaluationRequest(episodes=1)
    assert evaluate("tiny", request, ppo.study, SilentObserver()).run == ppo.name


def test_experiment_of_several_runs_is_refused(tmp_path: Path) -> None:
    """The error about an experiment with several runs lists the runs."""
    run = prepared(tmp_path, "seeds.test=2")
    other = run.paths.folder.with_name("other")
    shutil.copytree(run.paths.folder, other)

    with pytest.raises(RecordError, match=f"experiment with 2 runs; .*: tiny/other, {run.name}"):
        evaluate("tiny", EvaluationRequest(), run.study, SilentObserver())


def test_videos_show_played_episodes(ppo: Finished) -> None:
    """Videos have the first episodes, and their file names have the numbers of the episodes."""
    result = json_of(ppo, episodes=8, video=2, output="films")

    folder = ppo.study.folder / "films"
    names = [f"step-64-draw-0-episode-{i}{ending()}" for i in range(2)]
    assert [str(folder / name) for name in names] == [film["file"] for film in result["videos"]]
    described = [Path(name).with_suffix(".json").name for name in names]
    assert sorted(names + described) == sorted(path.name for path in folder.iterdir())
    returns = [film.episode_return for film, _ in read_films(folder)]
    assert returns == [film["episode_return"] for film in result["videos"]]
    assert result["returns"][:2] == [film["episode_return"] for film in result["videos"]]


def test_a_failed_video_keeps_the_result(ppo: Finished) -> None:
    """A video that cannot be written gives exit code 2 and keeps the returns."""
    arguments = ("--episodes", "2", "--video", "1", "--output", f"runs/{ppo.name}/spec.json")
    printed = rlexp(ppo.study.folder, "evaluate", ppo.name, *arguments, "--json")

    result = printed.content
    assert (2, 2, []) == (printed.code, result["n"], result["videos"])
    assert "choose another folder with --output" in result["problem"]
    assert result["problem"] in printed.err


def test_unknown_checkpoint_is_refused(ppo: Finished) -> None:
    """The error about an unknown checkpoint lists the existing ones."""
    with pytest.raises(RecordError, match=r"no checkpoint at step 33 \(it has: 32, 48\)"):
        evaluate(ppo.name, EvaluationRequest(checkpoint=33), ppo.study, SilentObserver())


def test_run_without_a_model_is_refused(tmp_path: Path) -> None:
    """A run that has not ended has no final policy."""
    run = prepared(tmp_path)

    with pytest.raises(RecordError, match="has no final policy: it is lost"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


def test_failed_run_is_refused(tmp_path: Path) -> None:
    """A failed run has no final policy, and the error names the failure."""
    run = finish(tmp_path, *CASES["ppo"], "algorithm.learning_rate=1e30")

    with pytest.raises(RecordError, match=r"no final policy: it is failed \(nan\): "):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


def test_draw_out_of_range_is_refused(ppo: Finished) -> None:
    """A draw above the largest one is refused."""
    with pytest.raises(ConfigError, match="draws are 0 … 2047"):
        evaluate(ppo.name, EvaluationRequest(draw=2048), ppo.study, SilentObserver())


def test_damaged_model_is_refused(replace_run_file: Callable[[str, bytes], Finished]) -> None:
    """A model that is not a zip file gives a one-line error."""
    run = replace_run_file("model.zip", b"not a zip file")

    with pytest.raises(RecordError, match=r"model\.zip is damaged or does not fit") as refusal:
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())
    assert "\n" not in str(refusal.value)


def test_truncated_model_is_refused(
    ppo: Finished, replace_run_file: Callable[[str, bytes], Finished]
) -> None:
    """A truncated model is refused."""
    run = replace_run_file("model.zip", ppo.paths.model.read_bytes()[:-500])

    with pytest.raises(RecordError, match=r"model\.zip is damaged"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


def test_model_of_another_algorithm_is_refused(
    tmp_path: Path,
    replace_run_file: Callable[[str, bytes], Finished],
    trained: Callable[..., Finished],
) -> None:
    """Parameters that do not fit the network of the run are refused."""
    other = trained(tmp_path / "other", *CASES["dqn"])
    run = replace_run_file("model.zip", other.paths.model.read_bytes())

    with pytest.raises(RecordError, match="does not fit this run"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


def test_a_model_with_other_weights_is_refused(
    ppo: Finished, replace_run_file: Callable[[str, bytes], Finished]
) -> None:
    """A model whose weights differ from the digest in the journal is refused."""
    checkpoint = ppo.paths.checkpoints / "32" / "model.zip"
    run = replace_run_file("model.zip", checkpoint.read_bytes())

    with pytest.raises(RecordError, match="does not hold the weights that the run ended with"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


class Bomb:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


@pytest.mark.parametrize("member", ["policy.pth", "pytorch_variables.pth", "data"])
@pytest.mark.parametrize("algorithm", ["ppo", "ars"])
def test_nothing_is_unpickled(
    member: str, algorithm: str, tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A pickle in a model is never loaded."""
    run = trained(tmp_path, *CASES[algorithm])
    unpickled_file = tmp_path / "sign"
    poison(run.paths.model, member, pickle.dumps(Bomb(str(unpickled_file))))

    if member == "data":
        evaluate(run.name, EvaluationRequest(episodes=1), run.study, SilentObserver())
    else:
        with pytest.raises(RecordError, match="damaged"):
            evaluate(run.name, EvaluationRequest(episodes=1), run.study, SilentObserver())
    assert not unpickled_file.exists()


def poison(path: Path, member: str, payload: bytes) -> None:
    """Put a pickle into a model at a place where stable-baselines3 would load it."""
    content = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(content, "w") as target:
        for name in source.namelist():
            value = source.read(name)
            if name == member == "data":
                entry = {":type:": "x", ":serialized:": base64.b64encode(payload).decode()}
                value = json.dumps({**json.loads(value), "ep_info_buffer": entry}).encode()
            target.writestr(name, payload if name == member != "data" else value)
    path.write_bytes(content.getvalue())


@pytest.mark.parametrize("damage", ["missing", "shape", "pickle"])
def test_a_policy_without_its_statistics_is_refused(
    damage: str, tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A normalised policy is not played without the statistics of its training."""
    run = trained(tmp_path, *CASES["ppo"], *NORMALISED)
    with np.load(run.paths.normalisation) as arrays:
        statistics: dict[str, Any] = dict(arrays)
    if damage == "missing":
        run.paths.normalisation.unlink()
    else:
        mean = np.zeros(7) if damage == "shape" else np.asarray([object()], dtype=object)
        np.savez(run.paths.normalisation, **{**statistics, "observation/mean": mean})

    with pytest.raises(RecordError, match=r"normalisation\.npz"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


FOREIGN = """
from pathlib import Path
import gymnasium
Path({sign!r}).touch()
gymnasium.register("Foreign-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
                   max_episode_steps=20)
"""


def test_code_that_a_run_names_is_imported_only_when_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that records name is imported only with --allow-import."""
    import_marker = tmp_path / "sign"
    (tmp_path / "foreign_task.py").write_text(FOREIGN.format(sign=str(import_marker)))
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ("environment=gymnasium", "environment.id=foreign_task:Foreign-v0")
    run = finish(tmp_path, *CASES["ppo"], *arguments)
    import_marker.unlink()
    monkeypatch.delitem(sys.modules, "foreign_task")
    monkeypatch.delitem(gymnasium.registry, "Foreign-v0")

    with pytest.raises(RecordError, match=r"--allow-import foreign_task$"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())
    assert not import_marker.exists()
    allowed = Finished(Workspace(tmp_path, run.study.layout, ("foreign_task",)), run.paths)
    assert json_of(allowed, episodes=2)["n"] == 2


def test_an_exception_of_the_environment_is_one_line(
    ppo: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in the constructor of the environment is a one-line error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no\nlicence")

    monkeypatch.setattr(gymnasium, "make", refuse)

    with pytest.raises(EnvironmentFault, match=r"ValueError: no licence \(test_evaluate\.py:"):
        evaluate(ppo.name, EvaluationRequest(), ppo.study, SilentObserver())


def test_damaged_spec_is_refused(replace_run_file: Callable[[str, bytes], Finished]) -> None:
    """A specification with invalid parts gives a one-line error."""
    run = replace_run_file("stop", b"")
    spec = record(run).spec
    content = {**spec.plain(), "environment": ["rm", "-rf"]}
    changed_spec = type(spec).from_plain(content)
    publish_json(run.paths.spec, {"id": changed_spec.id, **content})

    with pytest.raises(RecordError, match="damaged"):
        evaluate(run.name, EvaluationRequest(), run.study, SilentObserver())


def test_evaluating_writes_nothing_into_the_run(ppo: Finished) -> None:
    """An evaluation changes no file of the run."""
    before = {p: p.stat().st_mtime_ns for p in ppo.paths.folder.rglob("*")}

    json_of(ppo, episodes=2)

    assert before == {p: p.stat().st_mtime_ns for p in ppo.paths.folder.rglob("*")}
