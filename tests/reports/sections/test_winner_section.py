"""The winner of a sweep in a report."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import pytest
from evidence_samples import inquiry, typical
from part_blocks import column, notices, of_kind, part_of, table, texts
from sweep_samples import (
    LEARNING_RATE,
    TUNED,
    UNTUNED,
    WIDTH,
    default_won,
    just_begun,
    none_succeeded,
    odd_values,
    of_sweep,
    one_tuning_seed,
    searching,
    swept,
    swept_evidence,
    trial,
    trials,
    two_sweeps,
    untested,
)

from rlexp.records.run import RunRecord
from rlexp.reports.drawing.blocks import Table, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.winner import WinnerSection
from rlexp.stats.interval import Interval


def test_there_is_no_part_without_a_sweep() -> None:
    """A report of plain runs has no winner."""
    assert None is WinnerSection().part(inquiry(typical()))


def test_the_verdict_is_about_test_scores() -> None:
    """The verdict has test scores of winner and default, probability and optimism."""
    tone, text = notices(part_of(WinnerSection(), swept()))[0]
    assert Tone.GOOD is tone
    runs = "450 [431, 469] (n = 5: 430, 440, 450, 460, 470)"
    assert text.startswith(f"tuned is trial 5 of 12 of sample; it scores {runs} on 5 test seeds. ")
    assert "(n = 5: 300, 310, 320, 330, 340) on 5 test seeds; a run of tuned beats one" in text
    assert "with probability 1.00 (no interval: on each task every run" in text
    assert " Tuning overestimated the score by 40 [18, 62]." in text


def test_scores_by_phase_by_hand() -> None:
    """The winner has tuning, selection and test scores; the default was no finalist."""
    scores_table = table(part_of(WinnerSection(), swept()), "winner-scores")
    assert ["tuned"] * 3 + ["default"] * 2 == column(scores_table, "label")
    assert ["tuning", "selection", "test", "tuning", "test"] == column(scores_table, "phase")
    assert [3, 4, 5, 3, 5] == column(scores_table, "scores") == column(scores_table, "planned")
    means = [m.estimate for m in column(scores_table, "mean") if isinstance(m, Interval)]
    assert [490.0, 465.0, 450.0, 330.0, 320.0] == pytest.approx(means)


def test_optimism_by_hand() -> None:
    """Optimism is 490 − 450 = 40, and relative optimism is 40 / 450."""
    optimism_table = table(part_of(WinnerSection(), swept()), "winner-optimism")
    observed = optimism_table.rows[0][1]
    assert isinstance(observed, Interval)
    assert (40.0, "Welch t") == (observed.estimate, observed.method)
    assert 40 / 450 == pytest.approx(optimism_table.rows[1][1])


def test_expected_optimism_by_hand() -> None:
    """The estimates follow from the means and variances of three trials on three seeds."""
    optimism_table = table(part_of(WinnerSection(), swept()), "winner-optimism")
    estimates = {row[0]: row[1] for row in optimism_table.rows}
    noise = sqrt(600 / 3)
    variance = ((330 - 1250 / 3) ** 2 + (430 - 1250 / 3) ** 2 + (490 - 1250 / 3) ** 2) / 2
    spread = sqrt(variance - 200 / 3)
    assert noise == pytest.approx(estimates["noise σ"])
    assert spread == pytest.approx(estimates["spread τ"])
    # The expected maximum of three standard normal numbers is 3 / (2 √π).
    assert 0.8462843753 * (200 / 3) / sqrt(variance) == pytest.approx(
        estimates["expected optimism"]
    )
    shrunken = 1250 / 3 + spread**2 / variance * (490 - 1250 / 3)
    assert shrunken == pytest.approx(estimates["shrunken estimate"])


def test_only_trials_at_the_full_budget_are_in_the_model() -> None:
    """Scores at a low fidelity are left out of the model, even on all tuning seeds."""
    low_fidelity_trial = trial(12, 900.0, 900.0, 900.0, steps=10, eligible=False)
    sample = of_sweep(
        swept_evidence(trials=(*trials(), low_fidelity_trial)), tuned=TUNED, default=UNTUNED
    )
    expected = table(part_of(WinnerSection(), swept()), "winner-optimism").rows
    assert expected == table(part_of(WinnerSection(), sample), "winner-optimism").rows


def test_screening_is_named_with_the_model() -> None:
    """The text states that the model ignores the selection by screening."""
    optimism_table = table(part_of(WinnerSection(), swept()), "winner-optimism")
    assert "of the best of 3 trials on 3 tuning seeds each; the model ignores" in str(
        optimism_table.rows
    )


def test_without_two_tuning_seeds_there_is_no_model() -> None:
    """A single tuning seed gives a reason instead of a model of the noise."""
    part = part_of(WinnerSection(), one_tuning_seed())
    estimates = {row[0]: row[1:] for row in table(part, "winner-optimism").rows}
    assert None is estimates["expected optimism"][0]
    assert "with one seed they cannot be separated" in str(estimates["expected optimism"][1])
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert (
        "Tuning overestimated the score by 12.0 (too few runs for an interval (1 tuning run, 1 test run))"
        in text
    )


def test_a_hyperparameter_that_changed_is_listed_with_its_values() -> None:
    """The winner of a population has a schedule, and not only the values of its last generation."""
    sweep, schedule = swept_evidence(), {"shape": "steps", "steps": [0, 9], "values": [0.1, 0.02]}
    trials = tuple(
        replace(t, schedules={LEARNING_RATE: schedule}) if t.number == 5 else t
        for t in sweep.trials
    )
    changed = of_sweep(replace(sweep, trials=trials), tuned=TUNED, default=UNTUNED)
    rows = table(part_of(WinnerSection(), changed), "winner-settings").rows
    assert (LEARNING_RATE, "0.0003", "0.1→0.02") == (rows[0][0], *rows[0][2:4])


def test_every_hyperparameter_is_listed_with_its_default() -> None:
    """Searched parameters with ranges come first, then others, with a column per finalist."""
    settings_table = table(part_of(WinnerSection(), swept()), "winner-settings")
    titles = ["parameter", "searched", "default", "tuned (trial 5)", "trial 2"]
    assert titles == [c.title for c in settings_table.columns]
    expected = (LEARNING_RATE, "1e-05 to 0.1, log", "0.0003", "0.0251189", "0.00912011")
    assert expected == settings_table.rows[0]
    assert ("one of 32, 64", "64", "32", None) == settings_table.rows[3][1:]
    others = {row[0]: row[1:4] for row in settings_table.rows[4:]}
    assert (None, "ppo", "ppo") == others["algorithm"]


def test_the_selection_rule_is_stated() -> None:
    """The text has the selection rule and the number of finalists."""
    part = part_of(WinnerSection(), swept())
    text = texts(part)[0]
    assert "the finalist with the best mean on selection seeds. There were 2 finalists" in text
    assert "fixed before the first test run existed" in text
    finalists_table = table(part, "winner-finalists")
    assert (5, "tuned", 490.0, 3, 465.0, 4) == finalists_table.rows[0]
    assert (2, "finalist", 430.0, 3, 415.0, 4) == finalists_table.rows[1]


def test_a_winner_that_loses_is_a_problem() -> None:
    """A winner that scores significantly less than the default gives a problem."""
    sample = of_sweep(swept_evidence(), tuned=UNTUNED, default=TUNED)
    assert Tone.PROBLEM is notices(part_of(WinnerSection(), sample))[0][0]


def test_too_few_runs_decide_nothing() -> None:
    """Three runs per side without overlap are not significant."""
    sample = of_sweep(swept_evidence(), tuned=TUNED[:3], default=UNTUNED[:3])
    assert Tone.NOTE is notices(part_of(WinnerSection(), sample))[0][0]


def test_overlapping_runs_are_judged_by_the_interval() -> None:
    """A winner that beats the default in 13.5 of 25 pairs gives a note."""
    sample = of_sweep(
        swept_evidence(), tuned=(1.0, 2.0, 3.0, 4.0, 6.0), default=(0.0, 2.5, 3, 3.5, 5)
    )
    tone, text = notices(part_of(WinnerSection(), sample))[0]
    assert Tone.NOTE is tone
    assert "with probability 0.54 [" in text


def test_a_default_that_won_is_named() -> None:
    """A default that won is not compared with itself."""
    part = part_of(WinnerSection(), default_won())
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert text.startswith("The default configuration won sample: tuning found nothing better")
    assert "beats" not in text
    scores_table = table(part, "winner-scores")
    assert ["tuning", "test"] == column(scores_table, "phase")
    assert ["default", "default"] == column(scores_table, "label")


def test_before_the_choice_there_is_no_result() -> None:
    """Before the selection, the best trial is shown with its tuning score."""
    part = part_of(WinnerSection(), searching())
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert "12 trials, best so far is trial 5 with 490 (score)" in text
    assert text.endswith("no result.")
    titles = ["parameter", "searched", "default", "trial 5 (best so far)"]
    assert titles == [c.title for c in table(part, "winner-settings").columns]


@pytest.mark.parametrize("sample", [just_begun, none_succeeded])
def test_without_a_trial_to_win_only_the_default_is_shown(sample: Callable[[], Evidence]) -> None:
    """Without an eligible trial, the table lists the defaults."""
    settings_table = table(part_of(WinnerSection(), sample()), "winner-settings")
    assert ("0.0003", "10", "mlp", "64") == tuple(column(settings_table, "default"))
    assert 3 == len(settings_table.columns)


def test_before_the_test_runs_there_is_no_result() -> None:
    """Before test runs, the winner is named without a score."""
    part = part_of(WinnerSection(), untested())
    assert notices(part)[0][1].endswith(
        "It has no test score yet, and only test scores are results."
    )
    assert None is table(part, "winner-optimism").rows[0][1]


def test_out_of_range_scores_have_no_mean() -> None:
    """Out-of-range scores are counted and have a reason instead of a mean."""
    part = part_of(WinnerSection(), odd_values())
    scores_table = table(part, "winner-scores")
    assert "no usable score" == column(scores_table, "remark")[2]
    assert "not estimated: 3 trials have a non-finite or out-of-range score" in str(
        table(part, "winner-optimism").rows
    )


def test_planned_runs_without_a_score_are_counted() -> None:
    """The verdict counts five scores of six planned runs."""
    sample = swept()
    member = next(m for m in sample.members if m.label == "tuned")
    planned = RunRecord(spec=replace(member.record.spec, seed=9))
    unscored_run = replace(member, record=planned)
    part = part_of(WinnerSection(), replace(sample, members=(*sample.members, unscored_run)))
    assert (
        "it scores 450 [431, 469] (n = 5: 430, 440, 450, 460, 470) on 5 of 6 test seeds"
        in notices(part)[0][1]
    )


def test_several_sweeps_have_separate_blocks() -> None:
    """Blocks are named by the experiment and have its runs."""
    part = part_of(WinnerSection(), two_sweeps())
    names = [block.name for block in of_kind(part, Table)]
    assert 8 == len(set(names)) == len(names)
    assert "winner-scores-other" in names
    labels = column(table(part, "winner-scores-other"), "label")
    assert {"other/tuned", "other/default"} == set(labels)
    assert [Tone.GOOD, Tone.PROBLEM] == [tone for tone, _ in notices(part)]


def test_a_parameter_that_is_not_there_has_no_value() -> None:
    """A parameter that a trial does not have is an empty cell."""
    settings_table = table(part_of(WinnerSection(), swept()), "winner-settings")
    assert None is next(row for row in settings_table.rows if row[0] == WIDTH)[4]
