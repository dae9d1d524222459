"""Images of strangers: decoded, or nothing, and never more than that."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cua.errors import ModelError
from cua.evidence.verify import _image_difference
from cua.images import decode_image, is_still_png
from cua.messages import ImagePart
from cua.models.wire import ImageFormat, encode_image
from cua.tool_agent.inputs import kind_of
from cua.trajectory.replay import similarity
from cua.trajectory.report.images import LOST, make_page_image
from tests.cua.broken_images import broken, harmless_bombs, png


@pytest.mark.parametrize("name", [*harmless_bombs()])
def test_a_note_that_unpacks_to_anything_is_not_read(name: str) -> None:
    bomb = harmless_bombs()[name]
    pixels = decode_image(bomb)
    assert pixels is not None
    assert np.array_equal(pixels, np.full((30, 40, 3), (250, 0, 0), np.uint8))
    assert _image_difference(bomb, png()) == 0.0
    assert similarity(bomb, png()) == 1.0
    assert make_page_image(bomb, form="small", budget_bytes=1000) != LOST


@pytest.mark.parametrize("name", [*broken()])
def test_what_is_no_picture_is_none_everywhere(name: str, tmp_path: Path) -> None:
    data = broken()[name]
    if name != "iCCP":  # a profile that cannot be used is left out by some decoders
        assert decode_image(data) is None
        assert _image_difference(data, png()) == float("inf")
        assert similarity(data, png()) is None
        assert make_page_image(data, form="png") == LOST
    else:
        make_page_image(data, form="png")
    with pytest.raises(ModelError):
        encode_image(ImagePart(data=data), ImageFormat(kind="webp"))
    (tmp_path / "x").write_bytes(data)
    assert kind_of(tmp_path / "x") in ("image", "video", "other")


def test_what_moves_is_not_shown_as_it_is() -> None:
    out = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), (number, 0, 0)) for number in range(60)]
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    moving = out.getvalue()
    assert not is_still_png(moving)
    assert make_page_image(moving, form="png").full.startswith("data:image/jpeg")
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    assert make_page_image(out.getvalue(), form="png").full.startswith("data:image/jpeg")
