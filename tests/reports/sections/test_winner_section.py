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
from rlexp.reports.sections.winner import Winner
from rlexp.stats.interval import Interval


def test_there_is_no_part_without_a_sweep() -> None:
    """A report about plain runs stays silent."""
    assert None is Winner().part(inquiry(typical()))


def test_the_verdict_is_about_test_scores() -> None:
    """Of the winner and the default, with probability and optimism: 490 in tuning, 450 in test."""
    tone, text = notices(part_of(Winner(), swept()))[0]
    assert Tone.GOOD is tone
    runs = "450 [431, 469] (n = 5: 430, 440, 450, 460, 470)"
    assert text.startswith(f"Trial 5 of 12 won sample; it scores {runs} on 5 test seeds. ")
    assert (
        "(n = 5: 300, 310, 320, 330, 340) on 5 test seeds; a run of the winner beats one" in text
    )
    assert "with probability 1.00 (no interval: on each task every run" in text
    assert " Tuning overstated by 40 [18, 62]." in text


def test_scores_by_phase_by_hand() -> None:
    """Tuning, selection and test of the winner; the default was no finalist."""
    own = table(part_of(Winner(), swept()), "winner-scores")
    assert ["tuned"] * 3 + ["default"] * 2 == column(own, "label")
    assert ["tuning", "selection", "test", "tuning", "test"] == column(own, "phase")
    assert [3, 4, 5, 3, 5] == column(own, "scores") == column(own, "of")
    means = [m.estimate for m in column(own, "mean") if isinstance(m, Interval)]
    assert [490.0, 465.0, 450.0, 330.0, 320.0] == pytest.approx(means)


def test_optimism_by_hand() -> None:
    """490 − 450, and that over 450."""
    own = table(part_of(Winner(), swept()), "winner-optimism")
    observed = own.rows[0][1]
    assert isinstance(observed, Interval)
    assert (40.0, "Welch t") == (observed.estimate, observed.method)
    assert 40 / 450 == pytest.approx(own.rows[1][1])


def test_expected_optimism_by_hand() -> None:
    """Three trials on three seeds: means 330, 430 and 490, variances 100, 400 and 100."""
    own = table(part_of(Winner(), swept()), "winner-optimism")
    found = {row[0]: row[1] for row in own.rows}
    noise = sqrt(600 / 3)
    variance = ((330 - 1250 / 3) ** 2 + (430 - 1250 / 3) ** 2 + (490 - 1250 / 3) ** 2) / 2
    spread = sqrt(variance - 200 / 3)
    assert noise == pytest.approx(found["noise σ"])
    assert spread == pytest.approx(found["spread τ"])
    # The expected maximum of three standard normal numbers is 3 / (2 √π).
    assert 0.8462843753 * (200 / 3) / sqrt(variance) == pytest.approx(found["expected optimism"])
    shrunken = 1250 / 3 + spread**2 / variance * (490 - 1250 / 3)
    assert shrunken == pytest.approx(found["shrunken estimate"])


def test_only_trials_at_the_full_budget_are_in_the_model() -> None:
    """Scores of a low fidelity are of other runs, even on all tuning seeds."""
    low = trial(12, 900.0, 900.0, 900.0, steps=10, eligible=False)
    own = of_sweep(swept_evidence(trials=(*trials(), low)), tuned=TUNED, default=UNTUNED)
    expected = table(part_of(Winner(), swept()), "winner-optimism").rows
    assert expected == table(part_of(Winner(), own), "winner-optimism").rows


def test_screening_is_told_beside_the_model() -> None:
    """It chose the trials that the model takes for drawn ones."""
    own = table(part_of(Winner(), swept()), "winner-optimism")
    assert "of the best of 3 trials on 3 tuning seeds each; that they were chosen" in str(own.rows)


def test_without_two_tuning_seeds_there_is_no_model() -> None:
    """The reason is told, and a single test run proves nothing."""
    part = part_of(Winner(), one_tuning_seed())
    told = {row[0]: row[1:] for row in table(part, "winner-optimism").rows}
    assert None is told["expected optimism"][0]
    assert "with one seed they cannot be separated" in str(told["expected optimism"][1])
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert "Tuning overstated by 12.0 (too few runs for an interval (n = 2))" in text


def test_every_hyperparameter_stands_beside_the_default() -> None:
    """Searched ones first with their ranges, then the others; a finalist too."""
    own = table(part_of(Winner(), swept()), "winner-settings")
    titles = ["parameter", "searched", "default", "trial 5 (winner)", "trial 2"]
    assert titles == [c.title for c in own.columns]
    expected = (LEARNING_RATE, "1e-05 to 0.1, log", "0.0003", "0.0251189", "0.00912011")
    assert expected == own.rows[0]
    assert ("one of 32, 64", "64", "32", None) == own.rows[3][1:]
    rest = {row[0]: row[1:4] for row in own.rows[4:]}
    assert (None, "ppo", "ppo") == rest["algorithm"]


def test_how_it_was_chosen() -> None:
    """The rule, the finalists, and that the choice stands."""
    part = part_of(Winner(), swept())
    text = texts(part)[0]
    assert "the finalist with the best mean on selection seeds. There were 2 finalists" in text
    assert "frozen before the first test run existed" in text
    own = table(part, "winner-finalists")
    assert (5, "winner", 490.0, 3, 465.0, 4) == own.rows[0]
    assert (2, "finalist", 430.0, 3, 415.0, 4) == own.rows[1]


def test_a_winner_that_loses_is_a_problem() -> None:
    """Four runs a side that are all apart are no chance."""
    own = of_sweep(swept_evidence(), tuned=UNTUNED, default=TUNED)
    assert Tone.PROBLEM is notices(part_of(Winner(), own))[0][0]


def test_too_few_runs_decide_nothing() -> None:
    """Three a side that are all apart may be chance."""
    own = of_sweep(swept_evidence(), tuned=TUNED[:3], default=UNTUNED[:3])
    assert Tone.NOTE is notices(part_of(Winner(), own))[0][0]


def test_overlapping_runs_are_judged_by_the_interval() -> None:
    """The winner beats the default in 13 of 25 pairs, half of one of them a tie."""
    own = of_sweep(
        swept_evidence(), tuned=(1.0, 2.0, 3.0, 4.0, 6.0), default=(0.0, 2.5, 3, 3.5, 5)
    )
    tone, text = notices(part_of(Winner(), own))[0]
    assert Tone.NOTE is tone
    assert "with probability 0.54 [" in text


def test_a_default_that_won_is_said() -> None:
    """Its runs are the only ones: nothing is compared with itself."""
    part = part_of(Winner(), default_won())
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert text.startswith("The default configuration won sample: tuning found nothing better")
    assert "beats" not in text
    own = table(part, "winner-scores")
    assert ["tuning", "test"] == column(own, "phase")
    assert ["default", "default"] == column(own, "label")


def test_before_the_choice_there_is_no_result() -> None:
    """The best so far is told as what it is, a tuning score."""
    part = part_of(Winner(), searching())
    tone, text = notices(part)[0]
    assert Tone.NOTE is tone
    assert "12 trials, best so far is trial 5 with 490 (score)" in text
    assert text.endswith("no result.")
    titles = ["parameter", "searched", "default", "trial 5 (best so far)"]
    assert titles == [c.title for c in table(part, "winner-settings").columns]


@pytest.mark.parametrize("sample", [just_begun, none_succeeded])
def test_without_a_trial_to_win_only_the_default_is_shown(sample: Callable[[], Evidence]) -> None:
    """It has a value for every parameter."""
    own = table(part_of(Winner(), sample()), "winner-settings")
    assert ("0.0003", "10", "mlp", "64") == tuple(column(own, "default"))
    assert 3 == len(own.columns)


def test_before_the_test_runs_there_is_no_result() -> None:
    """The winner is named, and its worth is not known."""
    part = part_of(Winner(), untested())
    assert notices(part)[0][1].endswith("It has no test score yet, and only that is a result.")
    assert None is table(part, "winner-optimism").rows[0][1]


def test_diverged_scores_make_no_number() -> None:
    """They are counted, and the reason stands there."""
    part = part_of(Winner(), odd_values())
    own = table(part, "winner-scores")
    assert "no score of use" == column(own, "remark")[2]
    assert "not estimated: 3 trials have a score that is no number of use" in str(
        table(part, "winner-optimism").rows
    )


def test_planned_runs_without_a_score_are_told() -> None:
    """Five of six, not five."""
    own = swept()
    member = next(m for m in own.members if m.label == "tuned")
    planned = RunRecord(spec=replace(member.record.spec, seed=9))
    lacking = replace(member, record=planned)
    part = part_of(Winner(), replace(own, members=(*own.members, lacking)))
    assert (
        "it scores 450 [431, 469] (n = 5: 430, 440, 450, 460, 470) on 5 of 6 test seeds"
        in notices(part)[0][1]
    )


def test_several_sweeps_have_blocks_of_their_own() -> None:
    """Named by the experiment, each with its own runs."""
    part = part_of(Winner(), two_sweeps())
    names = [own.name for own in of_kind(part, Table)]
    assert 8 == len(set(names)) == len(names)
    assert "winner-scores-other" in names
    labels = column(table(part, "winner-scores-other"), "label")
    assert {"other/tuned", "other/default"} == set(labels)
    assert [Tone.GOOD, Tone.PROBLEM] == [tone for tone, _ in notices(part)]


def test_a_parameter_that_is_not_there_has_no_value() -> None:
    """The second finalist has no width."""
    own = table(part_of(Winner(), swept()), "winner-settings")
    assert None is next(row for row in own.rows if row[0] == WIDTH)[4]
