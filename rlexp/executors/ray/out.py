"""A job that is out, and what is held here for it."""

import time
from dataclasses import dataclass, field

from rlexp.executors import Batch
from rlexp.executors.ray.intake import Intake
from rlexp.store.layout import RunPaths
from rlexp.store.lease import Held, take


@dataclass(slots=True)
class Out:
    """A job that is out.

    Attributes:
        begun: Whether it has said that it runs.
        intakes: Its runs that are executed apart from our folder, whose claims are held here.
        stops: The last request to stop that each of them was told.
        refusal: What of it was refused.
    """

    batch: Batch
    begun: bool = False
    intakes: dict[str, Intake] = field(default_factory=dict)
    claims: list[Held] = field(default_factory=list)
    stops: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None


def take_run(out: Out, paths: RunPaths) -> bool:
    """Take a run for a node: its claim, and its lease, by which it is seen to be alive.

    Returns:
        Whether both were free.
    """
    held = list[Held]()
    for path in (paths.claim, paths.lease):
        lease = take(path, f"run {paths.folder.name}", now=time.time())
        if lease is None:
            for one in held:
                one.release()
            return False
        held.append(lease)
    out.claims += held
    return True


def asked_of(paths: RunPaths) -> str:
    """The request to stop in a run's folder, or nothing."""
    try:
        return paths.stop.read_text()
    except (OSError, ValueError):
        return ""
