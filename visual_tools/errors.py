"""Errors that a caller of these functions can mend.

VisualError            what was found, what was expected, what to do
├── ImageError         an image or document cannot be read or does not fit the request
├── VideoError         a video cannot be read or does not fit the request
├── SandboxError       code cannot be run in isolation here
└── MissingPackageError  an optional package is not installed (`visual_tools.require`)
"""


class VisualError(Exception):
    """Something the caller can mend; the text says what was found, what was expected, what to do."""


class ImageError(VisualError):
    """An image or document cannot be read, or an argument does not fit it."""


class VideoError(VisualError):
    """A video cannot be read, or an argument does not fit it."""


class SandboxError(VisualError):
    """Nothing here can isolate code, or a kernel could not be started."""
