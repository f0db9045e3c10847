"""Variables for processes that are about to be started."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def given(variables: Mapping[str, str]) -> Iterator[None]:
    """Let processes that are started now find these variables; afterwards all is as it was."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
