"""No dataset: a training starts without recorded experience."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDataset:
    """No recorded experience.

    It is the default and no part of a run's identity: the runs from before there were datasets keep theirs.
    """

    identity: ClassVar = Identity("dataset", "none")

    of_test_seeds: ClassVar[bool] = False
