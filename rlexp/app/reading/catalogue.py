"""Opens the catalogue (cached run records) of an experiment, beside it or in the user's cache."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.app.reading.catalogue_files import catalogue_files
from rlexp.app.reading.look_ahead import take_look
from rlexp.store.catalogue import Catalogue, written_by
from rlexp.store.changed_records import ChangedRecords
from rlexp.store.curves import Curves
from rlexp.store.layout import ExperimentPaths


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while many records are read, none of which is discarded.

    The collector would search all of them again and again, which takes a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _count_as_old()
            gc.enable()


def _count_as_old() -> None:
    """Count all objects as old, without a search: the collector searches the old ones rarely."""
    # A process that has frozen objects wants them to stay frozen.
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


def catalogue_of(paths: ExperimentPaths, *, in_place: bool = True) -> Catalogue:
    """The catalogue of an experiment, in the user's cache where it cannot be written in place.

    Args:
        paths: The experiment.
        in_place: Whether the catalogue may be written into the folder of the experiment.
    """
    records = ChangedRecords(paths)
    if not paths.folder.is_dir():
        # The folder may be missing, or a link that leads to itself, which `resolve` refuses.
        return Catalogue([], time.time, records, Curves([], written_by()))
    locations = catalogue_files(paths, in_place=in_place)
    of_curves = [
        paths.curves if f == paths.catalogue else f.with_suffix(".curves") for f in locations
    ]
    curves = Curves(of_curves, written_by())
    return Catalogue.read(locations, time.time, records, curves, take_look(paths))
