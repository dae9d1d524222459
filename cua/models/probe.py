"""A tiny request that tells whether a model answers, how fast, and whether it sees images."""

import io
import time
from dataclasses import dataclass

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import ImagePart, Message, Part, Reply, TextPart
from cua.model import Model

_QUESTION = "Which colour fills the image? Answer with that one word."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What the probe found.

    Attributes:
        ok: Whether the model answered at all.
        model: The name that the server gave.
        latency_s: Seconds for the answered request.
        accepts_images: Whether a request with an image was answered; None when nothing was.
        saw_image: Whether the answer names the image's colour; a server may drop images silently.
        reasoning_field: The field in which the reasoning came; None when there was none.
        reports_usage: Whether the server counts tokens; without it a token or cost cap is blind.
        answer: The beginning of the reply.
        error: Why the last failed request failed; empty when none did.
        retryable: Whether that may pass.
    """

    ok: bool
    model: str = ""
    latency_s: float = 0.0
    accepts_images: bool | None = None
    saw_image: bool = False
    reasoning_field: str | None = None
    reports_usage: bool = False
    answer: str = ""
    error: str = ""
    retryable: bool = False


async def probe(model: Model) -> ProbeReport:
    """Ask for the colour of a 32x32 image; when that is refused, ask a question without an image.

    Retries and timeouts are the model's own: for a quick verdict build it with few. A cut reply counts as an answer.

    Args:
        model: Any model; it stays open.

    Returns:
        The findings; errors of the endpoint are in them, not raised.
    """
    picture = ImagePart(data=_red_square())
    try:
        reply, latency_s = await _ask(model, (picture, TextPart(text=_QUESTION)))
        return _report(model, reply, latency_s, accepts_images=True)
    except ModelError as error:
        if error.retryable:
            return ProbeReport(ok=False, error=str(error), retryable=True)
        refusal = str(error)
    try:
        reply, latency_s = await _ask(model, (TextPart(text="Answer with the one word: ready"),))
    except ModelError as error:
        return ProbeReport(ok=False, error=str(error), retryable=error.retryable)
    return _report(model, reply, latency_s, accepts_images=False, error=refusal)


async def _ask(model: Model, parts: tuple[Part, ...]) -> tuple[Reply, float]:
    started = time.perf_counter()
    try:
        reply = await model.generate([Message(role="user", parts=parts)])
    except TruncatedReplyError as error:
        if error.reply is None:
            raise
        reply = error.reply
    return reply, time.perf_counter() - started


def _report(model: Model, reply: Reply, latency_s: float, *, accepts_images: bool, error: str = "") -> ProbeReport:
    return ProbeReport(
        ok=True,
        model=reply.model or model.name,
        latency_s=latency_s,
        accepts_images=accepts_images,
        saw_image=accepts_images and "red" in reply.content.lower(),
        reasoning_field=getattr(model, "last_reasoning_field", None),
        reports_usage=reply.usage.total_tokens > 0,
        answer=reply.content.strip()[:80],
        error=error,
    )


def _red_square() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (32, 32), (255, 0, 0)).save(out, format="png")
    return out.getvalue()
