"""IWOCS trains on a list of contexts, which grows by the worst context of each search."""

from typing import Any

import numpy as np
import pytest
from taught_environments import Contexts, Slope, teacher

from rlexp.components.teachers import Array
from rlexp.components.teachers.iwocs import IwocsLessons
from rlexp.environments import Stage
from rlexp.errors import ConfigError

LOW, HIGH = np.array([0.0, 10.0]), np.array([1.0, 30.0])


def lessons(seed: int = 0, **changes: Any) -> IwocsLessons:
    """Lessons with short phases: 6 episodes of training, searches of 5 contexts × 2 episodes."""
    settings = {"train_episodes": 6, "candidates": 5, "evaluations": 2, "most": 4, **changes}
    result: IwocsLessons = teacher("iwocs", **settings).begin(
        LOW, HIGH, np.random.default_rng(seed)
    )
    return result


def outcome(task: Array) -> float:
    """The outcome falls with the first dimension, so that the worst context has the greatest."""
    return 1.0 - float(task[0])


def taught(taught_lessons: IwocsLessons, episodes: int) -> Array:
    """Teach some episodes, one after the other; returns their contexts (episodes × dimensions)."""
    tasks = []
    for _ in range(episodes):
        tasks.append(taught_lessons.propose())
        taught_lessons.learn(tasks[-1], outcome(tasks[-1]))
    return np.stack(tasks)


def test_the_list_begins_with_one_context() -> None:
    """Before the first search every episode is in the middle of the box, or in the one declared."""
    middle = taught(lessons(), 6)
    assert [[0.5, 20.0]] * 6 == middle.tolist()
    assert [[0.25, 11.0]] * 6 == taught(lessons(first=(0.25, 11.0)), 6).tolist()


def test_a_search_adds_its_worst_context() -> None:
    """The candidate with the least mean outcome joins, after two episodes in each of five."""
    taught_lessons = lessons()
    taught(taught_lessons, 6)
    searched = taught(taught_lessons, 10)
    assert (5, 2) == np.unique(searched, axis=0).shape
    worst = searched[np.argmax(searched[:, 0])]
    assert worst.tolist() == taught_lessons.contexts[1].tolist()
    assert (1, 10) == (taught_lessons.acted, taught_lessons.evaluated)


def test_the_steps_of_searches_are_counted() -> None:
    """Episodes of training have other lengths, and are not counted."""
    taught_lessons = lessons()
    assert {} == taught_lessons.counts
    for number in range(38):
        task = taught_lessons.propose()
        taught_lessons.count_steps(7 if (task == taught_lessons.contexts).all(axis=1).any() else 3)
        taught_lessons.learn(task, float(number))
    assert {"evaluation episodes": 20, "evaluation steps": 60} == taught_lessons.counts


def test_outcomes_are_averaged_over_the_episodes_of_a_candidate() -> None:
    """One bad episode of a good candidate does not make it the worst."""
    taught_lessons = lessons()
    taught(taught_lessons, 6)
    outcomes = iter([-5.0, 0.0, 0.0, 0.0, -1.0, 9.0, 0.0, 0.0, 0.0, -1.0])
    searched = []
    for value in outcomes:
        searched.append(taught_lessons.propose())
        taught_lessons.learn(searched[-1], value)
    assert searched[4].tolist() == taught_lessons.contexts[1].tolist()


def test_training_draws_from_the_whole_list() -> None:
    """After two searches, training plays all three contexts, each about as often."""
    taught_lessons = lessons(train_episodes=300, most=3)
    taught(taught_lessons, 2 * 310)
    tasks = taught(taught_lessons, 300)
    contexts, counts = np.unique(tasks, axis=0, return_counts=True)
    assert np.unique(taught_lessons.contexts, axis=0).tolist() == contexts.tolist()
    assert 70 < counts.min()


def test_the_list_is_bounded() -> None:
    """Once it holds `most` contexts, nothing is searched any more."""
    taught_lessons = lessons()
    taught(taught_lessons, 500)
    assert 4 == len(taught_lessons.contexts)
    assert 3 * 10 == taught_lessons.evaluated


def test_episodes_of_other_environments_are_no_candidates() -> None:
    """Episodes that began on the list end within a search: they do not count for it."""
    taught_lessons = lessons()
    on_list = [taught_lessons.propose() for _ in range(4)]
    taught(taught_lessons, 6)
    for task in on_list:
        taught_lessons.learn(task, -1000.0)
    searched = taught(taught_lessons, 10)
    assert searched[np.argmax(searched[:, 0])].tolist() == taught_lessons.contexts[1].tolist()


def test_a_search_ends_although_episodes_are_cut() -> None:
    """Candidates of which no outcome comes are not waited for without end."""
    taught_lessons = lessons()
    taught(taught_lessons, 6)
    for _ in range(3):
        taught_lessons.propose()
    taught(taught_lessons, 20)
    assert 1 == taught_lessons.acted


@pytest.mark.parametrize("episodes", [3, 9, 16, 23])
def test_lessons_continue_from_their_state(episodes: int) -> None:
    """Within training and within a search, the state and the generator give the same future."""
    whole = taught(lessons(), 80)
    begun = lessons()
    taught(begun, episodes)
    state, generator = begun.state(), begun._generator.bit_generator.state
    continued = lessons(seed=1)
    continued.restore(state)
    continued._generator.bit_generator.state = generator
    assert whole[episodes:].tolist() == taught(continued, 80 - episodes).tolist()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ((0.5,), r"first=\[0.5\] must have one number for each context parameter \(height, width"),
        ((5.0, 5.2), "height=5.0 is outside of the training contexts, which reach from -1 to 2"),
    ],
)
def test_a_first_context_that_does_not_fit_is_refused(
    first: tuple[float, ...], message: str
) -> None:
    """The error says what is allowed, before anything trains."""
    with pytest.raises(ConfigError, match=message):
        teacher("iwocs", first=first).wrap(Contexts(Slope()), Stage.TRAINING)


def test_a_first_context_between_listed_values_is_the_one_that_is_played() -> None:
    """A parameter with a list of values takes none between them, and the list of contexts says so.

    Otherwise episodes on the list, which end within a search, would be taken for a candidate.
    """
    taught_lessons = lessons()
    played = np.array([0.4, 20.0])
    for _ in range(6):
        taught_lessons.propose()
        taught_lessons.learn(played, 0.0)
    assert [played.tolist()] == taught_lessons.contexts.tolist()
    taught_lessons.learn(played, -1000.0)
    assert 0 == taught_lessons.evaluated
