"""Where the catalogue of an experiment lies: beside it, or in the user's cache."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from rlexp.store.file_systems import is_shared
from rlexp.store.layout import ExperimentPaths, cache_folder


def catalogue_files(paths: ExperimentPaths, *, in_place: bool = True) -> Sequence[Path]:
    """Files that may hold the catalogue of an experiment, the preferred one first.

    The cache is also used for a folder that several machines share: all of them would write the
    same catalogue, and one might read it while another replaces it.

    Args:
        paths: The experiment, whose folder exists.
        in_place: Whether the catalogue may be written into the folder of the experiment.
    """
    # The full path, because experiments of several workspaces share the cache and may share names.
    name = sha256(bytes(paths.folder.resolve())).hexdigest()[:32]
    in_cache = cache_folder() / "catalogues" / name
    return (
        [paths.catalogue, in_cache] if in_place and not is_shared(paths.catalogue) else [in_cache]
    )
