"""The base of algorithms that learn from rollouts of the current policy."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.algorithms.library import LibraryAlgorithm
from rlexp.algorithms.ranges import Count, Discount, NonNegative, Positive
from rlexp.algorithms.schedules import Scheduled
from rlexp.errors import ConfigError
from rlexp.protocol.step_schedule import Stepped


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPolicy(LibraryAlgorithm):
    """An algorithm that learns from one rollout at a time, and then discards it."""

    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

    n_steps: Count
    """Steps collected in each environment between two updates."""
    gamma: Stepped[Discount]
    """Discount factor, per step."""
    gae_lambda: Stepped[Discount]
    """Lambda of generalised advantage estimation, bias against variance; 1 is Monte Carlo."""
    normalize_advantage: bool
    """Whether advantages are scaled to mean 0 and deviation 1."""

    def check(self, environments: int) -> None:
        """Refuse a rollout that is too short for its minibatches.

        Raises:
            ConfigError: `batch_size` exceeds the rollout, or advantages of one step are
                normalised.
        """
        size = self.n_steps * environments
        rollout = f"n_steps * environments = {self.n_steps} * {environments} = {size}"
        batch = getattr(self, "batch_size", None)
        if batch is not None and batch > size:
            raise ConfigError(
                f"algorithm.batch_size={batch} is more than a rollout holds ({rollout}): "
                f"set batch_size to {size} or less, or raise n_steps"
            )
        # The standard deviation of a single number is NaN in torch.
        if self.normalize_advantage and min(size, batch or size) < 2:
            raise ConfigError(
                f"a single advantage cannot be normalised (batch_size={batch}, {rollout}): "
                "use 2 or more of each, or set algorithm.normalize_advantage=false"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedPolicyGradient(OnPolicy):
    """PPO and its variants: several epochs of clipped policy gradients for each rollout."""

    batch_size: Count | None
    """Transitions in a minibatch; null takes the whole rollout."""
    n_epochs: Count
    """Passes over a rollout at each update."""
    clip_range: Scheduled
    """How far the probability ratio may leave 1; a number or a schedule."""
    clip_range_vf: Scheduled | None
    """How far a value may move in an update, in units of return; null does not clip."""
    ent_coef: Stepped[NonNegative]
    """Weight of the entropy bonus in the loss."""
    vf_coef: Stepped[NonNegative]
    """Weight of the value loss."""
    max_grad_norm: Stepped[Positive]
    """Largest norm of a gradient."""
    target_kl: Positive | None
    """KL divergence at which the epochs of an update stop early; null never stops them."""

    def check_last_minibatch(self, environments: int) -> None:
        """Refuse a last minibatch of one step, whose normalised advantage would be NaN.

        PPO of stable-baselines3 does not normalise such a minibatch, but its variants do.

        Raises:
            ConfigError: The last minibatch has one step.
        """
        size, batch = self.n_steps * environments, self.batch_size
        if self.normalize_advantage and batch is not None and size % batch == 1:
            raise ConfigError(
                f"algorithm.batch_size={batch} leaves a minibatch of one step of n_steps * "
                f"environments = {size}, whose advantage cannot be normalised: use a batch_size "
                "that divides it"
            )
