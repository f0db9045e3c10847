"""Points of trials for tests of pruners."""

from collections.abc import Mapping, Sequence

from rlexp.pruners import Pruner, PruningPoint


def point(
    value: float = 0.0,
    peers: Mapping[int, float] | Sequence[float] = (),
    *,
    number: int = 100,
    position: int = 0,
    step: int = 100,
    steps: int = 1000,
    every: int = 100,
    scores: Sequence[float] = (),
    best: Sequence[float] = (),
) -> PruningPoint:
    """The pruning point of a trial; peers without numbers are numbered from 0."""
    peers_by_number = peers if isinstance(peers, Mapping) else dict(enumerate(peers))
    return PruningPoint(
        number=number,
        position=position,
        step=step,
        steps=steps,
        every=every,
        value=value,
        peers=peers_by_number,
        scores=tuple(scores),
        best=tuple(best),
    )


def stopped_at(
    pruner: Pruner, value: float, peers: Sequence[float], *, position: int = 0, every: int = 100
) -> list[int]:
    """The steps, up to 1,000, at which a pruner would end a trial."""
    return [
        step
        for step in range(every, 1001, every)
        if pruner.prunes(point(value, peers, position=position, step=step, every=every))
    ]
