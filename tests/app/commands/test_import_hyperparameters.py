"""`rlexp config import` turns a file of rl-baselines3-zoo into a benchmark, or writes nothing."""

from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from command_line import give, give_json, rlexp
from finished_runs import study
from quick_parts import quick_yaml

from rlexp.app.commands.setup import import_hyperparameters as importing
from rlexp.app.commands.setup.import_hyperparameters import (
    HyperparametersRequest,
    import_hyperparameters,
)
from rlexp.config.compose import compose
from rlexp.config.third_party_yaml import environment_options
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)

PPO = """\
    default:
      n_timesteps: !!float 1e6
      policy: 'MlpPolicy'

    # Tuned
    Pendulum-v1: &shared
      n_envs: 4
      n_timesteps: !!float 1e5
      policy: 'MlpPolicy'
      n_steps: 1024
      learning_rate: lin_1e-3
      policy_kwargs: "dict(log_std_init=-2, ortho_init=False,
                           net_arch=dict(pi=[64], vf=[64]))"

    Swimmer-v4:
      <<: *shared
      normalize: true
      gamma: 0.9999
    """
"""A file as the zoo writes it, with a default, an entry, and an entry that merges another."""


def request_for(path: Path, **changes: Any) -> HyperparametersRequest:
    """A request for a file; by default it has all entries and no name to write to."""
    return HyperparametersRequest(path=str(path), **changes)


def zoo_file(folder: Path, content: str = PPO, name: str = "ppo.yml") -> Path:
    """A file in the format of rl-baselines3-zoo."""
    path = folder / name
    path.write_text(dedent(content))
    return path


def refusal(request: HyperparametersRequest, folder: Path) -> str:
    """The one-line error of a refused import, which leaves no file behind."""
    with pytest.raises(ConfigError) as caught:
        import_hyperparameters(request, study(folder))
    assert "\n" not in str(caught.value)
    assert not (folder / "conf").exists()
    return str(caught.value)


def test_a_file_becomes_a_matrix_that_composes(tmp_path: Path) -> None:
    """A file becomes a benchmark with the packaged environments and the settings of its entries."""
    result = import_hyperparameters(request_for(zoo_file(tmp_path), name="mine"), study(tmp_path))
    pendulum, swimmer = (c.plain for c in compose(["+benchmark=mine"], tmp_path))

    assert tmp_path / "conf" / "benchmark" / "mine.yaml" == result.file
    assert ("ppo", ("Pendulum-v1", "Swimmer-v4")) == (result.algorithm, result.tasks)
    assert ("default",) == result.left_out
    assert (100_000, 5_000) == tuple(
        pendulum["budget"][key] for key in ("steps", "evaluation_every")
    )
    assert -1235.0 == pendulum["environment"]["reference"]["random"]
    assert {"shape": "linear", "initial": 0.001} == pendulum["algorithm"]["learning_rate"]
    assert ([64], False, {"log_std_init": -2}) == tuple(
        pendulum["agent"][key] for key in ("actor", "ortho_init", "policy_kwargs")
    )
    assert ("Swimmer-v5", 4, True) == (
        swimmer["environment"]["id"],
        swimmer["environment"]["vector"]["count"],
        swimmer["environment"]["vector"]["normalise_rewards"],
    )
    assert (1024, 0.9999) == tuple(swimmer["algorithm"][key] for key in ("n_steps", "gamma"))


def test_without_a_name_it_is_printed_and_nothing_is_written(tmp_path: Path) -> None:
    """Without --name, the YAML of the benchmark is printed and no file is written."""
    path = zoo_file(tmp_path)
    text = give(tmp_path, "config", "import", "ppo.yml", "--task", "Pendulum-v1")
    assert ["pendulum"] == list(yaml.safe_load(text)["tasks"])
    assert [path] == list(tmp_path.iterdir())


def test_with_a_name_the_file_and_the_next_commands_are_printed(tmp_path: Path) -> None:
    """With --name, the file and the next commands are printed, and a remark on left-out entries."""
    zoo_file(tmp_path)
    printed = rlexp(tmp_path, "config", "import", "ppo.yml", "--name", "mine")
    assert [
        f"wrote {tmp_path / 'conf' / 'benchmark' / 'mine.yaml'}: ppo on 2 tasks",
        "To see it: rlexp config show +benchmark=mine",
        "To run it: rlexp run +benchmark=mine --dry-run",
    ] == printed.out.splitlines()
    assert [
        "Left out, because they are for no single task: default",
        "Another task than in the zoo: Swimmer-v4 is Swimmer-v5 here",
    ] == printed.err.splitlines()


def test_json_has_the_benchmark_as_text(tmp_path: Path) -> None:
    """The JSON document has the YAML, the tasks and the left-out entries."""
    zoo_file(tmp_path)
    arguments = ("config", "import", "ppo.yml")
    result = give_json(tmp_path, "imported-hyperparameters", *arguments)
    assert ["pendulum", "swimmer"] == list(yaml.safe_load(result["text"])["tasks"])
    assert (2, ["Swimmer-v4 is Swimmer-v5 here"], []) == tuple(
        result[key] for key in ("cells", "notes", "unusable")
    )
    assert "# Swimmer-v4 is Swimmer-v5 here." in result["text"]
    assert (None, None, []) == (result["name"], result["file"], result["next"])
    assert (["Pendulum-v1", "Swimmer-v4"], ["default"]) == (result["tasks"], result["left_out"])


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """An existing benchmark is refused, even with the same content."""
    request = request_for(zoo_file(tmp_path), name="mine")
    import_hyperparameters(request, study(tmp_path))
    with pytest.raises(ConfigError, match="already exists"):
        import_hyperparameters(request, study(tmp_path))


@cache
def packaged_options() -> dict[str, str]:
    """The environment ids of a workspace without its own environments."""
    return environment_options(Path(__file__).parent / "missing")


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of packaged environments, read only once."""
    monkeypatch.setattr(importing, "environment_options", lambda _: packaged_options())


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("Pendulum-v2",)}, "did you mean 'Pendulum-v1'?"),
        ({"left_out": ("Pendulum-v1", "Swimmer-v4")}, "no entry of"),
        ({"tasks": ("default",)}, "line 1: it is not a Gymnasium id"),
        ({"algorithm": "ppoo"}, "there is no algorithm=ppoo; did you mean 'ppo'?"),
        ({"algorithm": "ars"}, "line 10, n_steps: neither the algorithm"),
        ({"name": "../mine"}, "is not a valid name"),
    ],
)
def test_unknown_entries_algorithms_and_names_are_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    """Unknown entries, algorithms and settings, and invalid names are refused."""
    assert message in refusal(request_for(zoo_file(tmp_path), **changes), tmp_path)


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gamma: \"__import__('os').system('touch pwned')\"", "line 3, gamma: "),
        ("gamma: !!python/object/apply:os.system ['touch pwned']", "line 3, gamma: "),
        ("gamma: !!python/name:os.system", "line 3, gamma: "),
        ("policy_kwargs: \"dict(a=open('pwned', 'w'))\"", "line 3, policy_kwargs: "),
        ("env_wrapper: os.system", "line 3, env_wrapper: the wrapper 'os.system'"),
        ("gamma: 2", "line 3: algorithm.gamma=2: must be"),
        ("env_kwargs: {'a b': 1}", "line 1: "),
        ("gamma: .nan", "line 3, gamma: "),
        ("env_kwargs: {g: '${oc.env:HOME}'}", "line 3, env_kwargs: "),
        ("<<: 3", "line 3, <<: neither"),
    ],
)
def test_one_bad_line_refuses_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    """A bad line is named, and the file is refused without executing code."""
    monkeypatch.chdir(tmp_path)
    content = f"Pendulum-v1:\n  n_timesteps: 1000\n  {line}\nAcrobot-v1:\n  n_timesteps: 9\n"
    error = refusal(request_for(zoo_file(tmp_path, content), name="mine"), tmp_path)
    assert message in error
    assert "--leave-out Pendulum-v1" in error
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "a", "Pendulum-v1: 3", "{", "Pendulum-v1: &a {b: *a}", "a: {b: 1, b: 2}"],
)
def test_a_file_without_entries_is_refused(tmp_path: Path, content: str) -> None:
    """A file without valid entries is refused."""
    assert "ppo.yml" in refusal(request_for(zoo_file(tmp_path, content)), tmp_path)


ATARI = """\
    atari:
      env_wrapper:
        - stable_baselines3.common.atari_wrappers.AtariWrapper
      frame_stack: 4
      policy: 'CnnPolicy'
      n_timesteps: !!float 1e7
      buffer_size: 100000
    CartPole-v1:
      n_timesteps: 1000
    """


@pytest.mark.usefixtures("ids")
def test_atari_becomes_all_games_with_their_own_preprocessing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry for Atari becomes a cell for each game, which keeps the wrappers of the task."""
    monkeypatch.setattr(importing, "check_compatibility", lambda *_: None)
    path = zoo_file(tmp_path, ATARI, "dqn.yml")
    result = import_hyperparameters(request_for(path, name="games"), study(tmp_path))
    games = [option for name, option in packaged_options().items() if name.startswith("ALE/")]
    assert (("atari", "CartPole-v1"), len(games) + 1) == (result.tasks, result.cells)
    (pong,) = compose(["+benchmark=games", "environment=atari_pong"], tmp_path)
    assert (4, 100_000) == (
        pong.plain["environment"]["vector"]["frame_stack"],
        pong.plain["algorithm"]["buffer_size"],
    )
    assert "AtariPreprocessing" in [w["name"] for w in pong.plain["environment"]["wrappers"]]
    assert "cnn" in pong.plain["agent"]["_target_"]


@pytest.mark.usefixtures("ids")
def test_atari_that_nobody_named_is_left_out_if_it_cannot_be_converted(tmp_path: Path) -> None:
    """Another file of the zoo can be imported although its entry for Atari cannot."""
    content = ATARI.replace("buffer_size: 100000", "callback: rl_zoo3.callbacks.Any")
    path = zoo_file(tmp_path, content, "dqn.yml")
    result = import_hyperparameters(request_for(path), study(tmp_path))
    assert (("CartPole-v1",), ("atari",)) == (result.tasks, result.left_out)
    assert "callback: " in refusal(request_for(path, tasks=("atari",)), tmp_path)


FOREIGN = """\
    CartPole-v1:
      n_timesteps: 2048
    HalfCheetahBulletEnv-v0:
      n_timesteps: 2048
    pwned:Evil-v0:
      n_timesteps: 2048
    """


def test_entries_that_cannot_be_trained_are_imported_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reasons are printed with the words that leave the entries out; no module is imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pwned.py").write_text("open('touched', 'w')\n")
    zoo_file(tmp_path, FOREIGN)
    printed = rlexp(tmp_path, "config", "import", "ppo.yml", "--name", "mine").err.splitlines()
    assert [
        "Cannot be trained here: HalfCheetahBulletEnv-v0",
        "Cannot be trained here: pwned:Evil-v0",
    ] == [line.partition(" (")[0] for line in printed[:-1]]
    out = printed[-1].removeprefix("To leave these out: ").split()
    assert ["--leave-out", "HalfCheetahBulletEnv-v0", "--leave-out", "pwned:Evil-v0"] == out
    again = rlexp(tmp_path, "config", "import", "ppo.yml", *out)
    assert "" == again.err
    assert not (tmp_path / "touched").exists()
    # A dry run of the whole matrix plans the cell that can be trained.
    words = ("+benchmark=mine", "environment=cartpole,HalfCheetahBulletEnv-v0", "seeds.test=2")
    plan = rlexp(tmp_path, "run", *words, "--dry-run", "--json").document("run-plan")
    assert (2, ["HalfCheetahBulletEnv-v0"]) == (
        plan["runs"],
        [cell["task"] for cell in plan["refused"]],
    )
    with pytest.raises(ConfigError, match="HalfCheetahBulletEnv"):
        rlexp(tmp_path, "run", *words)


@pytest.mark.usefixtures("ids")
def test_two_entries_for_one_task_are_refused(tmp_path: Path) -> None:
    """Two versions of a task of the zoo would be one cell, so one of them must be left out."""
    content = "Ant-v4:\n  n_timesteps: 9000\nAnt-v3:\n  n_timesteps: 9000\n"
    error = refusal(request_for(zoo_file(tmp_path, content), name="mine"), tmp_path)
    assert "line 3: an earlier entry is already the task ant" in error
    assert "--leave-out Ant-v3" in error
