"""WebArena's comparisons of texts and addresses, as published, and fixes for their errors.

Source: the evaluators of web-arena-x/webarena (`evaluation_harness`); without any of `FIXES` the verdicts are the same.
"""

import re
from collections.abc import Sequence, Set
from urllib.parse import parse_qs, urlsplit

FIXES = {
    "one character": "a one-character reference is a word of its own also before a full stop inside of a text, in "
    "whatever punctuation; as published it is not found in 'the answer is 6. thanks'",
    "alternatives": "' |OR| ' separates alternatives in answers too; as published only on pages and in addresses",
    "no answer": "an episode without an answer is wrong; as published the text of an early end is compared",
    "null": "an element that a page does not have has no text; as published its text is 'None'",
    "verdict": "a judge's verdict is its last line; as published the words are looked for anywhere",
}
"""Differences from upstream's comparisons, by name."""
ALL_FIXES = frozenset(FIXES)
AS_PUBLISHED: frozenset[str] = frozenset()


def clean(text: str) -> str:
    """Strip whitespace and one layer of matching quotes, and convert to lower case."""
    text = text.strip()
    for quote in "'\"":
        if text.startswith(quote) and text.endswith(quote):
            text = text[1:-1]  # a lone quote becomes empty
            break
    return text.lower()


def is_exactly(reference: str, answer: str) -> bool:
    """Return True if both are equal after `clean`."""
    return clean(answer) == clean(reference)


def includes(reference: str, answer: str, *, is_alone: bool = False, fixes: Set[str] = ALL_FIXES) -> bool:
    """Return True if the answer contains a reference.

    Args:
        reference: Text to look for.
        answer: Text to search.
        is_alone: True if it is the only reference: a single character must then be a separate word.
        fixes: Without `one character`, words are NLTK's; else any word separated by punctuation.
    """
    reference, answer = clean(reference), clean(answer)
    if not is_alone or len(reference) != 1:
        return reference in answer
    if _is_nltk_word(reference, answer):
        return True
    return "one character" in fixes and reference in re.split(r"(?<![.!?])[.!?]+(?:\s|$)|\s+", answer)


def includes_all(references: Sequence[str], answer: str, *, fixes: Set[str] = ALL_FIXES) -> bool:
    """Return True if an answer contains every reference; with the fix `alternatives`, one alternative of each."""
    is_alone = len(references) == 1
    return all(
        any(
            includes(alternative, answer, is_alone=is_alone, fixes=fixes)
            for alternative in (reference.split(" |OR| ") if "alternatives" in fixes else [reference])
        )
        for reference in references
    )


def is_reached(references: Sequence[str], url: str) -> bool:
    """Return True if an address contains host and path of one of the references, and has their query values.

    Comparison is case-sensitive, paths are not decoded, the scheme and the fragment are ignored, and each key of a
    query needs one of the values that any of the references has for it.
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
"""Characters that NLTK's word tokenizer always separates."""
_BEFORE = rf"(?:^|(?<=[{_APART}])|(?<=[^-]--)|(?<=^--)|(?<=\.\.)|(?<=\W')|(?<=^'))"
_END = rf"(?:''|'?(?:$|[{_APART}]|--|\.\.|[:,](?:\D|$)))"
_LAST_STOP = r"\.[\])}>\"'»”’\s]*$"
_TAIL = rf"(?:'[smd]|(?:'(?:ll|re|ve)|n't)(?:'[smd])?)(?:{_END}|{_LAST_STOP})"
"""`'s`, `n't` and similar suffixes, which are separate words; of two, only the first may be a long one."""
_AFTER = (
    rf"(?P<apart>{_END}|{_TAIL})|(?P<stop>{_LAST_STOP})"
    r"|\.[\])}>\"'»”’]*\s+(?P<next>[^\s.,;:])|(?P<opened>\.[(\[{*@“])"
)


def _is_nltk_word(character: str, text: str) -> bool:
    """Return True if NLTK's `word_tokenize` of a cleaned text yields this character as a word.

    A full stop after it is a separate word only at the end of a sentence: at the end of the text, or if the next
    character is not a lower-case letter, since Punkt continues the sentence with a lower-case letter after a number.
    """
    matches = re.finditer(f"{_BEFORE}{re.escape(character)}(?={_AFTER})", text)
    return any(match["next"] is None or not match["next"].islower() for match in matches)
