"""`rlexp evaluate` restores policies exactly, without unpickling, and refuses what it cannot."""

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

from rlexp.app.commands.evaluate import EvaluationRequest, evaluate
from rlexp.app.evaluation.playback import Policy, find_policy, restored
from rlexp.app.observer import Silent
from rlexp.app.results import document
from rlexp.app.workspace import Workspace
from rlexp.cli.evaluate import evaluation_lines
from rlexp.errors import ConfigError, EnvironmentFault, RecordError
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord
from rlexp.store.files import publish_json
from rlexp.store.runs import read_run
from rlexp.training.evaluate import Evaluator
from rlexp.training.film import ending

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
    words = ("budget.checkpoint_every=16", "algorithm.n_steps=16", "budget.evaluation_every=24")
    return finish(folder, *CASES["ppo"], *words)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Finished]:
    """A copy, in a folder, of a run that these words lead to; each is trained once."""
    kept: dict[tuple[str, ...], Finished] = {}

    def copied(folder: Path, *words: str) -> Finished:
        if words not in kept:
            kept[words] = finish(tmp_path_factory.mktemp("a study"), *words)
        shutil.copytree(kept[words].study.folder, folder, dirs_exist_ok=True)
        place = study(folder)
        return Finished(place, place.run(kept[words].name))

    return copied


@pytest.fixture
def broken(tmp_path: Path, ppo: Finished) -> Callable[[str, bytes], Finished]:
    """A copy of the run in which a file is replaced."""

    def copy(name: str, content: bytes) -> Finished:
        shutil.copytree(ppo.study.folder, tmp_path / "copy")
        place = study(tmp_path / "copy")
        paths = place.run(ppo.name)
        (paths.folder / name).write_bytes(content)
        return Finished(place, paths)

    return copy


def record(run: Finished) -> RunRecord:
    """What the run's journal says."""
    return read_run(run.paths).record


def final(run: Finished) -> Evaluated:
    """The run's final evaluation."""
    evaluated = record(run).final
    assert evaluated is not None
    return evaluated


def replay(run: Finished, policy: Policy, number: int, episodes: int) -> list[float]:
    """The returns of a restored policy on the seeds of an evaluation during training."""
    player = restored(policy, draw=0, deterministic=None, allowed=run.study.allowed)
    streams = player.training.streams
    evaluator = Evaluator(player.training.environment, EVALUATION_ENVIRONMENTS)
    played = evaluator.evaluate(
        player.model,
        seeds=[streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)],
        sampling=streams.sampling(number),
        episodes=episodes,
        deterministic=player.deterministic,
        beat=lambda: None,
    )
    evaluator.close()
    return played.returns


def shown(run: Finished, **wanted: Any) -> dict[str, Any]:
    """What the command writes for machines."""
    return document(evaluate(run.name, EvaluationRequest(**wanted), run.study, Silent()))


@pytest.mark.parametrize("words", CASES.values(), ids=CASES.keys())
def test_restored_policy_repeats_the_final_evaluation(
    words: tuple[str, ...], tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """On the seeds of the final evaluation, the restored policy gets the very same returns."""
    run = trained(tmp_path, *words)
    evaluated = final(run)
    number = len(record(run).evaluations)

    found = replay(run, find_policy(run.paths, record(run), None), number, 10)

    assert evaluated.returns == tuple(found)


def test_restored_checkpoint_repeats_its_evaluation(ppo: Finished) -> None:
    """A checkpoint acts as the policy did in the rollout that it begins."""
    second = record(ppo).evaluations[1]

    found = replay(ppo, find_policy(ppo.paths, record(ppo), 32), 1, 2)

    assert (48, list(second.returns)) == (second.step, found)


def test_same_draw_gives_the_same_episodes(ppo: Finished) -> None:
    """An evaluation can be repeated, and another draw plays other episodes."""
    first, again, other = (shown(ppo, episodes=8, draw=draw) for draw in (0, 0, 1))

    assert first == again
    assert first["returns"] != other["returns"]


def test_fresh_episodes_differ_from_those_of_training(ppo: Finished) -> None:
    """No seed of the final evaluation is played again."""
    assert list(final(ppo).returns) != shown(ppo, episodes=10)["returns"]


def test_spread_of_one_policy(ppo: Finished) -> None:
    """The printed statistics are those of the printed returns."""
    result = shown(ppo, episodes=9)

    expected = {
        "mean": np.mean(result["returns"]),
        "median": np.median(result["returns"]),
        "standard_deviation": np.std(result["returns"], ddof=1),
        "minimum": min(result["returns"]),
        "maximum": max(result["returns"]),
    }
    assert result["n"] == 9
    assert pytest.approx(expected) == result["return_spread"]


def test_one_episode_has_no_deviation(ppo: Finished) -> None:
    """With one episode the standard deviation is absent, not zero."""
    assert shown(ppo, episodes=1)["return_spread"]["standard_deviation"] is None


def test_lines_say_what_was_played(ppo: Finished) -> None:
    """A person reads which policy, which seeds, how it acted, and what the numbers are not."""
    request = EvaluationRequest(episodes=3, deterministic=False)
    lines = [*evaluation_lines(evaluate(ppo.name, request, ppo.study, Silent()))]
    assert lines[:3] == [
        ppo.name,
        "  ppo on CartPole-v1, final policy at step 64",
        "  3 fresh episodes on seeds of draw 0, sampled actions, observations not normalised",
    ]
    assert lines[-2:] == [
        "  n = 3 episodes of one run, which tell nothing about other training seeds",
        f"To play other episodes: rlexp evaluate {ppo.name} --episodes 3 --draw 1 --stochastic",
    ]


def test_experiment_of_one_run_names_it(ppo: Finished) -> None:
    """Where there is but one run, its experiment's name is enough."""
    request = EvaluationRequest(episodes=1)
    assert evaluate("tiny", request, ppo.study, Silent()).run == ppo.name


def test_experiment_of_several_runs_is_refused(tmp_path: Path) -> None:
    """The refusal names its runs."""
    run = prepared(tmp_path, "seeds.test=2")
    other = run.paths.folder.with_name("other")
    shutil.copytree(run.paths.folder, other)

    with pytest.raises(RecordError, match=f"experiment of 2 runs; .*: tiny/other, {run.name}"):
        evaluate("tiny", EvaluationRequest(), run.study, Silent())


def test_films_are_of_the_episodes_that_were_played(ppo: Finished) -> None:
    """The film of an environment shows its first episode; the files say which they are."""
    result = shown(ppo, episodes=8, video=2, output="films")

    folder = ppo.study.folder / "films"
    names = [f"step-64-draw-0-episode-{i}{ending()}" for i in range(2)]
    assert [str(folder / name) for name in names] == [film["file"] for film in result["videos"]]
    assert names == sorted(path.name for path in folder.iterdir())
    assert result["returns"][:2] == [film["episode_return"] for film in result["videos"]]


def test_film_that_cannot_be_written_costs_no_result(ppo: Finished) -> None:
    """The numbers are there, the problem says what to do, and the exit code is 2."""
    words = ("--episodes", "2", "--video", "1", "--output", f"runs/{ppo.name}/spec.json")
    ended = rlexp(ppo.study.folder, "evaluate", ppo.name, *words, "--json")

    result = ended.content
    assert (2, 2, []) == (ended.code, result["n"], result["videos"])
    assert "choose another folder with --output" in result["problem"]
    assert result["problem"] in ended.err


def test_unknown_checkpoint_is_refused(ppo: Finished) -> None:
    """The refusal names the checkpoints there are."""
    with pytest.raises(RecordError, match=r"no checkpoint at step 33 \(it has: 32, 48\)"):
        evaluate(ppo.name, EvaluationRequest(checkpoint=33), ppo.study, Silent())


def test_run_without_a_model_is_refused(tmp_path: Path) -> None:
    """A run that has not ended has no final policy."""
    run = prepared(tmp_path)

    with pytest.raises(RecordError, match="has no final policy: it is lost"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


def test_failed_run_is_refused(tmp_path: Path) -> None:
    """The policy of a failed run is none, and the refusal says why it failed."""
    run = finish(tmp_path, *CASES["ppo"], "algorithm.learning_rate=1e30")

    with pytest.raises(RecordError, match=r"no final policy: it is failed \(nan\): "):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


def test_draw_out_of_range_is_refused(ppo: Finished) -> None:
    """There are only so many sets of fresh seeds."""
    with pytest.raises(ConfigError, match="draws are 0 … 2047"):
        evaluate(ppo.name, EvaluationRequest(draw=2048), ppo.study, Silent())


def test_damaged_model_is_refused(broken: Callable[[str, bytes], Finished]) -> None:
    """A model that is no zip file gives one line, not a traceback."""
    run = broken("model.zip", b"not a zip file")

    with pytest.raises(RecordError, match=r"model\.zip is damaged or does not fit") as refusal:
        evaluate(run.name, EvaluationRequest(), run.study, Silent())
    assert "\n" not in str(refusal.value)


def test_truncated_model_is_refused(
    ppo: Finished, broken: Callable[[str, bytes], Finished]
) -> None:
    """A model of which the end is lost is refused."""
    run = broken("model.zip", ppo.paths.model.read_bytes()[:-500])

    with pytest.raises(RecordError, match=r"model\.zip is damaged"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


def test_model_of_another_algorithm_is_refused(
    tmp_path: Path, broken: Callable[[str, bytes], Finished], trained: Callable[..., Finished]
) -> None:
    """Parameters that do not fit the run's network are refused."""
    other = trained(tmp_path / "other", *CASES["dqn"])
    run = broken("model.zip", other.paths.model.read_bytes())

    with pytest.raises(RecordError, match="does not fit this run"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


def test_weights_that_the_run_did_not_end_with_are_refused(
    ppo: Finished, broken: Callable[[str, bytes], Finished]
) -> None:
    """A model that fits, but has other weights than the journal says, is refused."""
    checkpoint = ppo.paths.checkpoints / "32" / "model.zip"
    run = broken("model.zip", checkpoint.read_bytes())

    with pytest.raises(RecordError, match="does not hold the weights that the run ended with"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


@pytest.mark.parametrize("member", ["policy.pth", "pytorch_variables.pth", "data"])
@pytest.mark.parametrize("algorithm", ["ppo", "ars"])
def test_nothing_is_unpickled(
    member: str, algorithm: str, tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A pickle in a model is refused or left alone: what it would do does not happen."""
    run = trained(tmp_path, *CASES[algorithm])
    sign = tmp_path / "sign"
    poison(run.paths.model, member, pickle.dumps(Bomb(str(sign))))

    if member == "data":
        evaluate(run.name, EvaluationRequest(episodes=1), run.study, Silent())
    else:
        with pytest.raises(RecordError, match="damaged"):
            evaluate(run.name, EvaluationRequest(episodes=1), run.study, Silent())
    assert not sign.exists()


def poison(path: Path, member: str, payload: bytes) -> None:
    """Put a pickle into a model, where plain stable-baselines3 would load it."""
    content = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            value = old.read(name)
            if name == member == "data":
                entry = {":type:": "x", ":serialized:": base64.b64encode(payload).decode()}
                value = json.dumps({**json.loads(value), "ep_info_buffer": entry}).encode()
            new.writestr(name, payload if name == member != "data" else value)
    path.write_bytes(content.getvalue())


@pytest.mark.parametrize("damage", ["missing", "shape", "pickle"])
def test_bad_statistics_are_refused(
    damage: str, tmp_path: Path, trained: Callable[..., Finished]
) -> None:
    """A normalised policy is not played without the statistics that it was trained with."""
    run = trained(tmp_path, *CASES["ppo"], *NORMALISED)
    with np.load(run.paths.normalisation) as arrays:
        statistics: dict[str, Any] = dict(arrays)
    if damage == "missing":
        run.paths.normalisation.unlink()
    else:
        wrong = np.zeros(7) if damage == "shape" else np.asarray([object()], dtype=object)
        np.savez(run.paths.normalisation, **{**statistics, "observation/mean": wrong})

    with pytest.raises(RecordError, match=r"normalisation\.npz"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


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
    """A run from elsewhere cannot make us import a module; the refusal's own command can."""
    sign = tmp_path / "sign"
    (tmp_path / "foreign_task.py").write_text(FOREIGN.format(sign=str(sign)))
    monkeypatch.syspath_prepend(tmp_path)
    words = ("environment=gymnasium", "environment.id=foreign_task:Foreign-v0")
    run = finish(tmp_path, *CASES["ppo"], *words)
    sign.unlink()
    monkeypatch.delitem(sys.modules, "foreign_task")
    monkeypatch.delitem(gymnasium.registry, "Foreign-v0")

    with pytest.raises(RecordError, match=r"--allow-import foreign_task$"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())
    assert not sign.exists()
    allowed = Finished(Workspace(tmp_path, run.study.layout, ("foreign_task",)), run.paths)
    assert shown(allowed, episodes=2)["n"] == 2


def test_environment_that_raises_is_one_line(
    ppo: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an environment raises while it is made shows no traceback."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no\nlicence")

    monkeypatch.setattr(gymnasium, "make", refuse)

    with pytest.raises(EnvironmentFault, match=r"ValueError: no licence \(test_evaluate\.py:"):
        evaluate(ppo.name, EvaluationRequest(), ppo.study, Silent())


def test_damaged_spec_is_refused(broken: Callable[[str, bytes], Finished]) -> None:
    """A spec whose parts are no mappings gives one line."""
    run = broken("stop", b"")
    spec = record(run).spec
    plain = {**spec.plain(), "environment": ["rm", "-rf"]}
    changed = type(spec).from_plain(plain)
    publish_json(run.paths.spec, {"id": changed.id, **plain})

    with pytest.raises(RecordError, match="damaged"):
        evaluate(run.name, EvaluationRequest(), run.study, Silent())


def test_evaluating_writes_nothing_into_the_run(ppo: Finished) -> None:
    """The folder of a run has one writer, and this is not it."""
    before = {p: p.stat().st_mtime_ns for p in ppo.paths.folder.rglob("*")}

    shown(ppo, episodes=2)

    assert before == {p: p.stat().st_mtime_ns for p in ppo.paths.folder.rglob("*")}
