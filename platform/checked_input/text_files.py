"""Text files of unknown origin: their size is bounded, and every fault is a `TextFileError`."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

LARGEST = 2**20  # bytes; the tool's own files have at most some ten thousand
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_BYTE = re.compile(r"[\udc80-\udcff]")  # a byte of a file name that is not UTF-8, as Python reads it
_NOT_IN_A_LINE = re.compile(rf"{_CONTROL.pattern}|[\n\u2028\u2029]|{_BYTE.pattern}")


class TextFileError(ValueError):
    """A file cannot be read, or its content is wrong; the message is one line without the path."""


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Return the text of a file of at most `largest` bytes.

    Raises:
        FileNotFoundError: If there is no such file.
        TextFileError: If it cannot be read, is no regular file, is too large, or is not UTF-8.
    """
    try:
        content = _read(path, largest + 1)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    except OSError as error:
        raise TextFileError(f"cannot be read ({error.strerror or error})") from error
    if len(content) > largest:
        raise TextFileError(f"cannot be read (has more than {largest:,} bytes)")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextFileError(f"is not a text file ({error.reason} at byte {error.start})") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; see `read_text`. A file that is not JSON is a TextFileError."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TextFileError(f"cannot be read ({one_line(error)})") from error


def _read(path: Path, count: int) -> bytes:
    if "\0" in str(path):
        raise OSError("null character in its name")
    if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would block forever
        raise OSError("is not a file")
    with path.open("rb") as file:
        return file.read(count)


def printable(text: str, sign: str = "?") -> str:
    r"""Return a text with `sign` in place of control characters, which a terminal would execute; keeps line breaks.

    Bytes that are no text stand as `\xe9`.
    """
    return _BYTE.sub(_escape, _CONTROL.sub(sign, text))


def escaped(text: str) -> str:
    r"""Return a text with escapes for line breaks, control characters and bytes that are no text: `a\nb\xe9`."""
    return _NOT_IN_A_LINE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return repr(os.fsencode(char))[2:-1] if _BYTE.match(char) else repr(char)[1:-1]


def spreadsheet_cell(value: Any) -> Any:
    """Return a cell of a CSV file; text that looks like a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def one_line(value: object, longest: int = 100) -> str:
    """Return the first line of a value as printable text, cut at `longest` characters."""
    lines = str(value).splitlines()
    first = "".join(c if c.isprintable() else "?" for c in lines[0]) if lines else ""
    return first if len(lines) <= 1 and len(first) <= longest else f"{first[:longest]}..."


def shown(value: object, longest: int = 100) -> str:
    """Return the `repr` of a value in one line, cut at `longest` characters."""
    try:
        return one_line(repr(value), longest)
    except (ValueError, RecursionError):  # such as an integer of thousands of digits
        return f"a {type(value).__name__} too large to show"
