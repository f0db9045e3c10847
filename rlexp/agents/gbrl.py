"""The agent of gradient-boosted trees (GBRL)."""

from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from rlexp.agents.networks import drop_none
from rlexp.errors import ConfigError
from rlexp.installation_way import install_command
from rlexp.protocol.identity import Identity

Rate = Annotated[float, Interval(gt=0, lt=inf)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GBRL:
    """An ensemble of decision trees that grows by one tree with each minibatch (algorithm=ppo or a2c).

    Fuhrer, Tessler & Dalal 2024, Gradient Boosting Reinforcement Learning, arXiv:2407.08250. Policy and values
    share the structure of each tree. The library takes a gradient for each transition, instead of one for each parameter.
    A field that is null keeps the default of the library.
    """

    identity: ClassVar = Identity("agent", "gbrl")

    observations: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

    policy_learning_rate: Rate
    """Step size of the policy: the share of a negative gradient that a leaf adds."""
    value_learning_rate: Rate
    """Step size of the values."""
    max_depth: Annotated[int, Interval(ge=1, le=20)]
    """Largest depth of a tree."""
    n_bins: Annotated[int, Interval(ge=2, le=65_536)]
    """Number of thresholds of a feature among which a split is chosen."""
    min_data_in_leaf: Annotated[int, Interval(ge=0)]
    """Smallest number of transitions in a leaf."""
    grow_policy: Literal["greedy", "oblivious"]
    """`greedy` splits each node by itself; `oblivious` splits all nodes of a level alike."""
    split_score: Literal["cosine", "l2"]
    """What a split maximises: the cosine similarity with the gradients, or their norm."""
    max_policy_gradient: Rate | None
    """Largest norm of the policy's gradient of a transition; null does not clip."""
    max_value_gradient: Rate | None
    """Largest norm of the value's gradient of a transition; null does not clip."""
    log_std_init: Annotated[float, Interval(gt=-inf, lt=inf)] | None
    """Logarithm of the initial standard deviation of continuous actions."""

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return "TreePolicy"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy."""
        return {
            "policy_learning_rate": self.policy_learning_rate,
            "value_learning_rate": self.value_learning_rate,
            "max_depth": self.max_depth,
            "n_bins": self.n_bins,
            "min_data_in_leaf": self.min_data_in_leaf,
            "grow_policy": self.grow_policy,
            "split_score": self.split_score,
            "max_policy_gradient": self.max_policy_gradient,
            "max_value_gradient": self.max_value_gradient,
            **drop_none(log_std_init=self.log_std_init),
        }

    def check_installed(self) -> None:
        """Refuse the agent where its package is missing.

        Raises:
            ConfigError: The package is not installed.
        """
        if find_spec("gbrl") is None:
            raise ConfigError.missing_package(
                "agent=gbrl needs a package that is not installed", install_command("gbrl")
            )
