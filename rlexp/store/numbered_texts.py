"""Texts that many runs share, each stored once and numbered."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class NumberedTexts:
    """Different texts in the order in which they were met.

    Attributes:
        most: Most bytes of all texts together; later ones get no number.
        texts: The texts that have a number.
    """

    most: int
    texts: list[str] = field(default_factory=list)
    _numbers: dict[bytes, int | None] = field(default_factory=dict)
    _bytes: int = 0

    def number(self, content: bytes | None) -> int | None:
        """The number of a text; None where it is no text, or there are too many."""
        if content is None:
            return None
        if content not in self._numbers:
            self._numbers[content] = self._add(content)
        return self._numbers[content]

    def _add(self, content: bytes) -> int | None:
        self._bytes += len(content)
        if self._bytes > self.most:
            return None
        try:
            self.texts.append(content.decode())
        except UnicodeDecodeError:
            return None
        return len(self.texts) - 1
