"""Trees of plain values and arrays as the bytes of one file, without pickle."""

import io
import json
from typing import Any

import numpy as np

TREE = "tree"
ARRAY = "__array__"


def pack(tree: Any) -> bytes:
    """A tree of dictionaries, lists, arrays and JSON values as an npz file.

    Raises:
        TypeError: It holds anything else.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps(_without_arrays(tree, arrays))
    named = {str(position): array for position, array in enumerate(arrays)}
    buffer = io.BytesIO()
    written = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(buffer, allow_pickle=False, **{TREE: written}, **named)
    return buffer.getvalue()


def unpack(content: bytes) -> Any:
    """The inverse of `pack`.

    Raises:
        ValueError: The content is no such file.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _with_arrays(json.loads(arrays.pop(TREE).tobytes()), arrays)
    except Exception as error:
        raise ValueError(f"it is no packed tree: {error!r}") from error


def _without_arrays(tree: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    match tree:
        case dict():
            if not all(type(key) is str for key in tree) or ARRAY in tree:
                raise TypeError(f"keys of a tree are strings, not {list(tree)}")
            return {key: _without_arrays(value, arrays) for key, value in tree.items()}
        case list() | tuple():
            return [_without_arrays(value, arrays) for value in tree]
        case np.ndarray():
            if tree.dtype.hasobject:
                raise TypeError("arrays of objects cannot be packed")
            arrays.append(tree)
            return {ARRAY: str(len(arrays) - 1)}
        case np.generic():
            return _without_arrays(np.asarray(tree), arrays)
        case str() | bool() | int() | float() | None:
            return tree
    raise TypeError(f"{type(tree).__name__} cannot be packed")


def _with_arrays(tree: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(tree, dict):
        if ARRAY in tree:
            return arrays[tree[ARRAY]]
        return {key: _with_arrays(value, arrays) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(value, arrays) for value in tree]
    return tree
