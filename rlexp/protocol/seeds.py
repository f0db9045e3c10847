"""Seeds of an experiment, and all seeds that a run passes to libraries.

A run does not compute seeds by addition or hashing, which can give equal numbers. It packs (phase,
index, stream, sub-environment) into 32 bits and maps the result by a bijection keyed by the
experiment's root: two different uses can never receive the same seed.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Annotated

from annotated_types import Ge, Le, Lt

from rlexp.errors import ProtocolError

INDICES = 1 << 14
"""Number of seeds of a phase."""
SUBSTREAMS = 1 << 14
"""Number of seeds of each stream of a run."""
EVALUATION_ENVIRONMENTS = 8
"""Number of parallel environments of an evaluation, each with its own seed."""
MAXIMUM_EVALUATIONS = SUBSTREAMS // EVALUATION_ENVIRONMENTS - 1
"""Largest number of evaluations of a run, without the final one."""
FRESH_EVALUATIONS = SUBSTREAMS // EVALUATION_ENVIRONMENTS
"""Largest number of evaluations after training, each with its own seeds."""

ROUNDS = 8
"""Rounds of the Feistel network."""
_FRESH = 3
"""Phase code of seeds for evaluations after training: the phases have the codes 0 to 2."""
_SAMPLING = 3
"""Stream code, among those seeds, of what the policy draws: streams 0 to 2 are the run's phase."""


class Phase(StrEnum):
    """Purpose of a run; runs of different phases never share a seed."""

    TUNING = "tuning"
    SELECTION = "selection"
    TEST = "test"


class Stream(IntEnum):
    """Purpose of a seed within a run."""

    TRAINING = 0
    EVALUATION = 1
    POLICY = 2
    ACTIONS = 3


def permute(value: int, root: int) -> int:
    """The image of a 32-bit number under a bijection: a Feistel network keyed by `root`."""
    # A Feistel network is a bijection for any round function; blake2b makes it look random.
    left, right = value >> 16, value & 0xFFFF
    # The root 0 needs one byte, because an empty key means none. blake2b takes at most 64.
    key = root.to_bytes((root.bit_length() + 7) // 8 or 1, "little")[:64]
    for turn in range(ROUNDS):
        # The number of the turn makes each round another function. Two bytes are half of 32 bits.
        digest = blake2b(bytes((turn, right >> 8, right & 0xFF)), key=key, digest_size=2).digest()
        left, right = right, left ^ int.from_bytes(digest, "little")
    return left << 16 | right


def _pack(phase: int, index: int, stream: int, sub: int) -> int:
    if not 0 <= index < INDICES:
        raise ProtocolError(f"seed {index} is out of range: seeds are 0 … {INDICES - 1}")
    if not 0 <= sub < SUBSTREAMS:
        raise ProtocolError(f"sub-stream {sub} is out of range: there are {SUBSTREAMS} a stream")
    return phase << 30 | index << 16 | stream << 14 | sub


@dataclass(frozen=True, slots=True)
class Streams:
    """Every seed of one run: training and evaluation environments, policy, actions."""

    root: int
    phase: Phase
    index: int

    def _number(self, stream: Stream, sub: int) -> int:
        code = list(Phase).index(self.phase)
        return permute(_pack(code, self.index, stream, sub), self.root)

    def training(self, environment: int) -> int:
        """Seed of the training environment at a position in the vector."""
        return self._number(Stream.TRAINING, environment)

    def evaluation(self, number: int, environment: int) -> int:
        """Seed of one environment of a numbered evaluation."""
        if not 0 <= environment < EVALUATION_ENVIRONMENTS:
            raise ProtocolError(
                f"evaluation environment {environment} is out of range: "
                f"there are {EVALUATION_ENVIRONMENTS}",
            )
        return self._number(Stream.EVALUATION, number * EVALUATION_ENVIRONMENTS + environment)

    def fresh(self, number: int, environment: int) -> int:
        """Seed of one environment of an evaluation after training; no training uses it."""
        sub = number * EVALUATION_ENVIRONMENTS + environment
        code = list(Phase).index(self.phase)
        return permute(_pack(_FRESH, self.index, code, sub), self.root)

    def fresh_sampling(self, number: int) -> int:
        """Seed of the policy's random draws in a numbered evaluation after training."""
        code = list(Phase).index(self.phase)
        return permute(_pack(_FRESH, self.index, _SAMPLING, number * len(Phase) + code), self.root)

    @property
    def policy(self) -> int:
        """Seed of the policy's initial weights and of all random draws of the learner."""
        return self._number(Stream.POLICY, 0)

    def sampling(self, number: int) -> int:
        """Seed of the policy's random draws in a numbered evaluation during training."""
        return self._number(Stream.POLICY, number + 1)

    def process(self, environment: int) -> int:
        """Seed of the global random generators in the process of a training environment."""
        return self._number(Stream.ACTIONS, environment + 1)

    @property
    def actions(self) -> int:
        """Seed of the action space, from which random warm-up actions are drawn."""
        return self._number(Stream.ACTIONS, 0)

    @property
    def teacher(self) -> int:
        """Seed of the teacher that chooses the tasks of all training environments."""
        # The last sub-stream, which the process of no environment reaches.
        return self._number(Stream.ACTIONS, SUBSTREAMS - 1)


SeedIndex = Annotated[int, Ge(0), Lt(INDICES)]
Seeds = Annotated[int, Ge(0), Le(INDICES)] | tuple[SeedIndex, ...]
"""A number n of seeds (the seeds 0 to n - 1 of the phase), or an explicit list of seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlan:
    """The seeds of each phase: a number of seeds, or an explicit list.

    The i-th seed of a phase does not depend on the number of seeds: a plan can grow without
    repeating a run. Equal seeds of different phases give different numbers to every library.
    """

    root: Annotated[int, Ge(0)]
    tuning: Seeds
    selection: Seeds
    test: Seeds

    def __post_init__(self) -> None:
        """Refuse lists that repeat a seed, and lists of two phases that share one."""
        lists = {p: s for p in Phase if isinstance(s := getattr(self, p), tuple)}
        for phase, seeds in lists.items():
            if repeated := sorted({s for s in seeds if seeds.count(s) > 1}):
                raise ProtocolError(f"seeds.{phase} repeats {repeated}; name each seed once")
            for other, others in lists.items():
                if phase < other and (shared := sorted(set(seeds) & set(others))):
                    raise ProtocolError(
                        f"seeds.{phase} and seeds.{other} both list {shared}; "
                        "give each phase different seeds",
                    )

    def seeds(self, phase: Phase) -> tuple[int, ...]:
        """The seeds of a phase, in order."""
        chosen: int | tuple[int, ...] = getattr(self, phase)
        return tuple(range(chosen)) if isinstance(chosen, int) else chosen
