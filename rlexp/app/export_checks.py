"""What a script of Stable-Baselines3 alone cannot hold of a run, or must not."""

from collections.abc import Mapping
from os import environ
from typing import Any

from rlexp.app.execution.import_permission import OURS
from rlexp.config.plain_secrets import texts
from rlexp.config.variables import has_variable
from rlexp.errors import RecordError
from rlexp.protocol.spec import RunSpec
from rlexp.store.secrets import mask_all, secret_values

HOMES: Mapping[str, str] = {
    "agent": "rlexp.agents.",
    "algorithm": "rlexp.algorithms.",
    "environment": "rlexp.environments.gymnasium_task.",
}
"""Where the parts are from that a script knows how to write."""


def check_parts(spec: RunSpec) -> None:
    """Refuse parts that are not ours, environment variables and secrets.

    Raises:
        RecordError: There is one; says where.
    """
    for group, home in HOMES.items():
        part: Mapping[str, Any] = getattr(spec, group)
        target = str(part.get("_target_"))
        if not target.startswith(home):
            raise RecordError(
                f"{group}._target_={target} is no part of {OURS} that a script of "
                "Stable-Baselines3 alone can hold; 'rlexp evaluate' plays the run",
            )
        for path, _, text in texts(part, group):
            if has_variable(text):
                raise RecordError(
                    f"{path} is read from an environment variable ({text}), which a script would "
                    "have to hold; 'rlexp evaluate' plays the run",
                )
        if mask_all(part, secret_values(environ)) != part:
            raise RecordError(
                f"{group} holds what looks like a secret, and secrets are never exported; "
                "'rlexp evaluate' plays the run",
            )
