"""Warnings about labels that were compared on unequal terms."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    PROVENANCE,
    configured,
    evidence,
    learned,
    member,
    nothing_run,
    of_scores,
    one_task,
    reordered,
    run_spec,
    scored,
    typical,
    unequal_budgets,
    unequal_seeds,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.protocol.experiment import Configuration
from rlexp.reports.analysis.fairness import changed_files, packages, seeds_in_words, warnings
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence, PlannedRun


def with_changed_runs(change: Callable[[PlannedRun], PlannedRun]) -> Evidence:
    """Evidence of two labels on one task, with changes to the second."""
    runs = [*scored(configured("ppo"), [1.0, 2.0]), *scored(configured("a2c"), [1.0, 2.0])]
    return evidence(change(m) if m.label == "a2c" else m for m in runs)


def with_changed_configuration(change: Callable[[Configuration], Configuration]) -> Evidence:
    """Evidence of two labels on one task, with another configuration of the second."""
    changed = change(configured("a2c"))
    return evidence([*scored(configured("ppo"), [1.0, 2.0]), *scored(changed, [1.0, 2.0])])


def provenance(**changes: Any) -> Callable[[PlannedRun], PlannedRun]:
    """A change of the provenance of a run."""
    return lambda m: replace(m, provenance={**PROVENANCE, **changes})


def code(**changes: Any) -> Mapping[str, Any]:
    """The code entry of a provenance, with these changes."""
    return {**PROVENANCE["code"], **changes}


def notices_of(sample: Evidence) -> list[tuple[Tone, str]]:
    """Tone and text of every notice about a sample."""
    return [(notice.tone, notice.text) for notice in warnings(sample)]


def test_equal_terms_give_no_notice() -> None:
    """Labels without differences give no notice."""
    assert [] == notices_of(typical())


def test_different_steps_and_evaluation_are_warned_of() -> None:
    """Warnings name steps and evaluation settings with the values of each label."""
    words = "On CartPole-v1, runs differ in "
    assert [
        (
            Tone.WARNING,
            (f"{words}environment steps: ppo 11,000; a2c 5,500. Longer training is an advantage."),
        ),
        (
            Tone.WARNING,
            (
                f"{words}episodes of the final evaluation: ppo 2; a2c 1. "
                "Their scores do not measure the same quantity."
            ),
        ),
    ] == notices_of(unequal_budgets())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"score": "auc"}, "the definition of the score: ppo final; a2c auc"),
        ({"evaluation_deterministic": False}, "deterministic actions in evaluations: ppo true"),
        ({"evaluation_episodes": 7}, "episodes of an evaluation during training: ppo 2; a2c 7"),
        ({"evaluation_every": 500}, "steps between evaluations: ppo 1000; a2c 500"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_another_way_to_evaluate_is_warned_of(changes: dict[str, Any], words: str) -> None:
    """A difference in any setting that defines the score gives a warning."""
    runs = [
        *scored(configured("ppo"), [1.0, 2.0]),
        *scored(configured("a2c", **changes), [1.0, 2.0]),
    ]
    notices = notices_of(evidence(runs))
    assert [Tone.WARNING] == [tone for tone, _ in notices]
    assert words in notices[0][1]


def test_other_wrappers_are_another_task() -> None:
    """A setting that only one label has is `unset` for the other."""
    sample = with_changed_configuration(
        lambda c: replace(c, environment={**c.environment, "wrappers": ["FrameSkip"]})
    )
    assert [
        (
            Tone.WARNING,
            (
                'On CartPole-v1, runs differ in environment.wrappers: ppo unset; a2c ["FrameSkip"].'
                " They are different tasks."
            ),
        )
    ] == notices_of(sample)


def test_another_vector_of_environments_is_a_note() -> None:
    """A different number of training environments gives a note."""
    sample = with_changed_configuration(
        lambda c: replace(c, environment={**c.environment, "vector": {"count": 8}})
    )
    assert [Tone.NOTE] == [tone for tone, _ in notices_of(sample)]
    assert "environment.vector.count: ppo 1; a2c 8" in notices_of(sample)[0][1]


def test_other_known_scores_are_warned_of() -> None:
    """Different anchors of the labels give a warning."""
    sample = with_changed_configuration(
        lambda c: replace(c, reference={**c.reference, "threshold": 195.0})
    )
    assert "environment.reference.threshold: ppo 475.0; a2c 195.0" in notices_of(sample)[0][1]


def test_another_version_of_a_package_that_matters_is_warned_of() -> None:
    """Only packages that can change a score give a warning."""
    versions = {**PROVENANCE["packages"], "gymnasium": "1.1.0", "rich": "1"}
    notices = notices_of(with_changed_runs(provenance(packages=versions)))
    assert [Tone.WARNING] == [tone for tone, _ in notices]
    assert "versions of gymnasium: ppo 1.4.0; a2c 1.1.0" in notices[0][1]


def test_differences_within_a_label_are_warned_of() -> None:
    """Different versions among the runs of one label give a warning."""
    runs = scored(configured("ppo"), [1.0, 2.0])
    change = provenance(packages={**PROVENANCE["packages"], "torch": "2.9.0"})
    notices = notices_of(evidence([runs[0], change(runs[1])]))
    assert "versions of torch: ppo 2.8.0 and 2.9.0" in notices[0][1]


def test_another_commit_is_warned_of() -> None:
    """A warning about different code has the first digits of both commits."""
    notices = notices_of(with_changed_runs(provenance(code=code(commit="b" * 40))))
    assert [
        (
            Tone.WARNING,
            (
                "On CartPole-v1, runs differ in commits of the code: ppo aaaaaaa; a2c bbbbbbb. "
                "This alone may change a score."
            ),
        )
    ] == notices


def test_uncommitted_changes_are_warned_of() -> None:
    """A warning names changed files and states whether the changes were saved."""
    sample = with_changed_runs(provenance(code=code(dirty=["b.py"], untracked=["a.py"])))
    expected = (
        "2 runs of 4 used code with uncommitted changes in a.py and b.py. "
        "The changes are saved with each run."
    )
    assert [(Tone.WARNING, expected)] == notices_of(sample)
    unsaved = with_changed_runs(provenance(code=code(dirty=["b.py"], saved=False)))
    assert notices_of(unsaved)[0][1].endswith("saved with each run, but not completely.")


def test_another_rule_for_failures_is_warned_of() -> None:
    """A warning about rules for failures names the experiments with their rules."""
    first = one_task().experiments[0]
    experiments = (first, replace(first, name="other", failures="worst"))
    expected = "Experiments count failed runs differently: worst in other; missing in sample."
    assert [(Tone.WARNING, expected)] == notices_of(replace(one_task(), experiments=experiments))


def test_other_threads_are_a_note() -> None:
    """A different number of threads gives a note."""
    sample = with_changed_configuration(
        lambda c: replace(c, compute=replace(c.compute, threads=2))
    )
    assert [Tone.NOTE] == [tone for tone, _ in notices_of(sample)]
    assert "threads: ppo 1; a2c 2" in notices_of(sample)[0][1]


def test_unequal_numbers_of_runs_are_warned_of() -> None:
    """Different numbers of runs give a warning for each task, and different seeds a note."""
    notices = notices_of(unequal_seeds())
    assert [Tone.WARNING] * 2 + [Tone.NOTE] * 2 == [tone for tone, _ in notices]
    assert "different numbers of runs: ppo 5; a2c 3; dqn 5" in notices[0][1]
    assert "A verdict requires that Welch's test agrees with the permutation test" in notices[0][1]
    assert "a2c root 0: 0–2" in notices[2][1]


def test_different_seeds_are_a_note() -> None:
    """Different seeds give a note, because runs are not paired by seed."""
    configuration = configured("a2c")
    runs = [
        member(learned(run_spec(configuration, seed), 1.0, 0.0), configuration) for seed in (7, 9)
    ]
    notices = notices_of(evidence([*scored(configured("ppo"), [1.0, 2.0]), *runs]))
    assert [Tone.NOTE] == [tone for tone, _ in notices]
    assert "ppo root 0: 0–1; a2c root 0: 7, 9" in notices[0][1]


def test_settings_that_differ_between_tasks_are_a_note() -> None:
    """A note names a setting that differs between tasks, with its value on each task."""
    tuned = configured("ppo", PENDULUM)
    tuned = replace(tuned, algorithm={**tuned.algorithm, "learning_rate": 0.5})
    notices = notices_of(evidence([*scored(configured("ppo"), [1.0]), *scored(tuned, [1.0])]))
    expected = (
        "ppo has different settings per task: algorithm.learning_rate is "
        "unset on CartPole-v1; 0.5 on Pendulum-v1."
    )
    assert [(Tone.NOTE, expected)] == notices


def test_the_same_difference_on_all_tasks_is_said_once() -> None:
    """One notice lists all tasks with the same difference."""
    runs = [
        m
        for task in (CARTPOLE, PENDULUM)
        for label, episodes in (("ppo", 2), ("a2c", 3))
        for m in scored(configured(label, task, final_episodes=episodes), [1.0])
    ]
    notices = notices_of(evidence(runs))
    assert [True] == [text.startswith("On CartPole-v1 and Pendulum-v1, ") for _, text in notices]


def test_what_was_never_run_has_no_versions() -> None:
    """Runs without recorded versions give no difference."""
    assert [] == notices_of(nothing_run())
    assert ({}, ()) == (
        packages(nothing_run().members[0]),
        changed_files(nothing_run().members[0]),
    )


def test_seeds_are_grouped_by_root() -> None:
    """Consecutive seeds of a root are written as a range."""
    assert "root 0: 0–4" == seeds_in_words(one_task().members)
    assert "" == seeds_in_words([])


@given(st.integers(0, 1000))
def test_warnings_do_not_depend_on_the_order_of_the_runs(seed: int) -> None:
    """The same runs in another order give the same notices."""
    for sample in (unequal_budgets(), unequal_seeds(), of_scores({("ppo", CARTPOLE): [1.0, 2.0]})):
        assert notices_of(sample) == notices_of(reordered(sample, seed))
