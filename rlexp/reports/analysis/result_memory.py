"""Results of a report that a later report of the same process uses again."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class ResultMemory:
    """Results by name, each with what it was computed from.

    `rlexp view` computes the report of an experiment again when a run has ended. What was computed
    from the runs of the other labels is then still right. One memory serves reports with the same
    metrics.
    """

    _results: dict[Hashable, tuple[object, object]] = field(default_factory=dict)

    def recall(self, name: Hashable, basis: object, compute: Callable[[], T]) -> T:
        """The result of this name; it is computed again where the basis is another one.

        Args:
            name: The name of the result. The latest result of each name is kept.
            basis: Everything that the result depends on, compared by `==`. Equal objects in tuples
                cost nothing where they are the same object.
            compute: Computes the result.
        """
        return self.recall_each([name], {name: basis}, lambda _: [compute()])[0]

    def recall_each(
        self,
        names: Sequence[K],
        bases: Mapping[K, object],
        compute: Callable[[Sequence[K]], Iterable[T]],
    ) -> list[T]:
        """The results of these names, in their order; all that are new are computed together."""
        missing = [name for name in names if not self._holds(name, bases[name])]
        if missing:
            for name, result in zip(missing, compute(missing), strict=True):
                self._results[name] = bases[name], result
        # Every name stands for one type of result.
        return [cast("T", self._results[name][1]) for name in names]

    def _holds(self, name: Hashable, basis: object) -> bool:
        return name in self._results and self._results[name][0] == basis
