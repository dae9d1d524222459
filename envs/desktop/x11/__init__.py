"""An X11 display as a `Backend`. Its modules are imported only once an env starts."""
