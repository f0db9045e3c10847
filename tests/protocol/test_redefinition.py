"""Messages about a name that already stands for another experiment."""

from dataclasses import replace
from typing import Any

from samples import configuration, experiment

from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.redefinition import redefinition

LABELS = ("ppo", "a2c", "dqn")


def three_labels(**changes: Any) -> Experiment:
    """Three labels on one task; keyword arguments change the budget of all."""
    return experiment(*(configuration(label, **changes) for label in LABELS))


def tuned(label: str, gamma: float, task: str = "CartPole-v1") -> Configuration:
    """A configuration with another discount factor."""
    base = configuration(label, task=task)
    return replace(base, algorithm={**base.algorithm, "gamma": gamma})


def test_a_difference_of_all_labels_is_said_once() -> None:
    """A difference that all configurations share has one line."""
    requested = three_labels(final_episodes=7)
    existing = three_labels(final_episodes=9)
    expected = ["budget.final_episodes: existing 9, requested 7 (in all 3 configurations)"]
    assert expected == redefinition(existing, requested)


def test_a_difference_of_a_label_names_it() -> None:
    """A difference names the label that differs, and no equal label."""
    existing = experiment(tuned("ppo", 0.9), tuned("a2c", 0.8), tuned("dqn", 0.7))
    requested = experiment(tuned("a2c", 0.8), tuned("dqn", 0.7), tuned("ppo", 0.95))
    assert ["algorithm.gamma: existing 0.9, requested 0.95 (in ppo)"] == redefinition(
        existing, requested
    )


def test_a_setting_that_was_absent_names_the_word_that_keeps_it() -> None:
    """An experiment that began before a setting existed is continued with null; others have no such word."""
    base = configuration("ppo")
    newer = replace(base, algorithm={**base.algorithm, "new": True})
    expected = "algorithm.new: existing not set, requested True; algorithm.new=null keeps the existing one"
    assert [expected] == redefinition(experiment(base), experiment(newer))
    assert ["algorithm.new: existing True, requested not set"] == redefinition(
        experiment(newer), experiment(base)
    )


def test_a_group_that_was_absent_names_no_word() -> None:
    """No word of the command line sets a group, or what rlexp itself adds to it, to null."""
    base = configuration("ppo")
    for newer in (
        replace(base, callback={"resets": {"every": 10}}),
        replace(base, environment={**base.environment, "order_of_components": ["levels"]}),
    ):
        (line,) = redefinition(experiment(base), experiment(newer))
        assert "existing not set" in line
        assert "null" not in line


def test_a_difference_on_a_task_names_both() -> None:
    """With several tasks, a difference names its label and its task."""
    tasks = ("CartPole-v1", "Acrobot-v1")
    existing = experiment(*(tuned("ppo", 0.9, task) for task in tasks))
    requested = experiment(tuned("ppo", 0.9, tasks[0]), tuned("ppo", 0.95, tasks[1]))
    expected = ["algorithm.gamma: existing 0.9, requested 0.95 (in ppo on Acrobot-v1)"]
    assert expected == redefinition(existing, requested)


def test_labels_that_were_added_or_left_out_are_named() -> None:
    """Added and missing labels are named beside other differences; many names are cut short."""
    existing = experiment(tuned("ppo", 0.9), configuration("a2c"))
    requested = experiment(tuned("ppo", 0.95), configuration("dqn"))
    changed = "algorithm.gamma: existing 0.9, requested 0.95 (in ppo)"
    assert [changed, "dqn is new", "a2c is missing"] == redefinition(existing, requested)
    larger = experiment(tuned("ppo", 0.1), *map(configuration, "abcde"))
    assert ["a, b, c and 2 more are new"] == redefinition(experiment(tuned("ppo", 0.1)), larger)


def test_another_task_is_another_configuration() -> None:
    """Configurations of one label on two tasks are not compared setting by setting."""
    existing, requested = (
        experiment(configuration(task=t)) for t in ("CartPole-v1", "Acrobot-v1")
    )
    assert ["ppo on Acrobot-v1 is new", "ppo on CartPole-v1 is missing"] == redefinition(
        existing, requested
    )


def test_the_same_configuration_under_another_label_is_no_difference() -> None:
    """Another label of the same configuration is not named."""
    existing = experiment(configuration("ppo"), tuned("a2c", 0.9))
    requested = experiment(replace(configuration("ppo"), label="mine"), tuned("a2c", 0.95))
    assert ["algorithm.gamma: existing 0.9, requested 0.95 (in a2c)"] == redefinition(
        existing, requested
    )


def test_a_single_configuration_is_not_named() -> None:
    """If the experiment has one configuration, the lines name none."""
    existing = experiment(tuned("ppo", 0.9))
    requested = experiment(tuned("ppo", 0.95), root=1)
    expected = ["algorithm.gamma: existing 0.9, requested 0.95", "root: existing 0, requested 1"]
    assert expected == redefinition(existing, requested)


def test_an_absent_value_is_not_set() -> None:
    """A setting that one side lacks is shown as not set."""
    existing = experiment(tuned("ppo", 0.9))
    requested = experiment(configuration("ppo"))
    expected = ["algorithm.gamma: existing 0.9, requested not set"]
    assert expected == redefinition(existing, requested)


def test_many_differences_are_counted() -> None:
    """A message has at most eight lines, and the last one counts the other differences."""
    base = configuration("ppo")
    settings = {f"setting_{number}": number for number in range(20)}
    first, second = (
        experiment(replace(base, algorithm={**base.algorithm, **changed}))
        for changed in (settings, dict.fromkeys(settings, -1))
    )
    lines = redefinition(first, second)
    assert (8, "and 13 more differences") == (len(lines), lines[-1])
    eight = dict(list(settings.items())[:8])
    third = experiment(
        replace(base, algorithm={**base.algorithm, **settings, **dict.fromkeys(eight, -1)})
    )
    assert 8 == len(redefinition(first, third))
    assert "more" not in redefinition(first, third)[-1]
