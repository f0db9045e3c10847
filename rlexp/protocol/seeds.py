"""Seeds: which ones an experiment uses, and every number that a run hands to a library.

A run never adds to or hashes a seed. It packs (phase, index, stream, sub-environment) into 32
bits and sends that through a bijection keyed by the experiment's root, so that two different
uses can never receive the same number.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Annotated

from annotated_types import Ge, Le, Lt

from rlexp.errors import ProtocolError

INDICES = 1 << 14
"""How many seeds a phase has."""
SUBSTREAMS = 1 << 14
"""How many numbers each stream of a run has."""
EVALUATION_ENVIRONMENTS = 8
"""Environments that an evaluation runs side by side, each with a seed of its own."""
MAXIMUM_EVALUATIONS = SUBSTREAMS // EVALUATION_ENVIRONMENTS - 1
"""Evaluations that a run can seed, the final one aside."""
FRESH_EVALUATIONS = SUBSTREAMS // EVALUATION_ENVIRONMENTS
"""Evaluations that can be asked for after training, each on seeds of its own."""

ROUNDS = 8
_FRESH = 3
_SAMPLING = 3
"""In numbers for evaluations after training, what stands where the phase else does."""


class Phase(StrEnum):
    """What a run is for; runs of different phases never share a seed."""

    TUNING = "tuning"
    SELECTION = "selection"
    TEST = "test"


class Stream(IntEnum):
    """What a number is for inside a run."""

    TRAINING = 0
    EVALUATION = 1
    POLICY = 2
    ACTIONS = 3


def permute(value: int, root: int) -> int:
    """Send a 32-bit number to another, one to one, by a Feistel network keyed by `root`."""
    left, right = value >> 16, value & 0xFFFF
    key = root.to_bytes((root.bit_length() + 7) // 8 or 1, "little")[:64]
    for turn in range(ROUNDS):
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
        """Seed of the training environment with this position in the vector."""
        return self._number(Stream.TRAINING, environment)

    def evaluation(self, number: int, environment: int) -> int:
        """Seed of one environment of the run's evaluation with this number."""
        if not 0 <= environment < EVALUATION_ENVIRONMENTS:
            raise ProtocolError(
                f"evaluation environment {environment} is out of range: "
                f"there are {EVALUATION_ENVIRONMENTS}",
            )
        return self._number(Stream.EVALUATION, number * EVALUATION_ENVIRONMENTS + environment)

    def fresh(self, number: int, environment: int) -> int:
        """Seed for an evaluation asked for after training; no training ever saw it."""
        sub = number * EVALUATION_ENVIRONMENTS + environment
        code = list(Phase).index(self.phase)
        return permute(_pack(_FRESH, self.index, code, sub), self.root)

    def fresh_sampling(self, number: int) -> int:
        """Seed for what a policy draws during the evaluation asked for with this number."""
        code = list(Phase).index(self.phase)
        return permute(_pack(_FRESH, self.index, _SAMPLING, number * len(Phase) + code), self.root)

    @property
    def policy(self) -> int:
        """Seed of the policy's weights and of everything the learner draws."""
        return self._number(Stream.POLICY, 0)

    def sampling(self, number: int) -> int:
        """Seed for what a policy draws during the evaluation with this number."""
        return self._number(Stream.POLICY, number + 1)

    def process(self, environment: int) -> int:
        """Seed of the global generators in the process of a training environment."""
        return self._number(Stream.ACTIONS, environment + 1)

    @property
    def actions(self) -> int:
        """Seed of the action space, from which random warm-up actions are drawn."""
        return self._number(Stream.ACTIONS, 0)


SeedIndex = Annotated[int, Ge(0), Lt(INDICES)]
Seeds = Annotated[int, Ge(0), Le(INDICES)] | tuple[SeedIndex, ...]
"""A count (the first so many seeds of the phase) or an explicit list of seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlan:
    """Which seeds each phase uses: a count, or the seeds themselves.

    The i-th seed of a phase never depends on the count, so a plan can grow without repeating
    a run. Seed 3 of one phase and seed 3 of another are different numbers to every library.
    """

    root: Annotated[int, Ge(0)]
    tuning: Seeds
    selection: Seeds
    test: Seeds

    def __post_init__(self) -> None:
        """Refuse lists that repeat a seed or share one."""
        lists = {p: s for p in Phase if isinstance(s := getattr(self, p), tuple)}
        for phase, seeds in lists.items():
            if repeated := sorted({s for s in seeds if seeds.count(s) > 1}):
                raise ProtocolError(f"seeds.{phase} repeats {repeated}; name each seed once")
            for other, others in lists.items():
                if phase < other and (shared := sorted(set(seeds) & set(others))):
                    raise ProtocolError(
                        f"seeds.{phase} and seeds.{other} both list {shared}; "
                        "give each phase seeds of its own",
                    )

    def seeds(self, phase: Phase) -> tuple[int, ...]:
        """The seeds of a phase, in their order."""
        chosen: int | tuple[int, ...] = getattr(self, phase)
        return tuple(range(chosen)) if isinstance(chosen, int) else chosen
