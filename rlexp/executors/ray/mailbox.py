"""What the command and its tasks tell each other, kept by an actor that both can reach."""

from typing import Any

Message = dict[str, Any]
"""Plain values; files travel as the bytes of a parcel."""


class Mailbox:
    """One place for what comes from each job, so that a command that lags is not flooded."""

    def __init__(self) -> None:
        self._from: dict[str, Message] = {}
        self._to: dict[str, list[Message]] = {}

    def exchange(self, job: str, message: Message | None) -> tuple[bool, list[Message]]:
        """For tasks: leave a message, and fetch what lies there for the job.

        Returns:
            Whether the message was taken: not while the one before waits to be collected.
        """
        taken = message is not None and job not in self._from
        if message is not None and taken:
            self._from[job] = message
        return taken, self._to.pop(job, [])

    def collect(self) -> dict[str, Message]:
        """For the command: what came from each job since."""
        collected, self._from = self._from, {}
        return collected

    def send(self, job: str, message: Message) -> None:
        """For the command: leave a message for a job."""
        self._to.setdefault(job, []).append(message)

    def forget(self, job: str) -> None:
        """For the command: a job is gone."""
        self._from.pop(job, None)
        self._to.pop(job, None)
