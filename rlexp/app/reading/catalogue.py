"""Opens the catalogue (cached run records) of an experiment, beside it or in the user's cache."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from rlexp.store.catalogue import Catalogue, written_by
from rlexp.store.changed_records import ChangedRecords
from rlexp.store.curves import Curves
from rlexp.store.file_systems import is_shared
from rlexp.store.layout import ExperimentPaths, cache_folder


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
            gc.enable()


def catalogue_of(paths: ExperimentPaths, *, in_place: bool = True) -> Catalogue:
    """The catalogue of an experiment, in the user's cache where it cannot be written in place.

    The cache is also used for a folder that several machines share: all of them would write the
    same catalogue, and one might read it while another replaces it.

    Args:
        paths: The experiment.
        in_place: Whether the catalogue may be written into the folder of the experiment.
    """
    records = ChangedRecords(paths)
    if not paths.folder.is_dir():
        # The folder may be missing, or a link that leads to itself, which `resolve` refuses.
        return Catalogue([], time.time, records, Curves([], written_by()))
    # The full path, because experiments of several workspaces share the cache and may share names.
    name = sha256(bytes(paths.folder.resolve())).hexdigest()[:32]
    in_cache = cache_folder() / "catalogues" / name
    shared = is_shared(paths.catalogue)
    beside = not shared and in_place
    locations = [paths.catalogue, in_cache] if beside else [in_cache]
    curves_in_cache = in_cache.with_suffix(".curves")
    of_curves = [paths.curves, curves_in_cache] if beside else [curves_in_cache]
    return Catalogue.read(locations, time.time, records, Curves(of_curves, written_by()))
