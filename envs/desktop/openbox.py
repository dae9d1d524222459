"""Keep openbox from starting programs of its own when the agent presses a key.

Its stock configuration runs `scrot` on the Print key, and with Alt one that waits for somebody to select something.
"""

from pathlib import Path
from xml.etree import ElementTree

_STOCK = Path("/etc/xdg/openbox/rc.xml")
_NAMESPACE = "http://openbox.org/3.4/rc"


def save_quiet_config(config_home: Path) -> None:
    """Write openbox's stock configuration without the keys that run programs; leaves an existing one alone."""
    path = config_home / "openbox" / "rc.xml"
    if path.exists() or not _STOCK.exists():
        return
    ElementTree.register_namespace("", _NAMESPACE)
    try:
        tree = ElementTree.parse(_STOCK)
    except ElementTree.ParseError:
        return
    tag = f"{{{_NAMESPACE}}}"
    for keyboard in tree.iter(f"{tag}keyboard"):
        for binding in list(keyboard.findall(f"{tag}keybind")):
            if any(action.get("name") == "Execute" for action in binding.iter(f"{tag}action")):
                keyboard.remove(binding)
    path.parent.mkdir(parents=True, exist_ok=True)
    tree.write(path, encoding="utf-8", xml_declaration=True)
