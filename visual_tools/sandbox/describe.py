"""What code finds inside a kernel, in words for a model."""

import importlib.metadata
import platform

_DISTRIBUTIONS = {
    "numpy": "numpy",
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "scipy": "scipy",
    "skimage": "scikit-image",
    "matplotlib": "matplotlib",
    "pandas": "pandas",
    "networkx": "networkx",
    "numba": "numba",
    "av": "av",
    "rapidocr": "rapidocr",
    "zxingcpp": "zxing-cpp",
    "pypdfium2": "pypdfium2",
}


def describe_inside() -> str:
    """One line: Python's version and the packages that can be imported in a kernel, by the name to import."""
    found = []
    for module, distribution in _DISTRIBUTIONS.items():
        try:
            found.append(f"{module} {importlib.metadata.version(distribution)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"Python {platform.python_version()} with {', '.join([*found, 'visual_tools'])}; no network"
