"""What two processes of this machine tell each other: plain values, and parcels as they are."""

import json
import socket
from multiprocessing.connection import Connection

from rlexp.executors.ray.mailbox import Message

PARCEL = "parcel"
"""The key of a message's bytes."""


class Wire:
    """One end; each message is sent and received whole."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            OSError: Nobody is at the other end.
        """
        plain = {key: value for key, value in message.items() if key != PARCEL}
        has_parcel = PARCEL in message
        self._connection.send_bytes(json.dumps([plain, has_parcel]).encode())
        if has_parcel:
            self._connection.send_bytes(message[PARCEL])

    def receive(self, seconds: float | None) -> Message | None:
        """The next message, or nothing within so many seconds; None waits as long as it takes.

        Raises:
            EOFError: The other end is gone.
            OSError: The same, in the middle of a message.
        """
        if not self._connection.poll(seconds):
            return None
        message, has_parcel = json.loads(self._connection.recv_bytes())
        if has_parcel:
            message[PARCEL] = self._connection.recv_bytes()
        return dict(message)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def pair() -> tuple[Wire, int]:
    """An end for this process, and the descriptor of the other, to be inherited."""
    here, there = socket.socketpair()
    return Wire(here.detach()), there.detach()
