"""Entries of rl-baselines3-zoo are matched with the tasks of rlexp."""

import pytest

from rlexp.exchange.importers.zoo_tasks import match_tasks

OPTIONS = {
    "ALE/Pong-v5": "atari_pong",
    "ALE/Qbert-v5": "atari_qbert",
    "Ant-v5": "ant",
    "Taxi-v3": "taxi_old",
    "Taxi-v4": "taxi",
}


@pytest.mark.parametrize(
    ("name", "tasks", "note"),
    [
        ("Ant-v5", ("ant",), None),
        ("Ant-v4", ("ant",), "Ant-v4 is Ant-v5 here"),
        ("Ant-v2", ("ant",), "Ant-v2 is Ant-v5 here"),
        ("Taxi-v3", ("taxi_old",), None),
        ("Taxi-v10", ("taxi",), "Taxi-v10 is Taxi-v4 here"),
        ("AntBulletEnv-v0", ("AntBulletEnv-v0",), None),
        ("Ant", ("Ant",), None),
        (
            "atari",
            ("atari_pong", "atari_qbert"),
            "atari is 2 tasks here, which bring env_wrapper and frame_stack",
        ),
    ],
)
def test_an_entry_is_matched_with_its_tasks(
    name: str, tasks: tuple[str, ...], note: str | None
) -> None:
    """An id wins over another version of it, and what differs from the zoo is said."""
    matched = match_tasks(name, OPTIONS)
    assert (tasks, note) == (matched.tasks, matched.note)
