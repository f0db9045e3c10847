"""The effects of an ablation, and the sentence about what did it."""

import math
from dataclasses import replace

import pytest
from ablation_samples import (
    EACH,
    GROUP,
    PATH,
    RATE_DID_IT,
    TOGETHER,
    WITH_RATE,
    ablated,
)
from evidence_samples import inquiry

from rlexp.records.ablation import Ablation
from rlexp.reports.analysis.ablation_answer import ablation_answer, ablation_basis
from rlexp.reports.analysis.ablation_effects import AblationEffects, ablation_effects
from rlexp.reports.analysis.answer import answer
from rlexp.reports.drawing.blocks import IntervalFigure, Table, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.ablation import AblationSection


def effects_of(evidence: Evidence) -> AblationEffects:
    """The effects of the only ablation."""
    effects = ablation_effects(evidence.ablations[0], evidence)
    assert effects is not None
    return effects


def test_a_change_that_did_it_is_decided_in_place_and_alone() -> None:
    """The effect of the learning rate is decided both ways, with about the same size."""
    rate, epochs = effects_of(ablated()).changes
    assert rate.left_out is not None
    assert rate.added is not None
    assert ("better", "better") == (rate.left_out.decision, rate.added.decision)
    assert math.isclose(rate.left_out.estimate, rate.added.estimate, abs_tol=10)
    assert rate.interaction is None
    assert {"equal"} == {effect.decision for effect in epochs.effects}


def test_the_answer_names_it_with_its_effect() -> None:
    """The answer names the change, by how much the score falls without it, and its interval."""
    effects = effects_of(ablated())
    tone, text = ablation_answer(effects)
    rate = effects.changes[0].left_out
    assert rate is not None
    assert rate.difference is not None
    assert Tone.GOOD == tone
    shown = f"{rate.difference.estimate:.1f} [{rate.difference.low:.1f}, "
    assert text.startswith(
        f"learning_rate did it: without learning_rate the mean score falls by {shown}"
    )
    basis = ablation_basis(effects)
    assert "at most 5 %" in basis
    assert "differences of mean scores (n = 16 " in basis
    assert "(inverted group-sequential permutation test, seed 0)" in basis
    assert "all of them together may hold in slightly less than 95 % of ablations" in basis
    alone = replace(effects, contrasts=1, family="bonferroni")
    assert "together" not in ablation_basis(alone)


def test_panels_have_the_same_axis() -> None:
    """Effects in place and alone are drawn on one axis, which holds every interval and 0."""
    evidence = ablated()
    section = AblationSection().part(inquiry(evidence))
    assert section is not None
    (figure,) = (b for b in section.blocks if isinstance(b, IntervalFigure))
    (axis,) = {panel.axis for panel in figure.panels}
    assert axis.low is not None
    assert axis.high is not None
    for mark in (mark for panel in figure.panels for mark in panel.marks):
        assert axis.low < min(0.0, mark.interval.low or 0.0), mark
        assert axis.high > max(0.0, mark.interval.high or 0.0), mark


def test_changes_that_act_together_are_named_as_such() -> None:
    """Where both changes are needed, both did it, and each is marked as useless alone."""
    effects = effects_of(ablated(TOGETHER))
    assert ablation_answer(effects)[1].startswith(("learning_rate and n_epochs", "n_epochs and"))
    assert all("no effect alone" in (c.interaction or "") for c in effects.changes)


def test_nothing_is_claimed_without_an_effect() -> None:
    """Where no effect was found, the answer says so and is no good news."""
    effects = effects_of(ablated(dict.fromkeys(RATE_DID_IT, 300.0)))
    tone, text = ablation_answer(effects)
    assert (Tone.NOTE, True) == (tone, text.startswith("No effect was found: "))


def test_a_harmful_change_is_named() -> None:
    """A change without which the score rises harms."""
    worse = {label: 700.0 - mean for label, mean in RATE_DID_IT.items()}
    text = ablation_answer(effects_of(ablated(worse)))[1]
    assert "learning_rate harms: without learning_rate the mean score rises by" in text


def test_lower_scores_can_be_better() -> None:
    """Of a minimised score, the same change is the opposite decision, in units of the score."""
    raised, lowered = (effects_of(ablated(minimised=m)) for m in (False, True))
    assert raised.total.difference is not None
    assert lowered.total.difference is not None
    assert ("better", "worse") == (raised.total.decision, lowered.total.decision)
    assert raised.total.difference.estimate == pytest.approx(lowered.total.difference.estimate)
    # Relabellings that are drawn at random differ where the order of the scores is reversed.
    assert raised.total.difference.low == pytest.approx(lowered.total.difference.low, abs=3)
    assert lowered.lower_is_better


def test_an_unfinished_ablation_says_so() -> None:
    """Before the last interim analysis, undecided comparisons are open and not equal."""
    effects = effects_of(ablated(seeds=GROUP))
    assert (False, 1) == (effects.finished, effects.looks)
    assert "still undecided" in ablation_answer(effects)[1]
    none = effects_of(ablated(seeds=GROUP - 1))
    assert none.total.difference is None
    assert "no interim analysis has been made yet" in ablation_answer(none)[1]


def test_a_path_has_a_step_for_each_change() -> None:
    """On a path the step of the learning rate did it, and its effects add up to the total."""
    effects = effects_of(ablated(ablation=PATH))
    rate, epochs = effects.changes
    assert rate.step is not None
    assert epochs.step is not None
    assert ("better", "equal") == (rate.step.decision, epochs.step.decision)
    text = ablation_answer(effects)[1]
    assert text.startswith("learning_rate did it: with learning_rate the mean score rises by")


def test_runs_after_a_decision_do_not_change_its_numbers() -> None:
    """The effect of a decided comparison uses the runs up to its decision, and names their n."""
    effects = effects_of(ablated())
    total = effects.total
    assert total.difference is not None
    assert total.look is not None
    assert total.look < 3
    assert 2 * GROUP * total.look == total.difference.n
    early = effects_of(ablated(seeds=GROUP * total.look))
    assert total.difference == early.total.difference


def test_a_report_of_some_labels_has_no_effects() -> None:
    """Where a label is missing, nothing is computed from the others."""
    whole = ablated()
    kept = tuple(m for m in whole.members if m.label != WITH_RATE)
    part = Evidence(
        phase=whole.phase,
        experiments=whole.experiments,
        members=kept,
        ablations=whole.ablations,
    )
    assert ablation_effects(part.ablations[0], part) is None


def test_the_report_leads_with_the_same_answer() -> None:
    """The card of a report and the section have the sentence and the numbers of the command."""
    evidence = ablated()
    context = inquiry(evidence)
    effects = effects_of(evidence)
    assert answer(context).text == ablation_answer(effects)[1].rstrip(".")
    content = AblationSection().part(context)
    assert content is not None
    (table,) = (b for b in content.blocks if isinstance(b, Table))
    (figure,) = (b for b in content.blocks if isinstance(b, IntervalFigure))
    rate = effects.changes[0]
    assert rate.left_out is not None
    assert rate.left_out.difference in table.rows[0]
    marks = [mark.interval for panel in figure.panels for mark in panel.marks]
    assert {rate.left_out.difference, effects.total.difference} <= set(marks)


@pytest.mark.parametrize("ablation", [EACH, PATH])
def test_an_ablation_survives_its_file(ablation: Ablation) -> None:
    """The JSON values of an ablation give the same ablation."""
    assert ablation == Ablation.from_plain(ablation.plain())
