"""Functions on pictures: read text, find boxes and toggles. Importing this loads nothing heavy."""
