"""The answer of a report on one line, and the card that shows it."""

from dataclasses import replace

import pytest
from evidence_samples import (
    CARTPOLE,
    all_failed,
    constant,
    evidence,
    incomplete,
    inquiry,
    of_scores,
    one_label,
    one_run,
    one_seed,
    tuning_phase,
    typical,
)
from part_blocks import notices, part_of, table
from sweep_samples import searching, swept

from rlexp.protocol.space import Space
from rlexp.records.run import RunRecord
from rlexp.reports.analysis.answer import answer
from rlexp.reports.analysis.estimates import aggregates, pairs
from rlexp.reports.analysis.summary_card import summary_card
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.cost import CostSection
from rlexp.reports.sections.verdicts import VerdictsSection

PPO, A2C, DQN = (("ppo", CARTPOLE), ("a2c", CARTPOLE), ("dqn", CARTPOLE))
APART = of_scores({PPO: [475.0, 474.0, 473.0, 476.0], A2C: [100.0, 101.0, 99.0, 102.0]})
CLOSE = of_scores({PPO: [210.0, 190.0, 250.0, 220.0], A2C: [180.0, 240.0, 205.0, 200.0]})


def text_of(sample: Evidence, **settings: object) -> str:
    """The answer about a sample of runs."""
    return answer(inquiry(sample, **settings)).text


def test_a_decided_pair_names_the_better_label_and_the_difference() -> None:
    """The better label comes first, whatever its place among the labels."""
    first = answer(inquiry(APART))
    assert first.text.startswith("ppo is better than a2c by 374.0 [37")
    assert first.text.endswith("] with 4 seeds")
    assert Tone.GOOD is first.tone
    swapped = of_scores({A2C: [100.0, 101.0, 99.0, 102.0], PPO: [475.0, 474.0, 473.0, 476.0]})
    assert text_of(swapped) == first.text


def test_an_undecided_pair_says_what_could_be_found() -> None:
    """The number of seeds and the difference that they could find are part of the answer."""
    reply = answer(inquiry(CLOSE))
    assert reply.text.startswith("ppo and a2c: undecided with 4 seeds; a difference of ")
    assert reply.text.endswith(" could be found")
    assert "in favour of ppo, p = " in reply.basis
    assert Tone.NOTE is reply.tone


def test_too_few_seeds_say_how_many_could_decide() -> None:
    """With three seeds no permutation test can decide, so the answer names four seeds."""
    few = of_scores({PPO: [210.0, 190.0, 250.0], A2C: [180.0, 240.0, 205.0]})
    expected = "undecided, and 3 seeds cannot decide; 4 seeds could find a difference of "
    assert expected in text_of(few)


def test_an_equivalent_pair_names_the_margin() -> None:
    """A declared margin is part of the answer."""
    near = of_scores({PPO: [200.0, 201.0, 202.0, 203.0], A2C: [201.0, 202.0, 200.0, 203.5]})
    assert text_of(near, margin=20.0) == "ppo and a2c are equivalent within ±20 with 4 seeds"


def test_one_of_three_labels_is_better_than_all_others() -> None:
    """A label that beats every other one is named with them."""
    sample = of_scores(
        {
            PPO: [475.0, 474.0, 473.0, 476.0, 477.0],
            A2C: [100.0, 101.0, 99.0, 102.0, 103.0],
            DQN: [100.5, 101.5, 99.5, 102.5, 98.0],
        }
    )
    reply = answer(inquiry(sample))
    assert "ppo is better than a2c and dqn with 5 seeds" == reply.text
    assert "2 of 3 pairs decided" in reply.basis


def test_two_labels_that_share_the_lead_are_both_named() -> None:
    """Labels that no other label beats are named together."""
    sample = of_scores(
        {
            PPO: [475.0, 474.0, 473.0, 476.0, 477.0],
            A2C: [100.0, 101.0, 99.0, 102.0, 103.0],
            DQN: [475.5, 474.5, 473.5, 476.5, 472.0],
        }
    )
    assert "ppo and dqn lead with 5 seeds: no label is better than they are" == text_of(sample)


def test_the_only_decided_pair_is_named() -> None:
    """Of several labels, the one that is better than a single other one is named with it."""
    sample = of_scores(
        {
            PPO: [475.0, 474.0, 473.0, 476.0, 477.0],
            A2C: [100.0, 101.0, 99.0, 102.0, 103.0],
            DQN: [20.0, 490.0, 250.0, 480.0, 30.0],
        }
    )
    expected = "ppo is better than a2c with 5 seeds; no other label is better than another"
    assert expected == text_of(sample)


def of_many(*scores: list[float]) -> Evidence:
    """Labels `l0`, `l1`, … with these scores."""
    return of_scores({(f"l{k}", CARTPOLE): values for k, values in enumerate(scores)})


def around(centre: float, spread: float = 1.0) -> list[float]:
    """Six scores around a centre."""
    return [centre + spread * k for k in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)]


def test_the_best_of_many_labels_is_named_with_those_it_is_better_than() -> None:
    """Of six labels, the answer names the best one, some that it beats, and the undecided one."""
    sample = of_many(*(around(c) for c in (100, 90, 400, 80, 70)), around(399.8, 3.0))
    reply = answer(inquiry(sample))
    expected = "l2 is better than l0, l1, l3 and 1 more with 6 seeds; undecided against l5"
    assert expected == reply.text
    assert Tone.NOTE is reply.tone
    assert "pairs decided" in reply.basis


@pytest.mark.parametrize("labels", [5, 8, 12])
def test_the_best_of_many_labels_is_better_than_all_others(labels: int) -> None:
    """A label that beats every other one is named with their number."""
    sample = of_many(*(around(50.0 + k) for k in range(labels - 1)), around(400))
    reply = answer(inquiry(sample))
    expected = f"l{labels - 1} is better than all {labels - 1} other labels with 6 seeds"
    assert expected == reply.text
    assert Tone.GOOD is reply.tone


def test_the_best_of_many_labels_may_be_better_than_none() -> None:
    """Where its runs are far apart, the best label beats none, and the others follow by score."""
    sample = of_many(
        [1.0, 500.0, 499.0, 498.0, 2.0, 497.0], *(around(c) for c in (300, 100, 102, 104))
    )
    expected = "l0 scores best with 6 seeds; undecided against l1, l4, l3 and 1 more"
    assert expected == text_of(sample)


def test_many_undecided_labels_say_whether_their_seeds_could_decide() -> None:
    """Without a decided pair, the answer says so, and names the label with the best score."""
    six = of_many(*(around(100.0 + k, 30.0) for k in range(6)))
    assert text_of(six) == "no pair of 6 labels is decided with 6 seeds; l5 scores best"
    three = of_many(*([100.0 + k, 101.0 + k, 102.0 + k] for k in range(6)))
    assert text_of(three) == "3 seeds cannot decide between 6 labels; l5 scores best"


def test_the_answer_about_many_labels_needs_no_intervals() -> None:
    """The terminal leaves the intervals of differences out, and says the same as the page."""
    sample = inquiry(of_many(*(around(c, 9.0) for c in (100, 90, 400, 80, 395))))
    quick = replace(sample, pair_intervals=False)
    assert answer(sample) == answer(quick)
    assert all(
        p.decision and p.decision.member.comparison.difference.low is None for p in pairs(quick)
    )
    assert any(p.decision and p.decision.member.comparison.difference.low for p in pairs(sample))


def test_a_single_label_states_its_score() -> None:
    """The answer about one label is its leading metric with the interval of the aggregates."""
    report = inquiry(one_label())
    reply = answer(report)
    assert reply.text.startswith("ppo scores ")
    assert aggregates(report)[0].intervals["iqm"].n > 0


@pytest.mark.parametrize("sample", [all_failed(), evidence([])], ids=["failed", "nothing"])
def test_without_a_score_there_is_no_result(sample: Evidence) -> None:
    """The answer says that there is no score, and no number looks like one."""
    reply = answer(inquiry(sample))
    assert "no " in reply.text
    assert reply.tone in {Tone.PROBLEM, Tone.NOTE}


@pytest.mark.parametrize(
    "sample",
    [typical(), incomplete(), constant(), one_run(), APART, CLOSE, one_label()],
    ids=["typical", "incomplete", "constant", "one run", "apart", "close", "one label"],
)
def test_every_answer_is_one_short_line(sample: Evidence) -> None:
    """An answer fits on a line of a page: at most 120 characters, no line feed."""
    text = text_of(sample)
    assert 10 < len(text) <= 120
    assert "\n" not in text


def test_the_answer_agrees_with_the_section_of_verdicts() -> None:
    """Answer and section are good in the same cases."""
    for sample in (APART, CLOSE):
        section = notices(part_of(VerdictsSection(), sample))[0]
        assert section[0] is answer(inquiry(sample)).tone


def test_the_card_shows_the_numbers_of_the_sections() -> None:
    """Intervals are those of the aggregates, and the cost is that of its section."""
    report = inquiry(APART)
    card = summary_card(report)
    assert card.intervals is not None
    shown = {mark.label: mark.interval for mark in card.intervals.panels[0].marks}
    assert {e.label: e.intervals["iqm"] for e in aggregates(report)} == shown
    cost = table(part_of(CostSection(), APART), "cost")
    assert f"{cost.rows[-1][4]:,} environment steps" in dict(card.facts)["Cost"]
    assert pairs(report)[0].decision is not None


def test_the_card_counts_missing_runs() -> None:
    """Runs without a score are counted on the card with their states."""
    missing = dict(summary_card(inquiry(incomplete())).facts)["Missing"]
    assert "runs have no score (" in missing
    assert "none, every planned run" in dict(summary_card(inquiry(APART)).facts)["Missing"]


def test_the_card_of_a_sweep_shows_phases_and_parameters() -> None:
    """Winner and default stand beside each other, in every phase and for every parameter."""
    tables = {t.name: t for t in summary_card(inquiry(swept())).tables}
    phases = tables["answer-phases"]
    assert ["phase", "tuned (trial 5)", "default (trial 0)", "seeds"] == [
        c.title for c in phases.columns
    ]
    assert ("test", 450.0, 320.0, "5") == phases.rows[-1]
    assert "Optimism of tuning (tuning score minus test score): " in phases.note
    titles = [column.title for column in tables["answer-parameters"].columns]
    assert ["parameter", "default", "tuned (trial 5)"] == titles


def test_the_card_of_a_stream_has_no_empty_table_of_parameters() -> None:
    """Without a search space, as in a stream of candidates, the card has no table of parameters."""
    sweep = swept().sweeps[0]
    definition = replace(sweep.definition, space=Space(parameters=()))
    evidence = replace(swept(), sweeps=(replace(sweep, definition=definition),))
    assert ["answer-phases"] == [table.name for table in summary_card(inquiry(evidence)).tables]


def test_a_search_without_a_winner_states_no_result() -> None:
    """The best trial so far is named with a warning that its score overestimates."""
    reply = answer(inquiry(searching()))
    assert "has no winner yet" in reply.text
    assert "overestimates" in reply.basis


def test_trials_with_a_part_of_their_seeds_are_not_called_incomplete_without_a_reason() -> None:
    """A trial may be complete on one seed: the answer says on how many seeds none is complete."""
    (sweep,) = searching().sweeps
    waiting = replace(
        sweep,
        tuning_seeds=(0, 1),
        trials=tuple(replace(trial, eligible=False) for trial in sweep.trials),
    )
    several = text_of(replace(searching(), sweeps=(waiting,)))
    assert several.endswith("trials, none is complete on all 2 tuning seeds")
    single = text_of(replace(searching(), sweeps=(replace(waiting, tuning_seeds=(0,)),)))
    assert single.endswith("trials, none is complete")


def test_the_answer_about_tuning_runs_says_that_they_decide_nothing() -> None:
    """The headline itself has the warning, and calls no label better than another."""
    reply = answer(inquiry(tuning_phase()))
    assert reply.text.startswith("tuning runs decide nothing: ")
    assert "better than" not in reply.text
    assert "Only test runs are results." in reply.basis
    assert Tone.WARNING is reply.tone


def test_tuning_runs_of_a_sweep_name_the_chosen_configuration() -> None:
    """After the selection, the highest tuning score says nothing about which trial was chosen."""
    reply = answer(inquiry(replace(tuning_phase(), sweeps=swept().sweeps)))
    assert "tuned (trial 5) was chosen, and its test runs are the result" in reply.text


def test_labels_are_shown_with_the_best_first() -> None:
    """Rows are sorted by score, whatever the order of the labels."""
    low, high = [100.0, 101.0, 99.0, 102.0], [475.0, 474.0, 473.0, 476.0]
    sample = inquiry(of_scores({A2C: low, PPO: high}))
    assert ["ppo", "a2c"] == [e.label for e in aggregates(sample)]
    assert ["a2c", "ppo"] == list(sample.evidence.labels)
    figure = summary_card(sample).intervals
    assert figure is not None
    assert ["ppo", "a2c"] == [mark.label for mark in figure.panels[0].marks]


def test_the_card_says_what_lines_and_bands_are() -> None:
    """A small curve has a note about its band, and only about one that is drawn."""
    (curve, *_) = summary_card(inquiry(typical())).curves
    assert "Lines: IQM over runs. Bands: 95 % interval of the IQM at each step." == curve.note
    (bare, *_) = summary_card(inquiry(one_seed())).curves
    assert "Lines: IQM over runs." == bare.note


def test_the_card_says_which_aggregate_decides() -> None:
    """Mean scores by phase stand beside an IQM: the note says that the IQM decides."""
    phases, _ = summary_card(inquiry(swept())).tables
    assert "Only test scores are results, and their IQM decides, not the mean." in phases.note


@pytest.mark.parametrize("running", [0, 1])
def test_missing_scores_are_a_problem_only_where_nothing_brings_them(running: int) -> None:
    """While runs are running and none has failed, a label without a score is no problem."""
    whole = of_scores({PPO: [475.0, 474.0], A2C: [100.0, 101.0]})
    planned = [
        replace(m, record=RunRecord(spec=m.record.spec)) if m.label == "a2c" else m
        for m in whole.members
    ]
    sample = replace(whole, members=tuple(planned), running=running)
    text = "ppo and a2c cannot be compared"
    assert answer(inquiry(sample)).text == (f"{text} yet" if running else text)
    tone = Tone.NOTE if running else Tone.PROBLEM
    assert tone is answer(inquiry(sample)).tone
    assert tone in {tone for tone, _ in notices(part_of(VerdictsSection(), sample))}


def test_a_failed_run_is_a_problem_while_others_run() -> None:
    """Where every run that ended has failed, the answer stays a problem."""
    sample = replace(all_failed(), running=1)
    assert Tone.PROBLEM is answer(inquiry(sample)).tone
