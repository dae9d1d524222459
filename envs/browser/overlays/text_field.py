"""A line of text that is being edited."""


class TextField:
    """Text with a caret; what was there at first is selected, so that typing replaces it."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.is_selected = bool(text)
        self._caret = len(text)

    def type(self, text: str) -> None:
        """Insert text at the caret, or in place of the selection."""
        self._drop_selection()
        self.text = self.text[: self._caret] + text + self.text[self._caret :]
        self._caret += len(text)

    def press(self, key: str) -> bool:
        """Take an editing key (canonical name); False when it is none."""
        if key == "space":
            key = " "
        if len(key) == 1:
            self.type(key)
        elif key in ("backspace", "delete"):
            self._delete(-1 if key == "backspace" else 0)
        elif key in ("left", "right", "home", "end"):
            self._go(key)
        else:
            return False
        return True

    def select_all(self) -> None:
        """Select the whole text."""
        self.is_selected = bool(self.text)

    def shown(self) -> str:
        """The text with its caret."""
        return self.text if self.is_selected else f"{self.text[: self._caret]}|{self.text[self._caret :]}"

    def _drop_selection(self) -> None:
        if self.is_selected:
            self.text, self._caret, self.is_selected = "", 0, False

    def _delete(self, offset: int) -> None:
        if self.is_selected:
            self._drop_selection()
            return
        at = self._caret + offset
        if 0 <= at < len(self.text):
            self.text = self.text[:at] + self.text[at + 1 :]
            self._caret = at

    def _go(self, key: str) -> None:
        steps = {"left": self._caret - 1, "right": self._caret + 1, "home": 0, "end": len(self.text)}
        self._caret = min(max(steps[key], 0), len(self.text))
        self.is_selected = False
