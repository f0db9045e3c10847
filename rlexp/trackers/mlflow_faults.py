"""What goes wrong at MLflow, in one line, and whether trying again may help."""

import base64
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers.mlflow_places import Place

MASK = "********"
REFUSALS = {
    "UNAUTHENTICATED",
    "CUSTOMER_UNAUTHORIZED",
    "PERMISSION_DENIED",
    "ENDPOINT_NOT_FOUND",
    "NOT_FOUND",
    "RESOURCE_DOES_NOT_EXIST",
    "RESOURCE_ALREADY_EXISTS",
    "INVALID_PARAMETER_VALUE",
    "INVALID_STATE",
    "NOT_IMPLEMENTED",
}
"""MLflow's names of what stays as it is. BAD_REQUEST is none: it says so of its database, too."""
LOGIN = {"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"}
PASSING = {408, 425, 429}
"""Answers that blame the request, but say: later."""
TOO_LARGE = 413
ANSWERS = (
    (r"too many (\d+) error responses", "it answers {0}"),
    (r"Connection refused", "connection refused"),
    (r"Failed to resolve|Name or service not known|getaddrinfo", "there is no such host"),
    (r"timeout exception|timed out", "no answer in time"),
    (r"CERTIFICATE_VERIFY_FAILED|SSLError", "its certificate cannot be verified"),
    (r"Connection aborted|Connection reset|RemoteDisconnected", "it broke the connection off"),
    (r"not in a valid JSON format|Expecting value", "what it answers is not MLflow"),
)
"""What stands in a library's long message, and what it means."""
DENIED = re.compile(
    r"unauthori[sz]ed|not authenticated|forbidden|access denied|invalid (token|credentials)",
    re.IGNORECASE,
)
USER = re.compile(r"//[^/@\s'\"]+@")


@contextmanager
def one_line(place: Place) -> Iterator[None]:
    """Turn whatever MLflow and its libraries raise into an error of ours, without secrets.

    Raises:
        TrackerUnreachable: Trying again may help.
        TrackerRefused: It does not.
    """
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:  # noqa: BLE001 its libraries raise what they like
        # Without the cause: it says the address with its password.
        raise told(error, place) from None


def told(error: Exception, place: Place) -> RlexpError:
    """The error of ours that says what another one means."""
    if isinstance(error, ImportError):
        missing = error.name or str(error)
        if missing == "mlflow":
            return TrackerRefused(
                "mlflow is not installed: pip install 'rlexp[mlflow]'",
                code="missing_package",
                command="pip install 'rlexp[mlflow]'",
            )
        return TrackerRefused(
            f"MLflow at {place.shown} needs the package {missing}, which is not installed"
        )
    text = f"{type(error).__name__}: {error}"
    status = _status(error)
    login = getattr(error, "error_code", None) in LOGIN or status in {401, 403}
    if login or (hasattr(error, "json") and DENIED.search(text)):
        return TrackerRefused(
            f"MLflow at {place.shown} lets nobody in with these credentials: set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    reason = hidden(_reason(text, error), secrets_of(place))
    if _is_final(error, status):
        return TrackerRefused(f"MLflow at {place.shown} refuses: {reason}")
    return TrackerUnreachable(f"MLflow at {place.shown} cannot be used now: {reason}")


def secrets_of(place: Place) -> Sequence[str]:
    """What no message may say: credentials of the address and of the variables."""
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    login = f"{os.environ.get('MLFLOW_TRACKING_USERNAME', '')}:{password}"
    basic = base64.b64encode(login.encode()).decode() if password else ""
    return [*place.secrets, *(s for s in (basic, password, token) if s)]


def hidden(text: str, secrets: Sequence[str]) -> str:
    """A text without these words, and without the user of any address."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return USER.sub("//", text)


def _reason(text: str, error: Exception) -> str:
    for pattern, meaning in ANSWERS:
        if found := re.search(pattern, text):
            return meaning.format(*found.groups())
    status = _status(error)
    if status == TOO_LARGE:
        return "it takes no file of that size; tracker.mlflow.models=false leaves models out"
    if status:
        return f"it answers {status}"
    said = str(getattr(error, "message", "") or text)
    return (said.strip().splitlines() or [type(error).__name__])[0][:300]


def _is_final(error: Exception, status: int | None) -> bool:
    if status is not None:
        return 400 < status < 500 and status not in PASSING
    if type(error).__name__ == "InvalidUrlException":
        return True
    return getattr(error, "error_code", None) in REFUSALS


def _status(error: Exception) -> int | None:
    """What was answered, where it was an answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status
    found = re.search(r"failed with error code (\d+) !=", str(error))
    return int(found[1]) if found else None
