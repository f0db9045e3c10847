"""Whether a run on an environment that is interrupted goes on where it was."""

from rlexp.app.checks.notes import Notes
from rlexp.app.diagnostics.finding import Finding, ok, warn
from rlexp.app.diagnostics.random_steps import SEED
from rlexp.environments import Environment

GAMMA = 0.99
"""Discount of normalised rewards: any would do."""
STARTS_AGAIN = "an interrupted run starts again from step 0, with the same numbers"
FIX = (
    "right for what cannot be repeated; else let reset() make everything anew, and draw all that "
    "is random from self.np_random"
)


def resumption(environment: Environment, notes: Notes) -> Finding:
    """Put the state of an environment into a fresh one, and see whether both go on alike.

    Raises:
        Broken: An error came out of it.
    """
    from rlexp.training.roundtrip import check_round_trip

    with notes.during("resume", "putting its state into another one"):
        steps = iter(range(1_000_000))
        reason = check_round_trip(
            environment,
            GAMMA,
            SEED,
            # Who waits for this process takes one that says nothing new for hung.
            beat=lambda: notes.doing(f"putting its state into another one, step {next(steps)}"),
        )
    if reason is None:
        return ok("resume", "interrupted runs continue bit for bit")
    return warn("resume", f"{STARTS_AGAIN}: {reason}", FIX)
