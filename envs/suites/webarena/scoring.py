"""WebArena's comparisons of texts and addresses, as published, and what is mended in them.

Source: the evaluators of web-arena-x/webarena (`evaluation_harness`), whose verdicts these have without any of `FIXES`.
"""

import re
from collections.abc import Sequence, Set
from urllib.parse import parse_qs, urlsplit

FIXES = {
    "one character": "a one-character reference is a word of its own also before a full stop inside of a text, in "
    "whatever punctuation; as published it is not found in 'the answer is 6. thanks'",
    "alternatives": "' |OR| ' separates alternatives in answers too; as published only on pages and in addresses",
    "no answer": "nothing is right that was not answered; as published the text of an early end is compared",
    "null": "a place that a page does not have is no text; as published it is the text 'None'",
    "verdict": "a judge's verdict is its last line; as published the words are looked for anywhere",
}
"""What is compared otherwise than upstream does, by name."""
ALL_FIXES = frozenset(FIXES)
AS_PUBLISHED: frozenset[str] = frozenset()


def clean(text: str) -> str:
    """Without blanks around, without one layer of equal quotes, in lower case."""
    text = text.strip()
    for quote in "'\"":
        if text.startswith(quote) and text.endswith(quote):
            text = text[1:-1]  # of a lone quote nothing is left
            break
    return text.lower()


def is_exactly(reference: str, answer: str) -> bool:
    """Whether both are the same once cleaned."""
    return clean(answer) == clean(reference)


def includes(reference: str, answer: str, *, is_alone: bool = False, fixes: Set[str] = ALL_FIXES) -> bool:
    """Whether the answer holds a reference.

    Args:
        reference: What is looked for.
        answer: Where.
        is_alone: It is the only one: if it is one character long, it has to be a word of its own.
        fixes: Without `one character`: by NLTK's words; else by any that punctuation sets apart.
    """
    reference, answer = clean(reference), clean(answer)
    if not is_alone or len(reference) != 1:
        return reference in answer
    if _is_nltk_word(reference, answer):
        return True
    return "one character" in fixes and reference in re.split(r"(?<![.!?])[.!?]+(?:\s|$)|\s+", answer)


def includes_all(references: Sequence[str], answer: str, *, fixes: Set[str] = ALL_FIXES) -> bool:
    """Whether an answer holds every reference; with the fix `alternatives`: or one of the alternatives of each."""
    is_alone = len(references) == 1
    return all(
        any(
            includes(one, answer, is_alone=is_alone, fixes=fixes)
            for one in (reference.split(" |OR| ") if "alternatives" in fixes else [reference])
        )
        for reference in references
    )


def is_reached(references: Sequence[str], url: str) -> bool:
    """Whether an address is one of those that a task wants: their host and path are a part of its, and their query too.

    Case matters, nothing is decoded in paths, the scheme and the fragment do not count, and of a query each key needs
    one of the values that any of the references has for it.
    """
    base, query = _split_url(url)
    wanted = [_split_url(reference) for reference in references]
    if not any(its_base in base for its_base, _ in wanted):
        return False
    values: dict[str, set[str]] = {}
    for _, its_query in wanted:
        for key, its_values in its_query.items():
            values.setdefault(key, set()).update(its_values)
    return all(not its_values.isdisjoint(query.get(key, ())) for key, its_values in values.items())


def _split_url(url: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(url.rstrip("/"))
    return parts.netloc + parts.path, parse_qs(parts.query)


_APART = r"\s;@#$%&?!*()\[\]{}<>\"“”«»„‘’`\u2012-\u2015"
"""What NLTK's word tokenizer always sets apart."""
_BEFORE = rf"(?:^|(?<=[{_APART}])|(?<=[^-]--)|(?<=^--)|(?<=\.\.)|(?<=\W')|(?<=^'))"
_END = rf"(?:''|'?(?:$|[{_APART}]|--|\.\.|[:,](?:\D|$)))"
_LAST_STOP = r"\.[\])}>\"'»”’\s]*$"
_TAIL = rf"(?:'[smd]|(?:'(?:ll|re|ve)|n't)(?:'[smd])?)(?:{_END}|{_LAST_STOP})"
"""`'s`, `n't` and the like, which are words of their own; of two only the first may be a long one."""
_AFTER = (
    rf"(?P<apart>{_END}|{_TAIL})|(?P<stop>{_LAST_STOP})"
    r"|\.[\])}>\"'»”’]*\s+(?P<next>[^\s.,;:])|(?P<opened>\.[(\[{*@“])"
)


def _is_nltk_word(character: str, text: str) -> bool:
    """Whether NLTK's `word_tokenize` of a cleaned text has a word of this one character.

    A full stop behind it is a word of its own at the end of a sentence only: at the end of the text, or before what
    does not begin with a small letter, since Punkt takes small letters after a number for the same sentence.
    """
    found = re.finditer(f"{_BEFORE}{re.escape(character)}(?={_AFTER})", text)
    return any(match["next"] is None or not match["next"].islower() for match in found)
