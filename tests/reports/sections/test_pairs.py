"""Every test of every pair in a report."""

import pytest
from evidence_samples import CARTPOLE, SAMPLES, inquiry, of_scores

from rlexp.reports.drawing.blocks import Table, Text, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.pairs import COLUMNS, PairwiseTestsSection
from rlexp.stats.interval import Interval

HIGH, LOW = [90.0, 91.0, 92.0, 93.0, 94.0], [10.0, 11.0, 12.0, 13.0, 14.0]


def table_of(evidence: Evidence, **changes: object) -> Table:
    """The table of the section, which must exist."""
    part = PairwiseTestsSection().part(inquiry(evidence, **changes))
    assert part is not None
    (table,) = (block for block in part.blocks if isinstance(block, Table))
    return table


def rows_of(evidence: Evidence, **changes: object) -> list[dict[str, Value]]:
    """The rows by the titles of the columns."""
    titles = [column.title for column in COLUMNS]
    return [dict(zip(titles, row, strict=True)) for row in table_of(evidence, **changes).rows]


def test_every_number_of_a_pair() -> None:
    """Labels without overlap have a delta of 1 and the least p of 252 relabellings."""
    (row,) = rows_of(of_scores({("ppo", CARTPOLE): HIGH, ("a2c", CARTPOLE): LOW}))
    assert ("ppo", "a2c", "5 and 5", 1.0, "better") == tuple(
        row[title] for title in ("first", "second", "runs", "Cliff's delta", "verdict")
    )
    for title in ("permutation p", "Mann–Whitney p", "adjusted p"):
        assert 2 / 252 == pytest.approx(row[title])
    inverted = row["difference"]
    assert isinstance(inverted, Interval)
    assert inverted.low is not None
    assert 0 < inverted.low < 80 < (inverted.high or 0)
    difference = row["difference of means"]
    assert isinstance(difference, Interval)
    assert 80.0 == pytest.approx(difference.estimate)
    # Both variances are 2.5, so t = 80 with 8 degrees of freedom, whose 97.5 % point is 2.306.
    assert (80 - 2.306, 80 + 2.306) == pytest.approx((difference.low, difference.high), abs=1e-3)


def test_the_other_order_reverses_the_pair() -> None:
    """With labels exchanged, p is equal and difference, delta and verdict are reversed."""
    scores = {("ppo", CARTPOLE): HIGH, ("a2c", CARTPOLE): LOW}
    (forward,) = rows_of(of_scores(scores))
    (reversed_row,) = rows_of(of_scores(dict(reversed(scores.items()))))
    assert ("a2c", "ppo", "worse") == (
        reversed_row["first"],
        reversed_row["second"],
        reversed_row["verdict"],
    )
    assert -1.0 == reversed_row["Cliff's delta"]
    assert forward["permutation p"] == reversed_row["permutation p"]


def test_clear_pairs_of_three_labels_keep_their_p() -> None:
    """Closed testing leaves the smallest p of a clear pair as it is, and the note names the rule."""
    scores = {("ppo", CARTPOLE): HIGH, ("a2c", CARTPOLE): LOW, ("dqn", CARTPOLE): LOW[::-1]}
    rows = rows_of(of_scores(scores))
    assert [("ppo", "a2c"), ("ppo", "dqn"), ("a2c", "dqn")] == [
        (row["first"], row["second"]) for row in rows
    ]
    expected = [2 / 252, 2 / 252, 1.0]
    assert expected == pytest.approx([row["adjusted p"] for row in rows])
    note = table_of(of_scores(scores)).note
    assert "family-wise level 0.05 over 3 pairs, by closed testing." in note
    assert "Permutation test (exact)." in note


def test_the_unit_is_stated() -> None:
    """The text names returns on one task and normalised scores on several."""
    introductions = []
    for make in (SAMPLES["one_task"], SAMPLES["typical"]):
        part = PairwiseTestsSection().part(inquiry(make()))
        assert part is not None
        introductions.append(next(b.text for b in part.blocks if isinstance(b, Text)))
    assert "in units of the return" in introductions[0]
    assert "in units of the normalised score" in introductions[1]


def test_one_label_has_no_pair() -> None:
    """A report with one label, or without labels, has no section on pairs."""
    for name in ("one_label", "empty"):
        assert PairwiseTestsSection().part(inquiry(SAMPLES[name]())) is None


@pytest.mark.parametrize("name", ["all_failed", "nothing_run", "not_finite", "one_seed"])
def test_what_cannot_be_compared_has_a_reason(name: str) -> None:
    """A pair without scores has empty cells and a reason."""
    for row in rows_of(SAMPLES[name]()):
        if row["difference"] is None:
            assert len(str(row["verdict"])) > 20
            assert row["permutation p"] is row["adjusted p"] is None
        else:
            assert "undecided" == row["verdict"] or row["permutation p"] is not None
