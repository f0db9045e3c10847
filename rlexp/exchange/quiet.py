"""The logs of Optuna and its database libraries, kept off the terminal."""

import logging
from collections.abc import Callable

LIBRARIES = ("optuna", "sqlalchemy", "alembic", "psycopg")


class _Forward(logging.Handler):
    """Hands each message to a function, or drops it."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Hand it over."""
        if self.log is not None:
            self.log(f"{record.name}: {record.getMessage()}")


def silence(log: Callable[[str], None] | None = None) -> None:
    """Let the libraries' messages go nowhere, or to a function, in this whole process.

    Args:
        log: Gets each message, one line or several.
    """
    import optuna

    optuna.logging.disable_default_handler()
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        for handler in [h for h in logger.handlers if isinstance(h, _Forward)]:
            logger.removeHandler(handler)
        logger.addHandler(_Forward(log))
        logger.propagate = False
