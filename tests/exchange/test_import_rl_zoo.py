"""Log folders of rl-baselines3-zoo; their configuration is data with any YAML tags."""

from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from import_sources import given, settled, write_evaluations, write_monitors

from rlexp.config.third_party_yaml import read_third_party_yaml
from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.imported_study import (
    ImportedStudy,
    ImportOptions,
    MalformedError,
    ReturnKind,
)
from rlexp.exchange.importers.rl_zoo import fits, read_rl_zoo

CONFIG = OrderedDict(
    [
        ("batch_size", 32),
        ("learning_rate", "lin_2.5e-4"),
        ("n_timesteps", 400.0),
        ("normalize", True),
        ("policy_kwargs", "dict(net_arch=[64, 64])"),
    ]
)
ARGUMENTS = OrderedDict([("algo", "ppo"), ("env", "Toy-v0"), ("n_timesteps", -1), ("seed", 17)])


def zoo(
    folder: Path, number: int = 1, *, evaluated: bool = True, config: Any = None, **arguments: Any
) -> Path:
    """A log folder of the zoo, with YAML files and results written by the same libraries."""
    run = folder / "logs" / "ppo" / f"Toy-v0_{number}"
    (run / "Toy-v0").mkdir(parents=True)
    written_config = OrderedDict(CONFIG) if config is None else config
    (run / "Toy-v0" / "config.yml").write_text(yaml.dump(written_config))
    written_arguments = OrderedDict({**ARGUMENTS, **arguments})
    (run / "Toy-v0" / "args.yml").write_text(yaml.dump(written_arguments))
    (run / "best_model.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    write_monitors(run, [100, 150], [250])
    if evaluated:
        write_evaluations(run, [100, 200, 300, 400], [[1.0, 2.0]] * 4)
    return folder / "logs"


def read(logs: Path, **options: Any) -> ImportedStudy:
    """Read a folder of logs."""
    return read_rl_zoo(given(logs), ImportOptions(**options), read_third_party_yaml)


def test_a_folder(tmp_path: Path) -> None:
    """Algorithm, task, seed, budget and hyperparameters are read with the evaluations."""
    logs = zoo(tmp_path)
    assert "object/apply:collections.OrderedDict" in (
        (logs / "ppo" / "Toy-v0_1" / "Toy-v0" / "config.yml").read_text()
    )
    [run] = read(logs).runs
    assert ("ppo", "Toy-v0", 17, 400) == (run.label, run.task, run.seed, run.steps)
    assert {k: v for k, v in CONFIG.items() if k != "n_timesteps"} == run.settings
    assert (ReturnKind.EVALUATIONS, True) == (run.returns, run.deterministic)
    assert [100, 200, 300, 400] == [point.step for point in run.points]
    ends = ("evaluations.npz", "Toy-v0/config.yml", "Toy-v0/args.yml")
    assert [f"logs/ppo/Toy-v0_1/{end}" for end in ends] == [name for name, _ in run.files]


def test_what_is_left_out(tmp_path: Path) -> None:
    """Monitor files beside evaluations, and models, are listed as left out."""
    left_out = read(zoo(tmp_path)).left_out
    expected = {"0.monitor.csv", "1.monitor.csv", "best_model.zip"}
    assert {f"logs/ppo/Toy-v0_1/{name}" for name in expected} == set(left_out)


def test_without_evaluations(tmp_path: Path) -> None:
    """Without evaluations, the training episodes of all environments are read."""
    [run] = read(zoo(tmp_path, evaluated=False)).runs
    assert (ReturnKind.TRAINING, [200, 500, 500]) == (run.returns, [p.step for p in run.points])


def test_arguments_override_the_configuration(tmp_path: Path) -> None:
    """The steps in the arguments override the steps in the configuration."""
    assert 900 == read(zoo(tmp_path, n_timesteps=900)).runs[0].steps


def test_several_seeds(tmp_path: Path) -> None:
    """Folders with one configuration are seeds of one label."""
    zoo(tmp_path, 1, seed=1)
    logs = zoo(tmp_path, 2, seed=2)
    plan = settled(*read(logs).runs, kind="rl-zoo")
    assert [1, 2] == [run.spec.seed for run in plan.runs]
    assert 1 == len(plan.experiment.configurations)


def test_several_configurations(tmp_path: Path) -> None:
    """Folders with different hyperparameters are refused under one label."""
    zoo(tmp_path, 1, seed=1)
    logs = zoo(tmp_path, 2, seed=2, config={**CONFIG, "batch_size": 64})
    with pytest.raises(ProtocolError, match=r"batch_size 32 and 64.*another --label"):
        settled(*read(logs).runs, kind="rl-zoo")


def test_the_folder_of_one_run(tmp_path: Path) -> None:
    """The label comes from the arguments if only the folder of one run is imported."""
    zoo(tmp_path)
    [run] = read(tmp_path / "logs" / "ppo" / "Toy-v0_1").runs
    assert "ppo" == run.label


def test_only_the_zoo_fits(tmp_path: Path) -> None:
    """Files of Stable-Baselines3 alone are not recognised as a folder of the zoo."""
    write_evaluations(tmp_path / "CartPole-v1_1", [1], [[1.0]])
    assert not fits(given(tmp_path / "CartPole-v1_1"))


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.mkdir ['{canary}']",
        "a: !!python/object/apply:os.mkdir ['{canary}']",
        "!!python/object/new:pathlib.Path ['{canary}']",
        "a: !!python/object/apply:subprocess.check_call [[mkdir, '{canary}']]",
        "!!python/object/apply:collections.OrderedDict [[[!!python/name:os.mkdir '{canary}', 1]]]",
        "a: !!python/name:os.mkdir ''",
        "a: !!python/module:antigravity ''",
        "a: !!python/tuple [1, 2]",
        "? !!python/tuple [1, 2]\n: 3",
    ],
)
def test_tags_are_no_code(tmp_path: Path, text: str) -> None:
    """YAML tags never create an object and never execute code."""
    canary, path = tmp_path / "canary", tmp_path / "config.yml"
    path.write_text(text.format(canary=canary))
    with suppress(ConfigError):
        assert read_third_party_yaml(path) is not None
    assert not canary.exists()


def test_tags_are_kept_as_text(tmp_path: Path) -> None:
    """A tagged value is kept as the name of its tag."""
    path = tmp_path / "config.yml"
    path.write_text(
        "activation: !!python/name:torch.nn.modules.activation.Tanh ''\n"
        "noise: !!python/object/apply:numpy.dtype {args: [f8]}\n"
        "pair: !!python/tuple [1, 2.5]\nhuge: .inf\nwhen: 2020-01-01\nrate: lin_2.5e-4\non: true\n"
    )
    assert {
        "activation": "name:torch.nn.modules.activation.Tanh",
        "noise": {"python": "object/apply:numpy.dtype", "value": {"args": ["f8"]}},
        "pair": [1, 2.5],
        "huge": ".inf",
        "when": "2020-01-01",
        "rate": "lin_2.5e-4",
        "on": True,
    } == read_third_party_yaml(path)


def test_numbers_beyond_json_are_kept_as_text(tmp_path: Path) -> None:
    """An integer of thousands of digits is kept as text."""
    path, huge = tmp_path / "config.yml", f"0x{'f' * 6000}"
    path.write_text(f"huge: {huge}\nseed: {1 << 64}\n")
    assert {"huge": huge, "seed": 1 << 64} == read_third_party_yaml(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "config.yml"),
        ("- 1", "not a mapping of settings"),
        ("", "not a mapping of settings"),
        (
            "\n".join(
                [
                    "a: &a [x]",
                    *(
                        f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]"
                        for p, c in zip("abcdefghijk", "bcdefghijkl", strict=True)
                    ),
                ]
            ),
            "expands to more than",
        ),
        ("[" * 200 + "]" * 200, "expands to more than"),
        ("a: 1\na: 2", "twice"),
        (f"a: {'x' * (1 << 20)}", "larger than"),
        ("n_timesteps: many", "n_timesteps is 'many'"),
        ("n_timesteps: -5", "n_timesteps is -5"),
        ("!!python/object/apply:collections.OrderedDict\n- - [a]", "is not a list of pairs"),
        ("a: !!bool maybe", "invalid value"),
        ("a: !!int ''", "invalid value"),
        ("a: !!float x", "invalid value"),
    ],
)
def test_damaged_configurations(tmp_path: Path, text: str, message: str) -> None:
    """The error names the damaged file."""
    logs = zoo(tmp_path)
    (logs / "ppo" / "Toy-v0_1" / "Toy-v0" / "config.yml").write_text(text)
    with pytest.raises(MalformedError, match=r"logs/ppo/Toy-v0_1/Toy-v0/config\.yml") as caught:
        read(logs)
    assert message in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_run_without_results(tmp_path: Path) -> None:
    """The error names a run without results."""
    logs = zoo(tmp_path, evaluated=False)
    for path in logs.rglob("*.monitor.csv"):
        path.unlink()
    with pytest.raises(MalformedError, match=r"neither evaluations\.npz nor monitor\.csv"):
        read(logs)
