"""`rlexp config import`: a file of rl-baselines3-zoo becomes a matrix, whole or not at all."""

from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from finished_runs import study
from quick_parts import quick_yaml

from rlexp.app.commands import import_hyperparameters as importing
from rlexp.app.commands.import_hyperparameters import Asked, import_hyperparameters
from rlexp.config.compose import compose
from rlexp.config.foreign_entries import environment_options
from rlexp.console import Console
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
"""As the zoo writes it: a default, an entry, and one that is merged with it."""


def asked(path: Path, **changes: object) -> Asked:
    """What is asked for, by default everything, printed."""
    plain = {"algorithm": None, "name": None, "tasks": (), "left_out": (), **changes}
    return Asked(path=str(path), **plain)  # type: ignore[arg-type]


def zoo(folder: Path, content: str = PPO, name: str = "ppo.yml") -> Path:
    """A file of the zoo."""
    path = folder / name
    path.write_text(dedent(content))
    return path


def refusal(wanted: Asked, folder: Path) -> str:
    """Why it is refused, which is one line and leaves nothing behind."""
    with pytest.raises(ConfigError) as caught:
        import_hyperparameters(wanted, study(folder), Console())
    assert "\n" not in str(caught.value)
    assert not (folder / "conf").exists()
    return str(caught.value)


def test_a_file_becomes_a_matrix_that_composes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks get the names of our environments, where there are such; defaults are left out."""
    wanted = asked(zoo(tmp_path), name="mine")
    assert 0 == import_hyperparameters(wanted, study(tmp_path), Console())
    pendulum, swimmer = (c.plain for c in compose(["+benchmark=mine"], tmp_path))

    printed = capsys.readouterr()
    assert "ppo on 2 tasks" in printed.out
    assert "default" in printed.err
    assert (100_000, 5_000) == tuple(
        pendulum["budget"][key] for key in ("steps", "evaluation_every")
    )
    assert -1235.0 == pendulum["environment"]["reference"]["random"]
    assert {"shape": "linear", "initial": 0.001} == pendulum["algorithm"]["learning_rate"]
    assert ([64], False, {"log_std_init": -2}) == tuple(
        pendulum["agent"][key] for key in ("actor", "ortho_init", "policy_kwargs")
    )
    assert ("Swimmer-v4", 4, True) == (
        swimmer["environment"]["id"],
        swimmer["environment"]["vector"]["count"],
        swimmer["environment"]["vector"]["normalise_rewards"],
    )
    assert (1024, 0.9999) == tuple(swimmer["algorithm"][key] for key in ("n_steps", "gamma"))


def test_without_a_name_it_is_printed_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As yaml that would be the same matrix."""
    path = zoo(tmp_path)
    import_hyperparameters(asked(path, tasks=("Pendulum-v1",)), study(tmp_path), Console())
    assert ["pendulum"] == list(yaml.safe_load(capsys.readouterr().out)["tasks"])
    assert [path] == list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Not even by the same."""
    wanted = asked(zoo(tmp_path), name="mine")
    import_hyperparameters(wanted, study(tmp_path), Console())
    with pytest.raises(ConfigError, match="is there already"):
        import_hyperparameters(wanted, study(tmp_path), Console())


@cache
def packaged_options() -> dict[str, str]:
    """The ids of a study without environments of its own."""
    return environment_options(Path(__file__).parent / "missing")


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of packaged environments, without reading them again."""
    monkeypatch.setattr(importing, "environment_options", lambda _: packaged_options())


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": ("Pendulum-v2",)}, "did you mean 'Pendulum-v1'?"),
        ({"left_out": ("Pendulum-v1", "Swimmer-v4")}, "nothing of"),
        ({"tasks": ("default",)}, "line 1: it is no id of Gymnasium"),
        ({"algorithm": "ppoo"}, "there is no algorithm=ppoo; did you mean 'ppo'?"),
        ({"algorithm": "ars"}, "line 10, n_steps: neither the algorithm"),
        ({"name": "../mine"}, "is no name"),
    ],
)
def test_what_is_asked_for_must_be_there(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    """Entries, the algorithm and its settings, and a name that is one."""
    assert said in refusal(asked(zoo(tmp_path), **changes), tmp_path)


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("line", "said"),
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    """It is named, nothing is executed, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    content = f"Pendulum-v1:\n  n_timesteps: 1000\n  {line}\nAcrobot-v1:\n  n_timesteps: 9\n"
    told = refusal(asked(zoo(tmp_path, content), name="mine"), tmp_path)
    assert said in told
    assert "--leave-out Pendulum-v1" in told
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "a", "Pendulum-v1: 3", "{", "Pendulum-v1: &a {b: *a}", "a: {b: 1, b: 2}"],
)
def test_a_file_without_entries_is_refused(tmp_path: Path, content: str) -> None:
    """Whatever else it holds."""
    assert "ppo.yml" in refusal(asked(zoo(tmp_path, content)), tmp_path)
