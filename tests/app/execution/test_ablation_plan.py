"""The plan of an ablation: which settings move together, and which configurations are trained."""

from collections.abc import Collection
from pathlib import Path

import pytest
from quick_parts import quick_parts

from rlexp.app.commands.judge.ablate_source import BASE, CHANGED, read_source, read_words
from rlexp.app.execution.ablated_configurations import Change, Endpoints, tied_keys
from rlexp.app.execution.ablation_plan import AblationPlan, plan_each, plan_path
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.space import Choice, Parameter, Space
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

TASK = ("environment=pendulum", "budget.steps=100")
THREE = ("algorithm.gamma=0.9,0.99", "algorithm.n_epochs=4,8", "algorithm.clip_range=0.1,0.3")


class Refusing(Endpoints):
    """Endpoints of which some combinations of changes are no valid configuration."""

    __slots__ = ()

    refused: tuple[set[str], ...] = ({"gamma"}, {"n_epochs", "clip_range"})

    def between(self, taken: Collection[Change], label: str) -> Configuration:
        """The configuration, unless these changes are refused."""
        if {change.name for change in taken} in self.refused:
            raise ConfigError("these settings do not go together")
        return super().between(taken, label)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(tmp_path, Layout(tmp_path / "runs"))


def endpoints(workspace: Workspace, *words: str, algorithm: str = "ppo") -> Endpoints:
    """The endpoints of words, of which those with two values are changes."""
    arguments = (f"algorithm={algorithm}", *TASK, *words)
    return read_source(read_words(arguments, workspace), ("rlexp",), workspace).endpoints


def refusing(workspace: Workspace) -> Refusing:
    """Endpoints with three changes, of which two combinations are refused."""
    e = endpoints(workspace, *THREE)
    return Refusing(e.old, e.new, e.old_words, e.new_words, e.changes, e.workspace)


def labels(plan: AblationPlan) -> list[str]:
    """The labels of the configurations that are trained."""
    return [configuration.label for configuration in plan.configurations]


def test_a_step_that_is_not_valid_joins_the_next_one(workspace: Workspace) -> None:
    """A path passes over a configuration that cannot be composed, and no change gets lost."""
    refused = refusing(workspace)
    gamma, epochs, clip = refused.changes
    importance = {gamma: 0.5, epochs: 0.3, clip: 0.2}
    plan = plan_path(refused, refused.changes, importance, "in the order of the words", {})
    joined, last = plan.ablation.changes
    assert ("gamma + n_epochs", "clip_range") == (joined.name, last.name)
    assert "added together" in str(joined.remark)
    assert last.remark is None
    assert {"algorithm.gamma": 0.99, "algorithm.n_epochs": 8} == joined.new
    assert joined.importance == pytest.approx(0.8)
    assert ((step := "step 1 (+ gamma + n_epochs)"), BASE) == joined.step
    assert (CHANGED, step) == last.step
    assert [CHANGED, BASE, step] == labels(plan)
    algorithm = plan.configurations[2].algorithm
    assert (0.99, 8, 0.1) == tuple(algorithm[k] for k in ("gamma", "n_epochs", "clip_range"))


def test_a_contrast_that_is_not_valid_is_left_out(workspace: Workspace) -> None:
    """A change keeps its other contrast, and its remark says what cannot be trained and why."""
    gamma, epochs, _ = plan_each(refusing(workspace), {}, {}).ablation.changes
    assert (None, None) == (gamma.left_out, gamma.added)
    assert "changed without gamma cannot be trained: these settings" in str(gamma.remark)
    assert "base with gamma cannot be trained" in str(gamma.remark)
    assert (None, 2) == (epochs.remark, len(epochs.contrasts))


def test_another_algorithm_is_a_single_change(workspace: Workspace) -> None:
    """Hyperparameters that only one of two algorithms has move with the algorithm."""
    ends = endpoints(workspace, "environment.vector.count=1,2", algorithm="ppo,a2c")
    plan = plan_each(ends, {}, {})
    algorithm, other = ends.changes
    assert "algorithm" in algorithm.groups
    assert ("environment.vector.count",) == other.keys
    assert ("ppo", "a2c") == tuple(
        ends.values(algorithm, new=new)["algorithm"] for new in (False, True)
    )
    assert 4 == len(plan.configurations)
    targets = {c.label: c.algorithm["_target_"].rpartition(".")[2] for c in plan.configurations}
    assert ("PPO", "A2C") == (targets[BASE], targets[CHANGED])
    assert "A2C" == targets[f"{BASE} with {algorithm.name}"]


def test_a_conditional_parameter_moves_with_its_condition(workspace: Workspace) -> None:
    """A parameter that exists only under the value of another is one change with it."""
    switch, frequency = "algorithm.use_sde", "algorithm.sde_sample_freq"
    space = Space(
        parameters=(
            Parameter(key=switch, domain=Choice((False, True))),
            Parameter(key=frequency, domain=Choice((4, 8)), when={switch: (True,)}),
            Parameter(key="algorithm.gamma", domain=Choice((0.9, 0.99))),
        )
    )
    old = {switch: False, "algorithm.gamma": 0.9}
    new = {switch: True, frequency: 8, "algorithm.gamma": 0.99}
    tied = tied_keys(space, old, new)
    assert [{switch, frequency}] == tied
    assert [] == tied_keys(space, new, {**new, frequency: 4})
    words = ("algorithm.use_sde=false,true", "algorithm.sde_sample_freq=-1,8", THREE[0])
    apart = endpoints(workspace, *words)
    assert 3 == len(apart.changes)
    together = Endpoints.of(apart.old, apart.new, workspace, tied)
    assert [{"algorithm.gamma"}, {switch, frequency}] == [set(c.keys) for c in together.changes]
    for configuration in plan_each(together, {}, {}).configurations:
        algorithm = configuration.algorithm
        assert algorithm["use_sde"] == (algorithm["sde_sample_freq"] == 8), configuration.label
