"""Words of a report about its scores: their quantity, and which direction is better."""

from rlexp.protocol.measures import RETURN
from rlexp.reports.evidence.runs import Evidence
from rlexp.text import join_names


def quantities_text(evidence: Evidence) -> str:
    """What the scores are made of: `return`, or the names of measures."""
    return join_names(evidence.quantities) or RETURN


def about_scores(text: str, evidence: Evidence) -> str:
    """A text about returns as a text about the quantity of the scores.

    Args:
        text: The text, with the word `return` or `returns` for what is scored.
        evidence: The runs; where their scores are returns, the text stays as it is.
    """
    if set(evidence.quantities) <= {RETURN}:
        return text
    name = quantities_text(evidence)
    for word, replacement in (
        ("Returns are", f"Values of {name} are"),
        ("Return as", f"{name} as"),
        ("returns", f"values of {name}"),
        ("return", name),
    ):
        text = text.replace(word, replacement)
    return text


def worst_end(evidence: Evidence) -> str:
    """The end of the possible scores that is the worst on the tasks: `minimum` or `maximum`."""
    ends = {cell.worst_word for cell in evidence.cells.values()}
    return join_names(sorted(ends)).replace(" and ", " or ")
