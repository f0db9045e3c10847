"""Answers to the items of a checklist."""

from collections.abc import Callable
from enum import StrEnum

from rlexp.reports.evidence.runs import Evidence


class Answer(StrEnum):
    """What the evidence says to an item."""

    YES = "yes"
    NO = "no"
    WORDS = "needs words"


Judged = tuple[Answer, str]
"""An answer, and what it rests on or what is for the author to say, in sentences."""
Judge = Callable[[Evidence], Judged]
