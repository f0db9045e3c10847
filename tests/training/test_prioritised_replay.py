"""Prioritised replay draws, weights and learns as the paper of Schaul et al. (2016) says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from trainings import spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.replay.buffers.prioritised_drawing import PrioritisedDrawing
from rlexp.replay.buffers.priority_tree import PriorityTree

WORDS = {
    "dqn": ("algorithm=dqn", "environment=cartpole"),
    "sac": ("algorithm=sac", "environment=pendulum", "algorithm.ent_coef=0.1"),
    "td3": ("algorithm=td3", "environment=pendulum"),
    "ddpg": ("algorithm=ddpg", "environment=pendulum"),
}
SMALL = (
    *("agent.network=[8]", "algorithm.buffer_size=64", "algorithm.batch_size=16"),
    *("algorithm.learning_starts=60", "budget.steps=60", "replay=prioritised"),
)


def filled_learner(name: str, folder: Path, *words: str) -> Any:
    """A learner that has stored 60 transitions, with made-up priorities, and has learned nothing."""
    model: Any = assemble(spec_of(*WORDS[name], *SMALL, *words)).build(folder)
    model.learn(60)
    model.env.close()
    priorities = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    model.replay_buffer.drawing.tree.put(np.arange(60), priorities)
    return model


def naive_draw(
    priorities: list[float], alpha: float, beta: float, uniforms: list[float]
) -> tuple[list[int], list[float]]:
    """The sampling of the paper, written as it stands there: equation 1 and appendix B.2.1."""
    powers = [p**alpha for p in priorities]
    probabilities = [power / sum(powers) for power in powers]
    drawn, weights = [], []
    for part, uniform in enumerate(uniforms):
        target, passed = (part + uniform) / len(uniforms), 0.0
        index = -1
        while target >= passed:
            index += 1
            passed += probabilities[index]
        drawn.append(index)
        weights.append((1 / len(priorities) * 1 / probabilities[index]) ** beta)
    return drawn, [weight / max(weights) for weight in weights]


@pytest.mark.parametrize(
    ("alpha", "beta", "stored"), [(0.6, 0.4, 37), (1.0, 1.0, 64), (0.0, 0.7, 1)]
)
def test_positions_and_weights_are_those_of_the_paper(
    alpha: float, beta: float, stored: int
) -> None:
    """With the same uniform numbers, positions and weights are those of a naive implementation."""
    tree = PriorityTree(64)
    drawing = PrioritisedDrawing(alpha=alpha, beta=beta, epsilon=1e-6, tree=tree)
    priorities = np.random.default_rng(stored).exponential(size=stored) + 1e-6
    tree.put(np.arange(stored), priorities**alpha)
    for seed in range(20):
        np.random.seed(seed)  # noqa: NPY002 (the generator of the library)
        positions, weights = drawing.draw(32, stored)
        np.random.seed(seed)  # noqa: NPY002
        uniforms = np.random.random_sample(32).tolist()  # noqa: NPY002
        expected, expected_weights = naive_draw(priorities.tolist(), alpha, beta, uniforms)
        assert expected == positions.tolist()
        assert weights == pytest.approx(expected_weights)


def test_transitions_are_drawn_in_proportion_to_their_priorities() -> None:
    """Over many draws, the frequency of each position is its share of all priorities."""
    tree = PriorityTree(5)
    tree.put(np.arange(5), np.array([1.0, 0.0, 2.0, 3.0, 4.0]))
    drawing = PrioritisedDrawing(alpha=1.0, beta=0.4, epsilon=1e-6, tree=tree)
    np.random.seed(0)  # noqa: NPY002
    drawn = np.concatenate([drawing.draw(10, 5)[0] for _ in range(2000)])
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    assert shares == pytest.approx([0.1, 0.0, 0.2, 0.3, 0.4], abs=0.005)


def test_a_tree_is_a_function_of_its_leaves() -> None:
    """Sums after many changes are bit for bit those of a tree that is built at once."""
    generator, changed = np.random.default_rng(0), PriorityTree(50)
    for _ in range(200):
        positions = generator.choice(50, size=7)
        changed.put(positions, generator.exponential(size=7))
    rebuilt = PriorityTree(50)
    rebuilt.put(np.arange(50), changed.leading(50))
    assert changed._sums.tobytes() == rebuilt._sums.tobytes()


def test_an_empty_side_of_the_tree_is_never_drawn() -> None:
    """A mass that rounding has raised to the total leads to the last position with a priority."""
    tree = PriorityTree(8)
    tree.put(np.arange(3), np.array([0.1, 0.2, 0.3]))
    assert [2, 2] == tree.find(np.array([tree.total, tree.total * 1.1])).tolist()


@pytest.mark.parametrize("name", WORDS)
def test_an_update_is_that_of_the_weighted_loss(name: str, tmp_path: Path) -> None:
    """The library's `train` moves the value network as a hand-written weighted loss does."""
    model, again = filled_learner(name, tmp_path / "a"), filled_learner(name, tmp_path / "b")
    batches: list[Any] = []
    sample = model.replay_buffer.sample

    def remember(*arguments: Any, **settings: Any) -> Any:
        batches.append((sample(*arguments, **settings), model.replay_buffer.drawing.awaited))
        return batches[-1][0]

    model.replay_buffer.sample = remember
    torch.manual_seed(3)
    model.train(gradient_steps=1, batch_size=16)
    ((batch, awaited),) = batches
    assert float(awaited.weights.min()) < 0.9
    torch.manual_seed(3)
    errors = weighted_step(name, again, batch, awaited.weights)
    network = "q_net" if name == "dqn" else "critic"
    pairs = zip(
        getattr(model, network).parameters(), getattr(again, network).parameters(), strict=True
    )
    assert all(torch.allclose(first, second, atol=1e-6) for first, second in pairs)
    drawing = model.replay_buffer.drawing
    expected = (np.abs(errors) + drawing.epsilon) ** drawing.alpha
    # Of a transition that was drawn twice, both errors are the same.
    assert drawing.tree.priorities(awaited.positions) == pytest.approx(expected, rel=1e-4)
    assert drawing.largest == pytest.approx(max(1.0, (np.abs(errors) + drawing.epsilon).max()))


def weighted_step(name: str, model: Any, batch: Any, weights: torch.Tensor) -> Any:
    """One step of the optimiser on a weighted loss; returns the mean size of errors over critics."""
    with torch.no_grad():
        following = following_values(name, model, batch)
        targets = batch.rewards + (1 - batch.dones) * model.gamma * following
    if name == "dqn":
        values = [torch.gather(model.q_net(batch.observations), 1, batch.actions.long())]
        loss = (weights * functional.smooth_l1_loss(values[0], targets, reduction="none")).mean()
    else:
        values = list(model.critic(batch.observations, batch.actions))
        squares = torch.stack([(weights * (value - targets) ** 2).mean() for value in values])
        loss = squares.sum() * (0.5 if name == "sac" else 1.0)
    optimiser = (model.policy if name == "dqn" else model.critic).optimizer
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if name == "dqn":
        torch.nn.utils.clip_grad_norm_(model.policy.parameters(), model.max_grad_norm)
    optimiser.step()
    sizes = torch.stack([(targets - value).abs() for value in values]).mean(dim=0)
    return sizes.detach().numpy().reshape(-1)


def following_values(name: str, model: Any, batch: Any) -> Any:
    """The values of the next observations, drawn with the generator as the library does."""
    if name == "dqn":
        return model.q_net_target(batch.next_observations).max(dim=1).values.reshape(-1, 1)
    if name == "sac":
        model.actor.action_log_prob(batch.observations)
        actions, entropy = model.actor.action_log_prob(batch.next_observations)
        values = torch.cat(model.critic_target(batch.next_observations, actions), dim=1)
        return values.min(dim=1, keepdim=True).values - 0.1 * entropy.reshape(-1, 1)
    noise = batch.actions.clone().normal_(0, model.target_policy_noise)
    noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
    actions = (model.actor_target(batch.next_observations) + noise).clamp(-1, 1)
    values = torch.cat(model.critic_target(batch.next_observations, actions), dim=1)
    return values.min(dim=1, keepdim=True).values


def test_beta_rises_to_one(tmp_path: Path) -> None:
    """The exponent of importance weights is `beta` at the beginning and 1 at the end."""
    model = filled_learner("dqn", tmp_path)
    drawing, exponents = model.replay_buffer.drawing, []
    for remaining in (1.0, 0.5, 0.0):
        model._current_progress_remaining = remaining
        exponents.append(drawing.present_beta())
    assert exponents == pytest.approx([0.4, 0.7, 1.0])


def test_a_new_transition_has_the_largest_priority(tmp_path: Path) -> None:
    """A transition that overwrites an old one gets the largest priority so far."""
    model = filled_learner("dqn", tmp_path)
    drawing = model.replay_buffer.drawing
    drawing.largest = 5.0
    buffer, row = model.replay_buffer, model.replay_buffer.pos
    arrays = (buffer.observations, buffer.next_observations, buffer.actions)
    buffer.add(*(array[0] for array in (*arrays, buffer.rewards, buffer.dones)), [{}])
    assert drawing.tree.priorities(np.array([row])) == pytest.approx([5.0**0.6])
