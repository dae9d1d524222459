"""Import once what code about pictures uses, so that every kernel has it at once and shares its memory."""

import contextlib
import gc
import importlib
import io
from typing import Any

MODULES = (
    "numpy numpy.fft numpy.linalg numpy.ma numpy.random PIL.Image PIL.ImageDraw PIL.ImageFont PIL.ImageFilter "
    "PIL.ImageOps PIL.ImageChops PIL.ImageEnhance PIL.ImageStat PIL.PngImagePlugin PIL.JpegImagePlugin cv2 "
    "scipy.ndimage scipy.signal scipy.optimize scipy.interpolate scipy.spatial scipy.stats scipy.sparse "
    "scipy.sparse.csgraph scipy.fft scipy.cluster.hierarchy skimage.measure skimage.morphology skimage.segmentation "
    "skimage.feature skimage.filters skimage.graph skimage.transform skimage.color skimage.draw skimage.exposure "
    "skimage.restoration skimage.util skimage.io matplotlib matplotlib.pyplot matplotlib.patches pandas networkx "
    "visual_tools visual_tools.sandbox.inside "
    "json re math collections itertools functools statistics pathlib base64 csv random datetime fractions decimal "
    "string textwrap heapq bisect colorsys subprocess concurrent.futures multiprocessing.pool "
    "multiprocessing.connection multiprocessing.popen_fork multiprocessing.queues multiprocessing.synchronize "
    "stack_data pexpect pandas.io.formats.string PIL.BmpImagePlugin PIL.GifImagePlugin PIL.PpmImagePlugin "
    "PIL.WebPImagePlugin PIL.TiffImagePlugin IPython.core.magic_arguments IPython.core.magics.execution "
    "tornado.platform.asyncio tornado.process"
).split()


def import_all() -> None:
    """Import what is installed of it; what is not is missing in the kernels too."""
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import visual_tools

    for name in visual_tools.__all__:
        with contextlib.suppress(ImportError, AttributeError):
            getattr(visual_tools, name)
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.font_manager")


def warm_up() -> None:
    """Do once what is slow the first time: draw text in a figure, print a table."""
    with contextlib.suppress(ImportError):
        import matplotlib.pyplot as plt
        import pandas as pd

        figure, axes = plt.subplots()
        axes.set_title("Title")
        axes.plot([0, 1], label="line")
        axes.legend()
        figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
        plt.close(figure)
        repr(pd.DataFrame({"column": [1.5]}))


def compile_loops(cache_dir: str) -> None:
    """Have the compiled loops of `visual_tools.paths` at hand; kernels could not keep what they compile.

    Args:
        cache_dir: Where they are kept from one zygote to the next; "" for nowhere.
    """
    with contextlib.suppress(ImportError):
        import numpy as np

        from visual_tools.paths.shortest import METHODS, shortest_path

        config: Any = importlib.import_module("numba").config
        kept, config.CACHE_DIR = config.CACHE_DIR, cache_dir or config.CACHE_DIR
        free = np.ones((4, 4), bool)
        for method in METHODS:
            shortest_path(free, start=(0, 0), goal=(3, 3), method=method)
        config.CACHE_DIR = kept


def freeze() -> None:
    """Take everything out of the garbage collector's reach, so that it touches no shared page in a fork."""
    gc.collect()
    gc.freeze()
