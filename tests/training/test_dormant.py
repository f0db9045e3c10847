"""The dormant ratio and fresh parameters, on networks whose activities are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_full import long
from test_scheduled_values import BUDGET, CASES
from trainings import TINY, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.training.acting.dormant import dormant_ratio
from rlexp.training.acting.renewal import renew
from rlexp.training.parameters import all_finite, weights_digest

WIDTHS = {
    "ppo": ("mlp_extractor.policy_net.0", 4),
    "sac": ("actor.latent_pi.0", 6),
    "dqn": ("q_net.q_net.0", 2),
}
"""A hidden layer of the policy of each algorithm, and the number of hidden layers (actor and critics)."""


def learner(name: str, folder: Path, *words: str) -> Any:
    """A learner that has trained for a few steps; its files are closed."""
    spec = spec_of(*TINY[name], "agent.network=[8,8]", *words)
    model = assemble(spec).build(folder)
    model.learn(64)
    assert model.env is not None
    model.env.close()
    return model


def chance() -> np.random.Generator:
    """A generator that always draws the same."""
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", WIDTHS)
def test_silenced_neurons_are_dormant(name: str, tmp_path: Path) -> None:
    """Four silenced neurons of one layer raise the ratio by 4 of all hidden neurons; a stopped hook adds none."""
    model = learner(name, tmp_path, "agent.activation=relu")
    layer, layers = WIDTHS[name]
    before = dormant_ratio(model, chance(), samples=64, threshold=0.0)
    module = model.policy.get_submodule(layer)
    with torch.no_grad():
        # Neurons that read nothing and have a negative bias give 0 behind a ReLU.
        module.weight.zero_()
        module.bias.fill_(1.0)
        module.bias[:4] = -1.0
    after = dormant_ratio(model, chance(), samples=64, threshold=0.0)
    assert before is not None
    assert after is not None
    # The neurons of the next layer may fall silent as well, and those of this layer awake.
    assert 4 / (8 * layers) <= after <= 1
    assert not any(m._forward_hooks for m in model.policy.modules())


def test_the_ratio_leaves_random_numbers_and_modes_alone(tmp_path: Path) -> None:
    """A measurement draws from its own generator only, so that a training goes on as without it."""
    model = learner("sac", tmp_path)
    torch_state, numpy_state = torch.get_rng_state(), list(np.random.get_state(legacy=True))  # noqa: NPY002
    dormant_ratio(model, chance(), samples=64, threshold=0.025)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert str(numpy_state) == str(list(np.random.get_state(legacy=True)))  # noqa: NPY002


@pytest.mark.parametrize("name", WIDTHS)
def test_the_last_layers_alone_are_reset(name: str, tmp_path: Path) -> None:
    """With `last_only`, hidden layers keep their parameters, and each network's last layer gets others."""
    model = learner(name, tmp_path)
    before = {k: v.clone() for k, v in model.policy.named_parameters()}
    renew(model, 7, keep=0.0, last_only=True)
    changed = {k for k, v in model.policy.named_parameters() if not torch.equal(before[k], v)}
    online = {name.split(".")[0] for name in changed}
    expected = {
        "ppo": {"action_net", "value_net"},
        "sac": {"actor", "critic", "critic_target"},
        "dqn": {"q_net", "q_net_target"},
    }[name]
    assert expected == online
    assert not any(
        "latent" in k or "mlp_extractor" in k or ".0." in k for k in changed if "target" not in k
    )


def test_fresh_parameters_are_mixed_in_and_optimisers_forget(tmp_path: Path) -> None:
    """`keep` is the share of the old parameters, equal seeds draw equal parameters, and torch's generator stays."""
    model = learner("ppo", tmp_path)
    state, old = torch.get_rng_state(), model.policy.action_net.weight.clone()
    with torch.no_grad():
        renew(model, 7, keep=0.0)
        fresh = model.policy.action_net.weight.clone()
        model.policy.action_net.weight.copy_(old)
    renew(model, 7, keep=0.75)
    mixed = model.policy.action_net.weight.detach()
    assert torch.equal(state, torch.get_rng_state())
    assert torch.allclose(0.75 * old + 0.25 * fresh, mixed, atol=1e-7)
    assert not torch.allclose(old, fresh)
    assert not model.policy.optimizer.state


def test_running_statistics_begin_anew_with_all_layers(tmp_path: Path) -> None:
    """Batch normalisation of CrossQ keeps its statistics beside kept layers, and loses them with all layers."""
    model: Any = assemble(spec_of(*CASES["crossq"][0], *BUDGET)).build(tmp_path)
    first = {k: v.clone() for k, v in model.policy.named_buffers()}
    model.learn(64)
    model.env.close()
    trained = {k: v.clone() for k, v in model.policy.named_buffers()}
    assert any(not torch.equal(first[k], trained[k]) for k in first)
    renew(model, 7, keep=0.0, last_only=True)
    assert all(torch.equal(trained[k], v) for k, v in model.policy.named_buffers())
    renew(model, 7, keep=0.0)
    assert all(torch.equal(first[k], v) for k, v in model.policy.named_buffers())


SMALL = tuple(word for word in BUDGET if not word.startswith("agent."))
NAMES = [
    name if name == "recurrent_ppo" else pytest.param(name, marks=long)
    for name in CASES
    if not name.startswith("compiled")
]


@pytest.mark.parametrize("name", NAMES)
def test_the_networks_of_every_algorithm_are_measured_and_renewed(
    name: str, tmp_path: Path
) -> None:
    """Each algorithm has a ratio, at least one last layer, and trains on after each kind of renewal."""
    model: Any = assemble(spec_of(*CASES[name][0], *SMALL)).build(tmp_path)
    model.learn(128)
    ratio = dormant_ratio(model, chance(), samples=32, threshold=0.025)
    assert ratio is not None
    assert 0 <= ratio <= 1
    for keep, last_only in ((0.0, True), (0.5, False), (0.0, False)):
        before = weights_digest(model)
        renew(model, 3, keep=keep, last_only=last_only)
        assert before != weights_digest(model)
    model.learn(64, reset_num_timesteps=False)
    model.env.close()
    assert all_finite(model)
