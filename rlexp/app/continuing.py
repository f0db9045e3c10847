"""Which runs go on from a checkpoint, and how much experience their checkpoints hold."""

from collections.abc import Iterable, Mapping

from rlexp.app.fit import Spaces
from rlexp.errors import RecordError
from rlexp.protocol.spec import RunSpec, canonical
from rlexp.store.checkpoints import checkpoint_steps
from rlexp.store.layout import ExperimentPaths


def continuing(paths: ExperimentPaths, names: Iterable[str]) -> dict[str, int]:
    """The step of the newest checkpoint of every run that has one, by the run's name.

    Whether a run can go on from it turns out when it does: if not, it says why, and begins with
    the one before, or anew.
    """
    newest = {name: _newest(paths, name) for name in names}
    return {name: step for name, step in newest.items() if step}


def _newest(paths: ExperimentPaths, name: str) -> int:
    try:
        return max(checkpoint_steps(paths.run(name)), default=0)
    except RecordError:
        return 0


def largest_replay(specs: Iterable[RunSpec], spaces: Mapping[str, Spaces]) -> int:
    """Bytes of the largest replay buffer that a run's checkpoints hold; 0 where none has one.

    Args:
        specs: The runs.
        spaces: Of their environments, as `rlexp.app.fit.check_fit` has found them.
    """
    return max((_replay(spec, spaces) for spec in specs), default=0)


def _replay(spec: RunSpec, spaces: Mapping[str, Spaces]) -> int:
    size, found = spec.algorithm.get("buffer_size"), spaces.get(canonical(spec.environment))
    if not isinstance(size, int) or found is None:
        return 0
    return min(size, int(spec.budget["steps"])) * found.transition
