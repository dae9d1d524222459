"""Model text to a syntax tree, with every way in which Python's parser can fail turned into one error."""

import ast
import textwrap
import warnings

from cua.errors import CodeError


def parse_code(code: str, max_code_chars: int = 60_000) -> ast.Module:
    """The syntax tree of a block of code; nothing is carried out.

    Raises:
        CodeError: It is not Python, or too long or too deeply nested to be read.
    """
    if len(code) > max_code_chars:
        raise CodeError(f"the code is {len(code)} characters long, at most {max_code_chars} are possible")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_unindented(code))
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise CodeError(f"{line}this is not valid Python: {error.msg}{_excerpt(code, error.lineno)}") from None
    except (RecursionError, MemoryError):
        raise CodeError("the code is nested too deeply. Write short, flat statements") from None
    except ValueError as error:  # null bytes, half characters
        raise CodeError(f"the code holds characters that Python cannot read: {type(error).__name__}") from None


def _unindented(code: str) -> str:
    """Code whose first line is indented moves left as a whole; other code stays as it is, typed texts included."""
    code = code.removeprefix("\ufeff")
    first = next((line for line in code.splitlines() if line.strip()), "")
    return textwrap.dedent(code) if first[:1] in (" ", "\t") else code


def _excerpt(code: str, line: int | None) -> str:
    lines = code.splitlines()
    if line is None or not 0 < line <= len(lines):
        return ""
    text = lines[line - 1].strip()
    return f" in {ascii(text) if not text.isprintable() else text}"[:140] if text else ""
