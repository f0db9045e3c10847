"""Options of other tools are refused with the words of rlexp that say the same."""

import shlex
from pathlib import Path

import pytest
from command_line import typed
from quick_parts import quick_parts

quick = pytest.fixture(autouse=True)(quick_parts)

SETTINGS = {
    "run --algo a2c": "algorithm=a2c",
    "run --algo=a2c": "algorithm=a2c",
    "run --env CartPole-v1": "environment=cartpole",
    "run --algo a2c --env acrobot --dry-run": "algorithm=a2c environment=acrobot --dry-run",
    "run --seed 3": "seeds.test=[3]",
    "run --seeds 3": "seeds.test=3",
    "run --lr 1e-3": "algorithm.learning_rate=1e-3",
    "run --gamma 0.9": "algorithm.gamma=0.9",
    "run --total-timesteps 5000": "budget.steps=5000",
    "run --n-envs 2 algorithm=a2c": "environment.vector.count=2 algorithm=a2c",
    "config show --lr 0.1": "algorithm.learning_rate=0.1",
    "config validate --algo a2c": "algorithm=a2c",
    "sweep quick --n-trials 3": "quick sweep.trials=3",
}
"""Commands with options of other tools, and what is to be typed behind the command's name."""


@pytest.mark.parametrize(("command", "meant"), SETTINGS.items())
def test_an_option_for_a_setting_is_answered_with_a_whole_command(
    tmp_path: Path, command: str, meant: str
) -> None:
    """The error gives a whole command that works when it is pasted, and nothing is written."""
    refused = typed(tmp_path, *command.split())
    assert (2, "", 1) == (refused.code, refused.out, len(refused.err.splitlines()))
    advised = shlex.split(refused.err.partition("type rlexp ")[2])
    name = command.partition(" -")[0].removesuffix(" quick")
    assert [*name.split(), *meant.split()] == advised
    plan = [] if advised[0] == "config" or "--dry-run" in advised else ["--dry-run"]
    pasted = typed(tmp_path, *advised, *plan)
    assert 0 == pasted.code, pasted.err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--multirun", "algorithm=ppo,a2c"),
        ("-m", "algorithm=ppo,a2c"),
        ("--cfg", "rlexp config show"),
        ("-cn", "rlexp init --study"),
        ("--config-name", "rlexp init --study"),
        ("--config-dir", "rlexp config list"),
        ("-cd", "rlexp config list"),
        ("--config-path", "rlexp config list"),
        ("--info", "rlexp config show"),
        ("--hydra-help", "rlexp run --help"),
    ],
)
def test_options_of_hydra_are_answered(tmp_path: Path, option: str, advice: str) -> None:
    """An option of Hydra is refused by its name, with the way of rlexp."""
    refused = typed(tmp_path, "run", option, "job")
    assert (2, "", 1) == (refused.code, refused.out, len(refused.err.splitlines()))
    assert refused.err.startswith(f"rlexp: no such option: {option}; ")
    assert advice in refused.err


def test_a_command_without_overrides_is_not_advised_to_take_them(tmp_path: Path) -> None:
    """`rlexp show` takes no setting, unlike `rlexp config show`."""
    refused = typed(tmp_path, "show", "first", "--lr", "3")
    assert refused.err.endswith("see 'rlexp show --help'\n")
    assert "algorithm." not in refused.err


@pytest.mark.parametrize(
    ("words", "nearest"), [("run --retyr", "'--retry'"), ("run --jso", "'--json'"), ("ls --m", "")]
)
def test_other_unknown_options_are_answered_with_the_nearest(
    tmp_path: Path, words: str, nearest: str
) -> None:
    """An option that no other tool has is answered with the nearest option, and the help."""
    refused = typed(tmp_path, *words.split())
    assert 2 == refused.code
    assert nearest in refused.err
    assert "--help" in refused.err
