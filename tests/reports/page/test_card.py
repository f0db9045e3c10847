"""The card at the top of the page."""

from evidence_samples import CARTPOLE, inquiry, of_scores

from rlexp.reports.analysis.summary_card import summary_card
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.drawing.palette import styles
from rlexp.reports.page.html import MOST_ROWS, PageCard, draw_card, render_html


def study_of(labels: int) -> ReportDocument:
    """A report of some labels on one task, of which the last one scores best."""
    names = [f"label {number}" for number in range(labels)]
    scores = {(n, CARTPOLE): [10.0 * k + 1, 10.0 * k + 2] for k, n in enumerate(names)}
    context = inquiry(of_scores(scores))
    return ReportDocument(
        title="x",
        subtitle="",
        labels=tuple(names),
        parts=(),
        version="1",
        card=summary_card(context),
    )


def card_of(labels: int) -> PageCard:
    """The card of the page of such a report."""
    study = study_of(labels)
    card = draw_card(study, styles(study))
    assert card is not None
    return card


def test_the_card_of_many_labels_has_the_best_ones() -> None:
    """The card fits on a screen: it has rows and curves of the best labels, and says how many."""
    card = card_of(MOST_ROWS + 2)
    (panel,) = card.intervals.panels
    shown = [row.label for row in panel.rows]
    assert [f"label {k}" for k in range(MOST_ROWS + 1, 1, -1)] == shown
    assert any(
        f"The first {MOST_ROWS} of {MOST_ROWS + 2} labels" in n for n in card.intervals.notes
    )
    assert card.curves is not None
    assert set(shown) == {name for plot in card.curves.blocks for name in plot.labels}


def test_the_card_of_few_labels_has_all() -> None:
    """Up to the limit, every label has a row, and no note counts them."""
    (panel,) = card_of(MOST_ROWS).intervals.panels
    assert MOST_ROWS == len(panel.rows)
    assert "The first" not in render_html(study_of(MOST_ROWS))


def test_the_note_about_bands_stands_below_the_curves() -> None:
    """The note that the small curves share is on the page, once."""
    assert 1 == render_html(study_of(2)).count("Lines: IQM over runs.")
