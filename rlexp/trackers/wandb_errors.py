"""What an error of W&B's means: whether to ask again, and a line that says why."""

import json
import re
from pathlib import Path

from rlexp.errors import TrackerRefused, TrackerUnreachable

_STATUS = re.compile(r"(?:returned error|HTTP|failed to upload:) (\d{3})")
_MISTAKES = frozenset({"UsageError", "ValidationError", "AuthenticationError"})
"""W&B's errors of what it is given, which it found without asking anybody."""
_NO = re.compile(r"permission|denied|not found|quota|limit exceeded|deleted", re.IGNORECASE)


def trouble_in(log: Path) -> str | None:
    """Why W&B stopped to upload, if it did: only its log says so."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if '"level":"ERROR' in line and ("fatal error" in line or "artifact" in line):
            try:
                return str(json.loads(line).get("msg"))
            except json.JSONDecodeError:
                return line
    return None


def explained(error: Exception, key: str | None) -> dict[str, str]:
    """The answer that stands for an error: one line, without the key."""
    text = " ".join(str(error).split())
    if key:
        text = text.replace(key, "********")
    text = re.sub(r"(?<=://)[^/@\s]*@", "", text)[:300]
    if isinstance(error, TrackerUnreachable):
        return {"unreachable": text}
    if isinstance(error, TrackerRefused):
        return {"refused": text}
    status = 0 if "while retrying" in text else _status(error, text)
    if status in {401, 403}:
        asked = "check the key (wandb login) and tracker.wandb.entity"
        return {"refused": f"W&B refuses with status {status}: {asked}: {text}"}
    if _is_final(error, text, status):
        return {"refused": f"W&B refuses: {text}"}
    if "did not respond in time" in text or isinstance(error, TimeoutError):
        text = "no answer in time"
    return {"unreachable": f"W&B cannot be reached: {text}"}


def _is_final(error: Exception, text: str, status: int) -> bool:
    """Whether asking again would change nothing."""
    if status:
        return 400 <= status < 500 and status not in {408, 429}
    if "while retrying" in text or isinstance(error, TimeoutError):
        return False
    return type(error).__name__ in _MISTAKES or bool(_NO.search(text))


def _status(error: BaseException | None, text: str) -> int:
    """The status of the answer, where one can be found."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "http_status", 0)
        if status:
            return int(status)
        error = error.__cause__
    found = _STATUS.search(text)
    return int(found[1]) if found else 0
