"""The question of a report and its verdicts."""

from dataclasses import replace

import pytest
from evidence_samples import (
    CARTPOLE,
    all_failed,
    broken,
    configured,
    constant,
    empty,
    evidence,
    incomplete,
    inquiry,
    member,
    of_scores,
    one_label,
    one_run,
    one_seed,
    one_task,
    run_spec,
    scored,
    task_missing,
    typical,
    unequal_budgets,
    worst,
)
from part_blocks import notices, part_of, texts

from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.verdicts import VerdictsSection

APART = of_scores(
    {
        ("ppo", CARTPOLE): [475.0, 474.0, 473.0, 476.0],
        ("a2c", CARTPOLE): [100.0, 101.0, 99.0, 102.0],
    }
)
"""Two labels without overlap of scores, with p = 2 / C(8, 4)."""


def verdict_notices(sample: Evidence, **settings: object) -> list[tuple[Tone, str]]:
    """Notices of the section."""
    return notices(part_of(VerdictsSection(), sample, **settings))


def test_the_question_names_labels_tasks_budget_and_score() -> None:
    """The question is the first text of the section."""
    question = texts(part_of(VerdictsSection(), typical()))[0]
    assert (
        "Which of ppo, a2c and dqn scores highest on CartPole-v1 and Pendulum-v1? A run trains "
        "for 11,000 environment steps; its score is the mean return of the final policy over 2 "
        "fresh episodes."
    ) == question


@pytest.mark.parametrize(
    ("sample", "words"),
    [(one_label(), "What does ppo score on"), (APART, "Which of ppo and a2c scores higher on")],
    ids=["one", "two"],
)
def test_the_question_suits_the_number_of_labels(sample: Evidence, words: str) -> None:
    """The question differs for one label and two labels."""
    assert texts(part_of(VerdictsSection(), sample))[0].startswith(words)


def test_the_rule_says_what_decides() -> None:
    """The rule states unit, test, level and margin."""
    rule = texts(part_of(VerdictsSection(), typical(), alpha=0.01))[1]
    assert "the difference of the IQM over all tasks (normalised score)" in rule
    assert "permutation test at family-wise level 0.01" in rule
    assert "No margin was declared" in rule
    assert (
        "within ±5 are declared irrelevant"
        in texts(part_of(VerdictsSection(), one_task(), margin=5.0))[1]
    )


def test_better_by_hand() -> None:
    """The verdict has difference, interval, p and numbers of runs in one sentence."""
    tone, text = verdict_notices(APART)[0]
    assert Tone.GOOD is tone
    assert text.startswith("ppo is better than a2c: a difference of 374 (95 % interval 37")
    assert text.endswith(", p = 0.0286. 4 runs against 4 on 1 task.")


def test_runs_in_two_groups_make_a_verdict_a_warning() -> None:
    """A decided pair whose runs fall into two groups is a warning that says the error."""
    sample = of_scores(
        {
            ("ppo", CARTPOLE): [475.0, 474.0, 473.0, 300.0],
            ("a2c", CARTPOLE): [100.0, 101.0, 99.0, 102.0],
        }
    )
    tone, text = verdict_notices(sample)[0]
    assert Tone.WARNING is tone
    assert text.startswith("ppo is better than a2c: ")
    assert "4 runs against 4 on 1 task. The runs of ppo fall into two groups" in text
    assert "about 17 % of cases, not in 5 %" in text


def test_many_pairs_have_one_notice_of_unusual_runs() -> None:
    """With one notice per label, one more names the pairs whose runs are unusual."""
    steady = {(f"label{k}", CARTPOLE): [10.0 * k + j for j in range(4)] for k in range(6)}
    sample = of_scores({**steady, ("odd", CARTPOLE): [475.0, 474.0, 473.0, 300.0]})
    shown = [text for _, text in verdict_notices(sample) if "may not hold" in text]
    assert len(shown) == 1
    assert shown[0].startswith(
        "Verdicts may not hold their level on 6 of 21 pairs: label0 and odd, label1 and odd, "
    )
    assert "The runs of odd fall into two groups" in shown[0]


def test_worse_is_said_of_the_first_label() -> None:
    """The verdict is about the first label, in the requested order."""
    sample = evidence(m for m in reversed(APART.members))
    assert verdict_notices(sample)[0][1].startswith(
        "a2c is worse than ppo: a difference of -374 ("
    )


def test_equivalent_needs_a_margin() -> None:
    """Labels within a declared margin are equivalent."""
    sample = of_scores(
        {
            ("ppo", CARTPOLE): [400.0, 401.0, 402.0, 403.0],
            ("a2c", CARTPOLE): [400.5, 401.5, 402.5, 403.5],
        }
    )
    assert verdict_notices(sample)[0][1].startswith(
        "Undecided between ppo and a2c: a difference of -0.5"
    )
    tone, text = verdict_notices(sample, margin=50.0)[0]
    assert Tone.GOOD is tone
    assert text.startswith("ppo and a2c are equivalent: the difference of -0.5")


def test_an_undecided_pair_has_the_difference_that_could_be_found() -> None:
    """An undecided pair gives a note with the difference that its seeds could find."""
    tone, text = verdict_notices(one_task())[-1]
    assert Tone.NOTE is tone
    assert text.startswith("Undecided between a2c and dqn: ")
    assert "with 5 seeds a difference of about " in text
    assert "is found with 80 % power; with 10 seeds: about " in text


def test_a_label_that_beats_all_others_is_named_first() -> None:
    """With three labels or more, the first notice names the best label."""
    assert (Tone.GOOD, "ppo is better than every other label.") == verdict_notices(typical())[0]
    assert "every other" not in verdict_notices(APART)[0][1]


def test_runs_without_a_score_qualify_a_verdict() -> None:
    """A verdict with missing scores is a warning."""
    members = list(typical().members)
    index = next(k for k, m in enumerate(members) if m.label == "a2c")
    configuration = members[index].configuration
    members[index] = member(broken(run_spec(configuration, 0)), configuration)
    notices_by_start = {
        text[:23]: (tone, text) for tone, text in verdict_notices(evidence(members))
    }
    tone, text = notices_by_start["ppo is better than a2c:"]
    assert Tone.WARNING is tone
    assert "1 run of a2c on these tasks without a score (1 failed (nan))" in text
    assert Tone.GOOD is notices_by_start["ppo is better than dqn:"][0]


def test_one_run_against_several_is_undecided() -> None:
    """A single run has no variance for Welch's test, so the pair is undecided."""
    messages = [text for _, text in verdict_notices(incomplete()) if "between ppo and a2c" in text]
    assert 1 == len(messages)
    assert "with unequal numbers of runs Welch's test must agree: one run alone" in messages[0]
    assert (
        "4 runs of a2c on these tasks without a score (1 failed (nan), 1 interrupted"
        in messages[0]
    )


def test_failed_runs_that_count_are_counted() -> None:
    """The verdict counts failed runs that have the task's minimum as score."""
    assert "1 of them counted as the task's minimum" in verdict_notices(worst())[0][1]


def test_a_task_that_is_left_out_is_named() -> None:
    """The verdict names tasks that it does not cover."""
    messages = [text for _, text in verdict_notices(task_missing()) if "dqn" in text]
    assert all("It does not cover Pendulum-v1, where" in text for text in messages)


def test_labels_without_scores_cannot_be_compared() -> None:
    """A pair of labels without scores is a problem."""
    expected = (
        "ppo and a2c cannot be compared: ppo and a2c have no task in common on which both have a "
        "score."
    )
    assert [(Tone.PROBLEM, expected)] == verdict_notices(all_failed())


def test_one_seed_decides_nothing() -> None:
    """With one seed per label every pair is a note that no test is possible."""
    for tone, text in verdict_notices(one_seed()):
        assert Tone.NOTE is tone
        assert "no test is possible" in text


def test_constant_scores_decide_nothing() -> None:
    """Labels with equal scores are undecided."""
    assert "no spread to compare it with" in verdict_notices(constant())[0][1]


def test_one_label_says_what_it_reached() -> None:
    """A single label has its aggregate instead of a verdict."""
    (tone, text), *others = verdict_notices(one_label())
    assert [] == others
    assert Tone.GOOD is tone
    # The ends equal those of a bootstrap written without rlexp, 0.889 and 1.051, to its noise.
    assert text.startswith(
        "ppo reaches 0.970 [0.890, 1.050]: IQM of the normalised score, 10 of 10"
    )


def test_one_run_has_no_interval() -> None:
    """The result of a single run is a warning."""
    tone, text = verdict_notices(one_run())[0]
    assert Tone.WARNING is tone
    assert text.startswith("ppo reaches 400.00 (n = 1; too few runs for an interval)")


def test_one_label_without_a_score_is_a_problem() -> None:
    """A single label without a score gives a problem with the reason."""
    sample = evidence(m for m in all_failed().members if m.label == "ppo")
    expected = "No result: ppo has no score on CartPole-v1 (3 failed (nan))."
    assert [(Tone.PROBLEM, expected)] == verdict_notices(sample)


def test_an_experiment_without_runs_is_a_problem() -> None:
    """An empty experiment gives a report with a problem."""
    expected = "sample plans no run of the test phase, so there is nothing to report."
    assert [(Tone.PROBLEM, expected)] == verdict_notices(empty())


def test_unfair_terms_are_warned_of() -> None:
    """Warnings about fairness follow the verdicts."""
    messages = [text for tone, text in verdict_notices(unequal_budgets()) if tone is Tone.WARNING]
    assert 2 == len(messages)
    assert "environment steps" in messages[0]


@pytest.mark.parametrize(("labels", "lines"), [(6, 15), (7, 7)])
def test_many_pairs_are_told_by_label(labels: int, lines: int) -> None:
    """Six labels have 15 pairs; with more, each label has one line."""
    sample = evidence(
        m
        for k in range(labels)
        for m in scored(configured(f"l{k}"), [400.0 + k + 10 * run for run in range(5)])
    )
    assert lines == len(verdict_notices(sample))


def test_a_line_of_a_label_sorts_the_others() -> None:
    """The notice lists better, worse and undecided labels in this order."""
    sample = evidence(
        m
        for k in range(7)
        for m in scored(configured(f"l{k}"), [100.0 * (k // 3) + j for j in range(7)])
    )
    messages = [text for _, text in verdict_notices(sample)]
    assert "l0: worse than l3, l4, l5 and l6; undecided against l1 and l2." == messages[1]
    assert "l6: better than l0, l1, l2, l3, l4 and l5." == messages[-1]


def test_many_pairs_without_enough_runs_are_told_together() -> None:
    """One notice names the number of runs that verdicts on many labels need."""
    sample = evidence(
        m for k in range(8) for m in scored(configured(f"l{k}"), [100.0 * k + j for j in range(3)])
    )
    tone, message = verdict_notices(sample)[-1]
    assert Tone.WARNING is tone
    assert message.startswith(
        "No verdict is possible on 28 of 28 pairs: with 3 runs per label and"
    )
    assert message.endswith(": at least 5 runs per label and task are needed.")


def test_a_verdict_about_a_capped_metric_is_of_normalised_scores() -> None:
    """The optimality gap of a single task is in normalised scores, like its difference."""
    context = inquiry(one_task())
    gap = {"gap": context.metrics["optimality_gap"]}
    part = VerdictsSection().part(replace(context, metrics=gap))
    assert part is not None
    assert "the difference of the optimality gap (normalised score), first" in texts(part)[1]
