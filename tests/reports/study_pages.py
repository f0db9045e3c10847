"""Pages of the sample studies as text, rendered once for all tests."""

from functools import cache

from study_samples import SAMPLES

from rlexp.reports.page.html import render_html


@cache
def text_of(name: str) -> str:
    """The page of a sample."""
    return render_html(SAMPLES[name]())
