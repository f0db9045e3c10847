"""Values of JSON documents, checked where a record is read from them."""

from typing import Any


def as_text(value: Any) -> str:
    """The value, if it is a text.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def as_whole_number(value: Any) -> int:
    """The value, if it is a whole number that is not negative.

    Raises:
        ValueError: It is none.
    """
    # For `isinstance`, JSON's `true` is an integer.
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
