"""Networks that change at given steps: what is inherited, what begins anew, and exact continuation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from in_full import long
from stable_baselines3.common.base_class import BaseAlgorithm
from test_scheduled_values import BUDGET, CASES
from trainings import check_continuation, results, run_training, shared_training, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.records.events import Ending
from rlexp.training.network_changes import change_network
from rlexp.training.restore import fresh_learner, restore_policy

SIZES = "agent.network={shape: steps, steps: [0, 64, 128, 180], values: [[8], [12], [12, 12], [12, 16]]}"
KINDS = "agent.activation={shape: steps, steps: [0, 180], values: [tanh, relu]}"
STOPS = (70, 140, 210)
FIRST, LAST = ("agent.network=[8]", "agent.activation=tanh"), (12, 16)
QUICK = ("ppo", "dqn", "sac")
NAMES = [
    name if name in QUICK else pytest.param(name, marks=long)
    for name in CASES
    if not name.startswith("compiled")
]
GSDE = ("algorithm=ppo", "environment=pendulum", "algorithm.n_steps=64", "algorithm.use_sde=true")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a training of which size and activation of the networks change."""
    return (*CASES[name][0], *BUDGET, SIZES, KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_changes_at_its_step_and_not_before(name: str, tmp_path: Path) -> None:
    """Up to the first change a training equals that of the first network; its end has the last one."""
    changing, end = run_training(tmp_path / "a", *words_of(name))
    fixed, first = shared_training(*CASES[name][0], *BUDGET, *FIRST)
    assert (Ending.COMPLETED, Ending.COMPLETED) == (end.ending, first.ending)
    assert results(fixed, until=64) == results(changing, until=64)
    assert first.weights != end.weights
    # The saved policy plays as it did, in a process that builds the learner anew.
    training = assemble(spec_of(*words_of(name)), operational={}, lean=False)
    model = tmp_path / "a" / "model.zip"
    learner = restore_policy(training, model, tmp_path / "a" / "no.npz", weights=end.weights)
    assert {*LAST} <= {m.out_features for m in linear_layers(learner.policy)}
    assert torch.nn.ReLU in map(type, learner.policy.modules())
    # It loads without rlexp, too.
    alone = type(learner).load(model, device="cpu")
    assert learner.policy.state_dict().keys() == alone.policy.state_dict().keys()


def linear_layers(module: torch.nn.Module) -> list[torch.nn.Linear]:
    """All fully connected layers of a network."""
    return [m for m in module.modules() if isinstance(m, torch.nn.Linear)]


@pytest.mark.parametrize("name", NAMES)
def test_a_training_with_changing_networks_continues_exactly(name: str, tmp_path: Path) -> None:
    """A training that is stopped before and after a change ends with the same weights and scores."""
    check_continuation(tmp_path, words_of(name), STOPS)


def test_noise_that_depends_on_the_state_follows_the_network(tmp_path: Path) -> None:
    """With gSDE, whose noise has the size of the last layer, a training continues exactly as well."""
    check_continuation(tmp_path, (*GSDE, *BUDGET, SIZES), STOPS)


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_prioritised_replay_follows_the_network(name: str, tmp_path: Path) -> None:
    """After a change, errors still become priorities, and weights still count in the loss."""
    words = (*CASES[name][0], *BUDGET, "replay=prioritised")
    model: Any = assemble(spec_of(*words)).build(tmp_path)
    drawing = model.replay_buffer.drawing
    model.learn(80)
    change_network(model, {"net_arch": [12, 12]})
    before = drawing.tree.leading(80).copy()
    model.train(gradient_steps=1, batch_size=16)
    model.env.close()
    assert drawing.awaited is None
    changed = int((before != drawing.tree.leading(80)).sum())
    assert 0 < changed <= 16


def test_a_training_with_prioritised_replay_and_changing_networks_continues_exactly(
    tmp_path: Path,
) -> None:
    """A training that is stopped before and after a change ends with the same weights and scores."""
    check_continuation(tmp_path, (*words_of("dqn"), "replay=prioritised"), STOPS)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_shortcuts_follow_the_network(name: str, tmp_path: Path) -> None:
    """With and without shortcuts, a training whose network changes gives the same bits."""
    lean, end = shared_training(*words_of(name))
    full, expected = run_training(tmp_path, *words_of(name), lean=False)
    assert expected.weights == end.weights
    assert results(full) == results(lean)


def learner_of(name: str, *words: str) -> BaseAlgorithm:
    """A learner that has made one update, so that its optimisers have a state."""
    learner = fresh_learner(assemble(spec_of(*CASES[name][0], *words), operational={}, lean=False))
    for optimiser in optimisers(learner):
        for parameter in optimiser.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
    return learner


def optimisers(learner: BaseAlgorithm) -> list[torch.optim.Optimizer]:
    """The optimisers of a policy."""
    policy: Any = learner.policy
    owners = [policy, getattr(policy, "actor", None), getattr(policy, "critic", None)]
    return [owner.optimizer for owner in owners if hasattr(owner, "optimizer")]


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("compiled")])
def test_weights_are_inherited_where_shapes_overlap(name: str) -> None:
    """Added units and layers leave every weight that both networks have, and the outputs stay outputs."""
    learner = learner_of(name, "agent.network=[8]")
    before: Any = learner.policy
    old = [layer.weight.detach().clone() for layer in linear_layers(before)]
    change_network(learner, {"net_arch": [12, 12]})
    new = [layer.weight.detach() for layer in linear_layers(learner.policy)]
    assert len(old) < len(new)
    # A layer of another network can have the same form: every old one is found in a new one.
    for weight in old:
        found = [w for w in new if all(a >= b for a, b in zip(w.shape, weight.shape, strict=True))]
        assert any(torch.equal(weight, w[: weight.shape[0], : weight.shape[1]]) for w in found)
    outputs = {layer.out_features for layer in linear_layers(before)} - {8}
    assert outputs <= {layer.out_features for layer in linear_layers(learner.policy)}


def test_states_of_optimisers_stay_where_shapes_stay() -> None:
    """A parameter of another shape, and a new one, begin with an empty state; all others keep theirs."""
    learner = learner_of("ppo", "agent.network=[8, 8]")
    before = {k: learner.policy.optimizer.state[p] for k, p in learner.policy.named_parameters()}
    change_network(learner, {"net_arch": [8, 12]})
    kept: set[str] = set()
    anew: set[str] = set()
    for name, parameter in learner.policy.named_parameters():
        state = learner.policy.optimizer.state.get(parameter)
        assert state in (None, before[name]) or state is before[name]
        (kept if state else anew).add(name)
    second = {
        f"mlp_extractor.{n}_net.2.{k}" for n in ("policy", "value") for k in ("weight", "bias")
    }
    assert second | {"action_net.weight", "value_net.weight"} == anew
    assert before.keys() - anew == kept


def test_another_activation_keeps_weights_and_optimisers() -> None:
    """With the same sizes nothing begins anew."""
    learner = learner_of("ppo", "agent.network=[8]", "agent.activation=tanh")
    weights = {k: v.clone() for k, v in learner.policy.state_dict().items()}
    states = list(learner.policy.optimizer.state.values())
    change_network(learner, {"activation_fn": torch.nn.ReLU})
    assert all(torch.equal(weights[k], v) for k, v in learner.policy.state_dict().items())
    assert states == list(learner.policy.optimizer.state.values())
    assert torch.nn.Tanh not in map(type, learner.policy.modules())


def test_targets_begin_with_the_new_units_of_their_networks() -> None:
    """The new units of a target network are those of its network, and the old ones lag behind as before."""
    learner = learner_of("dqn", "agent.network=[8]")
    policy: Any = learner.policy
    lagging = policy.q_net_target.q_net[0].weight.detach().clone()
    assert not torch.equal(lagging, policy.q_net.q_net[0].weight)
    change_network(learner, {"net_arch": [12]})
    changed: Any = learner.policy
    online, target = (net.q_net[0].weight for net in (changed.q_net, changed.q_net_target))
    assert torch.equal(lagging, target[:8])
    assert torch.equal(online[8:], target[8:])
    assert learner.q_net is changed.q_net  # type: ignore[attr-defined]
