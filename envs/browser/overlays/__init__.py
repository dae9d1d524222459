"""What a headless browser does not draw: dialogs, the file chooser, the address bar."""

from envs.browser.overlays.address_bar import AddressBar
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.overlays.file_list import FileList
from envs.browser.overlays.overlay import Canvas, Overlay

__all__ = ["AddressBar", "Canvas", "DialogBox", "FileList", "Overlay"]
