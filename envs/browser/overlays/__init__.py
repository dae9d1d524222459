"""Overlays for what a headless browser does not draw: dialogs, file chooser, address bar, suggestions, tooltips."""

from envs.browser.overlays.address_bar import AddressBar
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.overlays.file_list import FileList
from envs.browser.overlays.overlay import CssCanvas, CssRect, Overlay, draw_tooltip
from envs.browser.overlays.suggestions import Suggestions

__all__ = ["AddressBar", "CssCanvas", "CssRect", "DialogBox", "FileList", "Overlay", "Suggestions", "draw_tooltip"]
