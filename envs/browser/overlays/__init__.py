"""Overlays for what a headless browser does not draw: dialogs, file chooser, address bar, suggestions, tooltips."""
