"""The files of sample studies in every format as hashes, for processes to compare."""

import json
import sys
from dataclasses import replace
from hashlib import sha256

from study_samples import SAMPLES

from rlexp.reports.figures import draw_figures
from rlexp.reports.formats import as_csv, as_json, latex, markdown

WORDS = ("typical", "hostile", "empty")
"""Samples that are written in every text format."""


def hashes_of_words() -> dict[str, str]:
    """The hash of each file of the text formats."""
    return {
        f"{name}/{file}": sha256(content).hexdigest()
        for name in WORDS
        for module in (as_csv, as_json, latex, markdown)
        for file, content in module.render(SAMPLES[name]()).items()
    }


def hashes_of_figures() -> dict[str, str]:
    """The hash of each figure."""
    sweep = SAMPLES["hostile_sweep"]()
    studies = (SAMPLES["one_run"](), replace(sweep, parts=sweep.parts[:2]))
    return {
        file: sha256(content).hexdigest()
        for study in studies
        for file, content in draw_figures(study, ("pdf", "svg")).items()
    }


def hashes_as_json() -> str:
    """All hashes as JSON, and whether drawing imported pyplot."""
    words, figures = hashes_of_words(), hashes_of_figures()
    pyplot = "matplotlib.pyplot" in sys.modules
    return json.dumps({"words": words, "figures": figures, "pyplot": pyplot})
