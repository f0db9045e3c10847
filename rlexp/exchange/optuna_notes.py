"""Notes of a study and its trials, in the form that Optuna's dashboard reads.

Its function `save_note` (optuna-dashboard 0.21) stores a note as system attributes of the study,
in pieces because databases limit the length of an attribute. The dashboard need not be installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

PIECE = 2045
"""Most characters of one piece."""


def write_note(storage: "BaseStorage", study: int, trial: int | None, text: str) -> None:
    """Replace the note of a study or of one of its trials, unless it is the same.

    Args:
        storage: The storage.
        study: Optuna's id of the study.
        trial: Optuna's id of the trial; None for the note of the study.
        text: Markdown.
    """
    prefix = "dashboard:" if trial is None else f"dashboard:{trial}:"
    present = storage.get_study_system_attrs(study)
    starts = range(0, len(text), PIECE)
    pieces = {f"{prefix}note_str:{k}": text[s : s + PIECE] for k, s in enumerate(starts)}
    written = {k: v for k, v in present.items() if k.startswith(f"{prefix}note_str:") and v}
    if written == pieces:
        return
    # A piece cannot be removed: an empty one adds nothing.
    for key, piece in {**dict.fromkeys(written, ""), **pieces}.items():
        storage.set_study_system_attr(study, key, piece)
    version = f"{prefix}note_ver"
    storage.set_study_system_attr(study, version, int(present.get(version, 0)) + 1)
