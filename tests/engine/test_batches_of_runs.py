"""How many runs a loop starts whose compiled programs are advanced together."""

from types import SimpleNamespace
from typing import Any

import pytest
from single_run_loop import loop_of


def spec(name: str, batch: int) -> Any:
    """What the loop asks of a run."""
    return SimpleNamespace(name=name, batch=batch)


@pytest.mark.parametrize(
    ("slots", "running", "batch", "starts"),
    [
        # Runs by themselves take a slot each.
        (2, [1], 1, True),
        (2, [1, 1], 1, False),
        # A batch takes one slot, whether it is full or not.
        (1, [4, 4, 4], 4, True),
        (1, [4, 4, 4, 4], 4, False),
        (2, [4, 4, 4, 4], 4, True),
        # A gap in a batch is none for a run of another batch.
        (2, [4, 1], 4, True),
        (2, [4, 1], 1, False),
        (2, [4, 1], 2, False),
    ],
)
def test_a_batch_takes_one_slot(slots: int, running: list[int], batch: int, starts: bool) -> None:
    """A run starts where a slot is free, or a lane in a batch of its size."""
    loop = loop_of(SimpleNamespace(), SimpleNamespace(slots=slots), lambda: 0.0)  # type: ignore[arg-type]
    for number, size in enumerate(running):
        loop.running[str(number)] = SimpleNamespace(spec=spec(str(number), size))  # type: ignore[assignment]
    assert starts is loop._has_room(spec("next", batch))


def test_a_run_that_failed_takes_a_slot_of_its_own() -> None:
    """A run that is tried again has no company, so a batch with a gap has no room for it."""
    loop = loop_of(SimpleNamespace(), SimpleNamespace(slots=1), lambda: 0.0)  # type: ignore[arg-type]
    loop.running["0"] = SimpleNamespace(spec=spec("0", 4))  # type: ignore[assignment]
    assert loop._has_room(spec("failed", 4))
    loop.alone.add("failed")
    assert not loop._has_room(spec("failed", 4))
