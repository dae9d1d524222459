"""X11 display as a `Backend`. Its modules are imported only when an env starts."""
