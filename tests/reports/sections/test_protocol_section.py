"""The protocol in a report."""

import json
from dataclasses import replace

from evidence_samples import (
    CARTPOLE,
    configured,
    empty,
    evidence,
    inquiry,
    scored,
    typical,
    unequal_budgets,
    unequal_seeds,
    worst,
)
from part_blocks import column, notices, of_kind, part_of, table, texts
from sweep_samples import SPACE, default_won, searching, sweep, swept, swept_evidence

from rlexp.protocol.seeds import SeedPlan
from rlexp.protocol.space import Space
from rlexp.reports.drawing.blocks import Tone, Value, VerbatimText
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.protocol import ProtocolSection


def test_seeds_are_listed_by_phase() -> None:
    """Each row has root, seeds and their number; a phase without seeds has no row."""
    seeds_table = table(part_of(ProtocolSection(), typical()), "seeds")
    assert (("sample", "tuning", 0, "0–2", 3), ("sample", "test", 0, "0–4", 5)) == seeds_table.rows


def test_explicit_seeds_are_listed_one_by_one() -> None:
    """Explicit seeds are listed one by one."""
    plan = SeedPlan(root=7, tuning=0, selection=(1, 5, 6), test=1)
    experiment = replace(typical().experiments[0], seeds=plan)
    seeds_table = table(
        part_of(ProtocolSection(), replace(typical(), experiments=(experiment,))), "seeds"
    )
    assert ("sample", "selection", 7, "1, 5–6", 3) == seeds_table.rows[0]


def test_budgets_are_listed_by_task_and_label() -> None:
    """Each row has steps, evaluation settings and the score."""
    budgets_table = table(part_of(ProtocolSection(), unequal_budgets()), "budgets")
    assert (
        (CARTPOLE, "ppo", 5, 11_000, 1000, 2, 2, "deterministic", "final"),
        (CARTPOLE, "a2c", 5, 5500, 1000, 2, 1, "deterministic", "final"),
    ) == budgets_table.rows


def test_without_evaluations_there_are_no_episodes_of_them() -> None:
    """The cell of evaluation episodes is empty without evaluations."""
    sample = evidence(scored(configured(), [1.0]))
    record = replace(
        sample.members[0].record,
        spec=replace(
            sample.members[0].record.spec,
            budget={**sample.members[0].record.spec.budget, "evaluation_every": None},
        ),
    )
    members = (replace(sample.members[0], record=record),)
    budgets_table = table(part_of(ProtocolSection(), replace(sample, members=members)), "budgets")
    assert (None, None) == budgets_table.rows[0][4:6]


def test_the_score_is_stated() -> None:
    """The text states the score and the rule for failures."""
    paragraphs = texts(part_of(ProtocolSection(), typical()))
    assert "the mean return of the final policy over 2 fresh episodes" in paragraphs[0]
    assert "A failed run is a missing score." == paragraphs[-1]
    expected = "A failed run counts as the minimum score that its task declares."
    assert expected == texts(part_of(ProtocolSection(), worst()))[-1]


def test_different_rules_for_failures_name_their_experiments() -> None:
    """Each rule has the names of its experiments."""
    first = typical().experiments[0]
    experiments = (first, replace(first, name="other", failures="worst"))
    paragraphs = texts(part_of(ProtocolSection(), replace(typical(), experiments=experiments)))
    assert [True, True] == [
        paragraphs[-2].endswith("missing score. (in sample)"),
        paragraphs[-1].endswith("(in other)"),
    ]


def test_known_scores_are_listed_with_their_source() -> None:
    """A score that is not declared is missing, not zero."""
    scores_table = table(part_of(ProtocolSection(), typical()), "known-scores")
    assert [22.5, -1235.0] == column(scores_table, "random")
    assert [1.0, None] == column(scores_table, "minimum")
    assert ["measured"] * 2 == column(scores_table, "source")


def test_notes_on_fairness_are_in_the_protocol() -> None:
    """The protocol shows notes on fairness, and the verdicts show warnings."""
    tones = {tone for tone, _ in notices(part_of(ProtocolSection(), unequal_seeds()))}
    assert {Tone.NOTE} == tones


def test_an_empty_experiment_has_its_seeds() -> None:
    """An experiment without runs has seeds, but neither budgets nor known scores."""
    part = ProtocolSection().part(inquiry(empty()))
    assert part is not None
    names = [getattr(block, "name", None) for block in part.blocks]
    assert ["seeds"] == [name for name in names if name]


def declared_protocol(sample: Evidence) -> dict[Value, Value]:
    """The declared protocol of the only sweep, by item."""
    return {row[0]: row[1] for row in table(part_of(ProtocolSection(), sample), "search").rows}


def test_a_search_is_listed_as_declared() -> None:
    """The table of the search has tuner, objective, budget, seeds, failures and lag."""
    protocol = declared_protocol(swept())
    assert "tuner tpe (startup = 10), pruner none" == protocol["tuner and pruner"]
    assert str(protocol["budget"]).startswith("at most 12 trials; spent 9.38 full-run equivalents")
    expected = "each configuration on one tuning seed, the best 25 % of them on all"
    assert expected == protocol["seeds of a configuration"]
    assert ("0–2 (3)", "0–3 (4)") == (protocol["tuning seeds"], protocol["selection seeds"])
    assert "2 at most, scored again on the selection seeds" == protocol["finalists"]
    assert "a trial is suggested without results of the 3 trials before it" == protocol["lag"]


def test_without_selection_seeds_the_best_trial_wins() -> None:
    """A sweep without selection seeds selects the best trial."""
    protocol = declared_protocol(default_won())
    assert "the best trial wins, without selection" == protocol["finalists"]
    assert "none" == protocol["selection seeds"]


def test_a_lag_that_is_not_fixed_is_not_listed() -> None:
    """A sweep without a fixed lag has no row for the lag."""
    sample = replace(searching(), sweeps=(swept_evidence(definition=sweep(lag=None)),))
    assert "lag" not in declared_protocol(sample)


def test_the_whole_space_is_listed() -> None:
    """The space is listed with conditions, and verbatim so that it can be parsed."""
    part = part_of(ProtocolSection(), swept())
    ranges_table = table(part, "ranges")
    assert ("agent.width", "one of 32, 64", "agent.network is mlp", "64") == ranges_table.rows[-1]
    listing = next(block for block in of_kind(part, VerbatimText) if block.name == "space")
    assert SPACE == Space.from_plain([json.loads(line) for line in listing.text.splitlines()])
