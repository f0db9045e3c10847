"""What compiled training refuses, by name, before anything starts; none of this needs JAX."""

import json
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from members import member

from rlexp.algorithms.compiled.training import CompiledTraining
from rlexp.algorithms.compiled_ppo import CompiledPPO
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_parts
from rlexp.components.sticky_actions import StickyActions
from rlexp.config.validate import build
from rlexp.environments import Environment, twins
from rlexp.environments.composed import ComposedTask
from rlexp.environments.twins import TWINS, check_twin, twin_digest
from rlexp.errors import ConfigError
from rlexp.protocol.identity import plug_in_of
from rlexp.protocol.spec import RunSpec


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX seems to be installed, whether it is or not."""
    monkeypatch.setattr(twins, "find_spec", lambda name: ModuleSpec(name, None))


def task(name: str, **changes: object) -> Environment:
    """A task with changed settings."""
    environment: Environment = member("environment", name, **changes)
    return environment


def algorithm(**changes: object) -> CompiledPPO:
    """The algorithm with changed settings."""
    built: CompiledPPO = member("algorithm", "compiled_ppo", **changes)
    return built


@pytest.mark.parametrize("registered", sorted(TWINS))
def test_a_task_with_a_twin_is_accepted(registered: str) -> None:
    """Every task of the list can be trained on."""
    check_twin(task("gymnasium", id=registered), None)


def test_a_task_without_a_twin_is_refused_with_those_that_have_one() -> None:
    """The error names the task, the tasks with a twin, and where to name one's own."""
    with pytest.raises(ConfigError, match=r"LunarLander-v3 has no compiled twin") as refused:
        check_twin(task("gymnasium", id="LunarLander-v3"), None)
    assert all(name in str(refused.value) for name in TWINS)
    assert "algorithm.twin" in str(refused.value)
    check_twin(task("gymnasium", id="LunarLander-v3"), {"_target_": "mine.Lander"})


def test_without_jax_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where JAX is missing, the error holds the command that installs it."""
    monkeypatch.setattr(twins, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'rlexp\[compiled\]'") as refused:
        check_twin(task("cartpole"), None)
    assert "\n" not in str(refused.value)


def test_a_component_is_refused_by_name() -> None:
    """A component wraps environments of Gymnasium, which compiled training does not have."""
    sticky = StickyActions(probability=0.25, stage="both")
    inside = ComposedTask(task("cartpole"), {"sticky_actions": sticky})
    with pytest.raises(ConfigError, match=r"components of CartPole-v1 \(sticky_actions\)"):
        check_twin(inside, None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"arguments": {"sutton_barto_reward": True}}, r"environment\.arguments"),
        ({"wrappers": [{"name": "FlattenObservation"}]}, r"environment\.wrappers"),
    ],
)
def test_what_changes_a_task_is_refused(change: dict[str, object], named: str) -> None:
    """Arguments and wrappers change the task, and the twin of rlexp does not know them."""
    with pytest.raises(ConfigError, match=named):
        check_twin(task("cartpole", **change), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("normalise_observations", True),
        ("normalise_rewards", True),
        ("frame_stack", 3),
        ("kind", "subprocess"),
    ],
)
def test_settings_of_the_vector_are_refused_by_name(key: str, value: object) -> None:
    """A vector that transforms numbers or starts processes is no part of compiled training."""
    vector = {
        "count": 1,
        "kind": "dummy",
        "frame_stack": 1,
        "normalise_observations": False,
        "normalise_rewards": False,
        "clip_observations": 10.0,
        "clip_rewards": 10.0,
    }
    with pytest.raises(ConfigError, match=rf"environment\.vector\.{key}"):
        check_twin(task("cartpole", vector={**vector, key: value}), None)


def test_a_policy_beyond_its_layers_and_an_unknown_device_are_refused() -> None:
    """An argument of the policy that is not compiled, and a device for which there is no JAX."""
    learner, cart = algorithm(), task("cartpole")
    learner.check_task(cart, {"net_arch": [8]}, "cpu")
    with pytest.raises(ConfigError, match=r"policy_kwargs\.share_features_extractor"):
        learner.check_task(cart, {"share_features_extractor": False}, "cpu")
    with pytest.raises(ConfigError, match=r"compute\.device=mps"):
        learner.check_task(cart, {}, "mps")


@pytest.mark.parametrize("name", ["compiled_dqn", "compiled_sac"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"train_freq": (1, "episode")}, r"algorithm\.train_freq=\[1, 'episode'\]"),
        (
            {
                "optimize_memory_usage": True,
                "replay_buffer_kwargs": {"handle_timeout_termination": False},
            },
            r"algorithm\.optimize_memory_usage=true is not part",
        ),
        ({"replay_buffer_kwargs": {"mine": 1}}, r"algorithm\.replay_buffer_kwargs\.mine"),
    ],
)
def test_collecting_that_is_not_compiled_is_refused(
    name: str, change: dict[str, object], named: str
) -> None:
    """Rollouts of episodes and other replay buffers are refused, with the algorithm to take instead."""
    with pytest.raises(ConfigError, match=named) as refused:
        member("algorithm", name, **change).check(1)
    assert f"algorithm={name.removeprefix('compiled_')})" in str(refused.value)


def test_the_digest_of_the_twin_is_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The identity holds the sha256 of the twin's file, and a changed file gives another."""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    file, twin = tmp_path / "pinned_twin.py", {"_target_": "pinned_twin.Mine"}
    file.write_text("first = 1\n")
    cart = task("cartpole")
    first = algorithm(twin=twin).pinned(cart)
    assert first == first.pinned(cart)
    file.write_text("second = 2\n")
    assert first.twin_digest != algorithm(twin=twin).pinned(cart).twin_digest
    with pytest.raises(ConfigError, match="is not the digest of the twin"):
        first.pinned(cart)
    assert algorithm().pinned(cart).twin_digest == twin_digest(cart, None)


def test_the_digest_of_a_twin_covers_its_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each twin of rlexp is a file of its own, which imports nothing of rlexp."""
    monkeypatch.undo()
    tasks = [task("gymnasium", id=registered) for registered in TWINS]
    assert len(TWINS) == len({twin_digest(environment, None) for environment in tasks})
    for path in TWINS.values():
        spec = find_spec(path.rpartition(".")[0])
        assert spec is not None
        assert spec.origin is not None
        assert "import rlexp" not in Path(spec.origin).read_text()
        assert "from rlexp" not in Path(spec.origin).read_text()


@pytest.mark.parametrize("path", ["", "Mine", "no_such_module.Mine"])
def test_a_twin_without_a_module_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `_target_` that names no class in an importable module is one line."""
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"algorithm\.twin"):
        twin_digest(task("cartpole"), {"_target_": path})


def test_ppo_and_compiled_ppo_have_different_identities() -> None:
    """Reports aggregate by the name of the algorithm, so the two are never pooled."""
    assert member("algorithm", "ppo").identity != algorithm().identity


RECORDS = json.loads((Path(__file__).parents[1] / "golden" / "compiled_runs.json").read_text())
"""The definitions of runs from before the learners had a folder of their own."""


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r["algorithm"]["plug_in"]["name"])
def test_a_recorded_run_is_still_the_same_run(record: dict[str, Any]) -> None:
    """An earlier record is built again, with its id, as the plug-in that a new command names."""
    name = record["algorithm"]["plug_in"]["name"]
    spec = RunSpec.from_plain(record)
    assert record["id"] == spec.id
    built = build(spec.algorithm, "algorithm")
    assert type(member("algorithm", name)) is type(built)
    assert plug_in_of(type(built), "algorithm") == record["algorithm"]["plug_in"]
    assert built.learner_class().learn is CompiledTraining.learn


def test_an_error_names_the_algorithm_as_commands_do() -> None:
    """Refusals say `algorithm=compiled_dqn`, and no name of a class."""
    compiled, library = (member("algorithm", name) for name in ("compiled_dqn", "dqn"))
    layers = {"net_arch": {"pi": [8], "vf": [8]}}
    with pytest.raises(ConfigError, match=r"^algorithm=compiled_dqn has a single network"):
        compiled.check_network(layers)
    with pytest.raises(ConfigError, match=r"^DQN has a single network"):
        library.check_network(layers)
    box = EnvironmentSpaces(("Box",), "Box", environments=1, masked=False)
    with pytest.raises(ConfigError, match=r"but algorithm=compiled_dqn needs Discrete"):
        check_parts(member("agent", "mlp"), "mlp", compiled, box, "Pendulum-v1")
