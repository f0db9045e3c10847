"""Names of what a run logs in its offline stage: gradient steps on recorded experience."""

PREFIX = "offline/"
"""Beginning of the names of metrics of the offline stage."""
STEPS_LOGGED = f"{PREFIX}gradient_steps"
"""The metric with the gradient steps of the offline stage so far."""
