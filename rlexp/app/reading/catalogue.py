"""Where the catalogue of an experiment is: beside it, or in the user's cache."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from rlexp.app.workspace import cache_folder
from rlexp.store.catalogue import Catalogue
from rlexp.store.file_systems import is_shared
from rlexp.store.layout import ExperimentPaths


@contextmanager
def collector_paused() -> Iterator[None]:
    """Read much at once without a search for garbage: all of it is kept.

    The collector looks through everything again and again as it grows, for a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def catalogue_of(paths: ExperimentPaths) -> Catalogue:
    """The catalogue of an experiment; one that cannot be written there is in the cache.

    So is one that several machines see: they would all write it, and one of them may read what
    another has half replaced.
    """
    if not paths.folder.is_dir():
        # It may be a link that leads to itself.
        return Catalogue([], time.time)
    name = sha256(bytes(paths.folder.resolve())).hexdigest()[:32]
    own = cache_folder() / "catalogues" / name
    shared = is_shared(paths.catalogue)
    return Catalogue.read([own] if shared else [paths.catalogue, own], time.time)
