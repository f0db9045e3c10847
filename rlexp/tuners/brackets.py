"""The brackets of Hyperband as DEHB walks them: which trial is run where, with how many steps."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import floor, log

from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Rung:
    """Trials with equally many environment steps that are suggested together.

    Attributes:
        bracket: From 0, counted on for ever.
        position: In its bracket; 0 has the fewest steps.
        fidelity: Index of its environment steps among the fidelities.
        size: How many trials it has.
        first: Number of its first trial.
    """

    bracket: int
    position: int
    fidelity: int
    size: int
    first: int


def bracket_sizes(rungs: int, eta: int) -> list[list[int]]:
    """How many configurations each rung of each bracket has, in one cycle.

    From Awad, Mallik and Hutter 2021 (DEHB) as its reference implementation 0.1.2 computes it:
    bracket i has s + 1 rungs, s = M − 1 − i, and begins with ⌊M / (s + 1)⌋ · η^s.

    Args:
        rungs: M, the number of fidelities.
        eta: η, by which a rung is narrower than the one below it.
    """
    return [
        [max(rungs // (s + 1) * eta**s // eta**j, 1) for j in range(s + 1)]
        for s in reversed(range(rungs))
    ]


def fidelities(steps: int, minimum: float, eta: int) -> tuple[int, ...]:
    """Environment steps of the rungs, whole numbers that go up; the last one is `steps`.

    Args:
        steps: The full budget.
        minimum: Share of it below which no rung lies.
        eta: By which factor they grow.

    Raises:
        ConfigError: There are fewer than two rungs, or too few steps to tell them apart.
    """
    # 1/27 as it is typed is a little less or more than that.
    rungs = floor(log(1 / minimum) / log(eta) + 1e-6) + 1
    if rungs < 2:
        raise ConfigError(
            f"tuner.minimum = {minimum:g} leaves one rung, the full budget: it must be at most "
            f"1 / tuner.eta = {1 / eta:g}, or choose another tuner"
        )
    found = tuple(round(steps / eta ** (rungs - 1 - k)) for k in range(rungs))
    if found[0] < 1 or any(low >= high for low, high in pairwise(found)):
        raise ConfigError(
            f"{steps} environment steps are too few for {rungs} rungs of dehb: "
            "raise the budget or tuner.minimum"
        )
    return found


@dataclass(frozen=True)
class Brackets:
    """The schedule of all trials, from number 1; number 0 is the default configuration.

    Attributes:
        rungs: M, the number of fidelities.
        eta: η.
    """

    rungs: int
    eta: int

    @cached_property
    def cycle(self) -> tuple[Rung, ...]:
        """The rungs of the first M brackets, which come again for ever, further on."""
        sizes = bracket_sizes(self.rungs, self.eta)
        flat = [(b, j, n) for b, bracket in enumerate(sizes) for j, n in enumerate(bracket)]
        ends = accumulate(n for _, _, n in flat)
        return tuple(
            Rung(bracket=b, position=j, fidelity=b + j, size=n, first=end - n + 1)
            for (b, j, n), end in zip(flat, ends, strict=True)
        )

    @cached_property
    def members(self) -> tuple[int, ...]:
        """How many members the subpopulation of each fidelity has: its widest rung."""
        return tuple(max(r.size for r in self.cycle if r.fidelity == k) for k in range(self.rungs))

    @cached_property
    def trials(self) -> int:
        """How many trials a cycle has."""
        return sum(rung.size for rung in self.cycle)

    def rung(self, index: int) -> Rung:
        """The rung of a round."""
        cycles, place = divmod(index, len(self.cycle))
        rung = self.cycle[place]
        return Rung(
            bracket=cycles * self.rungs + rung.bracket,
            position=rung.position,
            fidelity=rung.fidelity,
            size=rung.size,
            first=cycles * self.trials + rung.first,
        )

    def locate(self, number: int) -> tuple[int, int]:
        """The round of a trial, from number 1, and its slot in that rung."""
        cycles, left = divmod(number - 1, self.trials)
        place = next(i for i, r in enumerate(self.cycle) if left < r.first - 1 + r.size)
        return cycles * len(self.cycle) + place, left - self.cycle[place].first + 1

    def first(self, index: int) -> int:
        """The number of the first trial of a round."""
        return self.rung(index).first

    def promotes(self, index: int) -> bool:
        """Whether a rung takes up configurations of the one below it, as plain Hyperband does."""
        rung = self.rung(index)
        return rung.position > 0 and rung.bracket < self.rungs

    def reads(self, index: int) -> int:
        """How many of the first rounds must be over before a round is asked for.

        The lowest rung of a bracket reads its own subpopulation only, if that is large enough
        for a mutant, and need not wait for what goes on with more steps.
        """
        rung = self.rung(index)
        if rung.position > 0 or rung.size < 3:
            return index
        before = reversed(range(index))
        return next((i + 1 for i in before if self.rung(i).fidelity == rung.fidelity), 0)

    def parents(self, index: int) -> list[int]:
        """The members that the trials of a round compete with: each in turn, round and round."""
        cycles, place = divmod(index, len(self.cycle))
        rung = self.cycle[place]
        same = [r.size for r in self.cycle if r.fidelity == rung.fidelity]
        earlier = [r.size for r in self.cycle[:place] if r.fidelity == rung.fidelity]
        begin = cycles * sum(same) + sum(earlier)
        return [(begin + slot) % self.members[rung.fidelity] for slot in range(rung.size)]
