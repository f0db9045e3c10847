"""The task of bit flipping is that of the paper on hindsight replay."""

import numpy as np

from rlexp.environments.bit_flipping import BitFlipping


def test_an_action_flips_its_bit_and_no_other() -> None:
    """The achieved goal is the state, and the goal stays."""
    task = BitFlipping(bits=6)
    before, _ = task.reset(seed=3)
    after, *_ = task.step(np.int64(4))
    assert np.flatnonzero(before["observation"] != after["observation"]).tolist() == [4]
    assert np.array_equal(after["achieved_goal"], after["observation"])
    assert np.array_equal(after["desired_goal"], before["desired_goal"])


def test_an_episode_ends_where_the_bits_are_those_of_the_goal() -> None:
    """Flips of all bits that differ reach the goal: 0 at the last step, and -1 before it."""
    task = BitFlipping(bits=12)
    observation, _ = task.reset(seed=3)
    different = np.flatnonzero(observation["observation"] != observation["desired_goal"])
    results = [task.step(bit)[1:] for bit in different]
    assert len(different) > 1
    for reward, terminated, truncated, info in results[:-1]:
        assert (reward, terminated, truncated) == (-1.0, False, False)
        assert info == {"is_success": False}
    assert results[-1] == (0.0, True, False, {"is_success": True})


def test_rewards_for_many_goals_are_those_of_each() -> None:
    """`compute_reward` takes rows of goals, as hindsight needs."""
    task = BitFlipping(bits=3)
    achieved = np.array([[0, 1, 1], [0, 0, 0]], dtype=np.int8)
    desired = np.array([[0, 1, 1], [0, 0, 1]], dtype=np.int8)
    rewards = task.compute_reward(achieved, desired, [{}, {}])
    assert rewards.tolist() == [0.0, -1.0]


def test_starts_and_goals_depend_on_the_seed() -> None:
    """The same seed draws the same, and goals differ between episodes."""
    tasks = BitFlipping(bits=10), BitFlipping(bits=10)
    goals = [
        [
            task.reset(seed=5 if episode == 0 else None)[0]["desired_goal"].tolist()
            for episode in range(4)
        ]
        for task in tasks
    ]
    assert goals[0] == goals[1]
    assert len({tuple(goal) for goal in goals[0]}) > 1
