"""Parsing of a question in plain words: required detectors, kind of answer, and whether to make a page."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cua.errors import ConfigError, name_choices

AnswerKind = Literal["list", "count", "first", "last", "longest"]

DETECTORS = ("scene", "text", "motion", "flash", "template", "sound")
"""Detectors that work without a model."""

KINDS = {
    "scene": ("scene",),
    "text": ("text", "score"),
    "motion": ("motion",),
    "flash": ("flash",),
    "template": ("template",),
    "sound": ("beep", "sound"),
}
"""Kinds of events by detector."""

_WORDS = {
    "scene": r"scenes?|slides?|cuts?|shots?|chapters?|changes? of place|backgrounds?",
    "score": r"scores?|scoring|scoreboards?|goals?|points?|level(?:-| )?ups?",
    "text": r"texts?|words?|banners?|captions?|subtitles?|titles?|writing|says?|messages?|read(?:s|ing)?",
    "motion": r"mov(?:e|es|ing|ement|ements)|motions?|walk(?:s|ing)?|pass(?:es|ing)?|driv(?:es|ing)|activity",
    "flash": r"flash(?:es)?|lightnings?|blinks?|strobes?",
    "template": r"icons?|logos?|templates?|symbols?|this image|this picture|looks like",
    "beep": r"beeps?|tones?|signals?|whistles?",
    "sound": r"sounds?|loud(?:er|est|ness)?|nois(?:e|es|y)|bangs?|volume|audio|cheer(?:s|ing)?|shout(?:s|ing)?",
}
_ASKS: tuple[tuple[AnswerKind, str], ...] = (
    ("count", r"how many|how often|count|number of"),
    ("longest", r"longest|most of the time"),
    ("last", r"\blast\b|latest"),
    ("first", r"\bfirst\b|earliest"),
)
_COLORS = re.compile(r"\b(black|gr[ae]y|white|red|pink|magenta|orange|yellow|green|cyan|blue|purple)\b", re.IGNORECASE)
_SHOWCASE = r"\bshow ?case\b|\bpage\b|\bhtml\b|\bwebsite\b|\bhighlights?\b|\bclips\b"
_QUOTED = re.compile(r"[\"“”'‘’«]([^\"“”'‘’«»]{2,80})[\"“”'‘’»](?!\w)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRequest:
    """Parsed question.

    Attributes:
        question: Text of the question.
        detectors: Names of the required detectors.
        kinds: Kinds of events that the answer is about; all kinds of the detectors if empty.
        quoted: Text that events must contain; "" for any.
        color: Colour of flashes; "" for any.
        ask: Kind of answer.
        is_showcase: True if a page is requested.
        template: File of an image to find; "" for none.
    """

    question: str
    detectors: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    quoted: str = ""
    color: str = ""
    ask: AnswerKind = "list"
    is_showcase: bool = False
    template: str = ""


def parse_request(question: str, *, detectors: Iterable[str] = (), template: str = "") -> VideoRequest:
    """Parse a question; if it names nothing that detectors can find, all detectors are used.

    Args:
        question: Such as "When does the score change?".
        detectors: Detectors to use instead of those named by the question.
        template: File of an image to find.

    Raises:
        ConfigError: If the question is empty, a detector is unknown, or an icon is requested without its image.
    """
    if not question.strip():
        raise ConfigError('the question is empty; expected words such as "When does the score change?"')
    chosen = tuple(dict.fromkeys(detectors))
    for name in chosen:
        if name not in DETECTORS:
            raise ConfigError(f"unknown detector {name!r}.{name_choices(name, DETECTORS)}")
    bare = _QUOTED.sub(" ", question)
    named = [kind for kind, words in _WORDS.items() if re.search(rf"\b(?:{words})\b", bare, re.IGNORECASE)]
    quoted, color = _QUOTED.search(question), _COLORS.search(bare)
    if quoted and not {"text", "score"} & set(named):
        named.append("text")
    if template and "template" not in named:
        named.append("template")
    if "template" in (chosen or named) and not template:
        if chosen:
            raise ConfigError("the detector template needs an image: --template IMAGE")
        named.remove("template")
    wanted = chosen or [name for name, kinds in KINDS.items() if set(kinds) & set(named)]
    everything = tuple(name for name in DETECTORS if name != "template" or template)
    return VideoRequest(
        question=question.strip(),
        detectors=tuple(name for name in DETECTORS if name in (wanted or everything)),
        kinds=tuple(_without_general(named)) if not chosen else (),
        quoted=quoted[1] if quoted else "",
        color=color[1].lower().replace("grey", "gray") if color and "flash" in named else "",
        ask=next((ask for ask, words in _ASKS if re.search(words, bare, re.IGNORECASE)), "list"),
        is_showcase=re.search(_SHOWCASE, bare, re.IGNORECASE) is not None,
        template=template,
    )


def _without_general(named: list[str]) -> list[str]:
    """Resolve general kinds: "loud beeps" means only beeps, "loud sounds" means both sounds and beeps."""
    return [kind for kind in named if not (kind == "sound" and "beep" in named)] + (
        ["beep"] if "sound" in named and "beep" not in named else []
    )
