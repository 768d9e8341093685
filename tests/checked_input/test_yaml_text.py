"""YAML as every reader has it: what is written is what is read, within bounds, and one line says why not."""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from checked_input.text_files import LARGEST, TextFileError, read_text
from checked_input.yaml_text import DEEPEST, parse_yaml, read_yaml, yaml_of
from tests.support.imports import ROOT

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]\n" for n in range(1, 9)
)
SHARED = [1]
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1e-3\nb: [-2, +.5, 7., 0012]", {"a": 0.001, "b": [-2, 0.5, 7.0, 12]}),
        ("[+5, 1E3, 1.0, 1e0, yes, on, y]", [5, 1000.0, 1.0, 1.0, "yes", "on", "y"]),
        (
            "[no, 1:30, 2001-99-99, 0x1F, 1_000, '7', ~, true]",
            ["no", "1:30", "2001-99-99", "0x1F", "1_000", "7", None, True],
        ),
        ("a: .inf", {"a": math.inf}),
        ("[9223372036854775807, -9223372036854775807]", [2**63 - 1, 1 - 2**63]),
        ("['1', \"2\", 0e5, 0.0e-9]", ["1", "2", 0.0, 0.0]),
        ("", None),
        ("# nothing", None),
        ("a: |\n  1\n", {"a": "1\n"}),
        ("a: |-\n  1\nb: >-\n  true\n", {"a": "1", "b": "true"}),
    ],
)
def test_values_are_those_that_are_written(text: str, value: object) -> None:
    assert repr(parse_yaml(text)) == repr(value)  # 1 is not 1.0


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("", "~", "null", "Null", "NULL"), None),
        (("true", "True", "TRUE"), True),
        (("false", "False", "FALSE"), False),
        ((".inf", "+.Inf", ".INF"), math.inf),
        (("-.inf", "-.Inf", "-.INF"), -math.inf),
    ],
)
def test_every_spelling_of_a_word_has_its_value_unless_it_is_quoted(words: tuple[str, ...], value: object) -> None:
    assert [parse_yaml(f"a: {word}") for word in words] == [{"a": value}] * len(words)
    for form in ("'{}'", '"{}"'):
        assert [parse_yaml(f"a: {form.format(word)}") for word in words] == [{"a": word} for word in words]


def test_no_number_is_not_a_number() -> None:
    assert all(math.isnan(value) for value in parse_yaml("[.nan, .NaN, .NAN]"))  # type: ignore[attr-defined]


def test_names_are_written_as_they_are() -> None:
    assert yaml_of({"class": "chêne"}) == "class: chêne\n"


def test_keys_keep_their_order() -> None:
    assert yaml_of({"b": 1, "a": {"d": 1, "c": 2}}) == "b: 1\na:\n  d: 1\n  c: 2\n"
    assert yaml_of({"b": "\u2028", "a": 1}) == 'b: "\\L"\na: 1\n'


@given(_PLAIN)
@example({"a": {"b": [{"c": -0.0}]}})
@example({"<": "<<", "=": "=", "date": "2001-01-01", "1:30": "0x1F", "no": "yes", "1_0": "1e-3", "010": "010"})
@example([SHARED, SHARED])
@example("a\u2029b")
@example("a\u2028b")
@example("a\x85b")
@example(["1e3", "-1e3", "+1e3", ".5e3"])  # numbers, if they were not quoted
def test_what_the_tool_writes_is_read_again(content: object) -> None:
    assert parse_yaml(yaml_of(content)) == content


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (BOMB, r"line 2 \(alias \*a0: write the value out\)"),
        ("a: &a [*a]", r"alias \*a"),
        ("a: 1\nb: {c: 1, c: 2}", r"line 2 \(key 'c' is there twice\)"),
        ("a: {1: x, 1.0: y}", "key 1.0 is there twice"),
        ("<<: {a: 1}", "a key must be"),
        ("? [1]\n: 2", "a key must be"),
        ("a: !!python/object/apply:os.system [id]", "tag tag:yaml.org,2002:python/object"),
        ("a: !!int 1", "tag .*int: leave it out"),
        ("--- 1\n--- 2", "one document"),
        ("a: " + "9" * 400, "line 1 .*too large a number"),
        ("a: 9223372036854775808", "too large a number"),
        ("a: -9223372036854775808", "too large a number"),
        ("a: " + "9" * 100_000, "too large a number"),
        ("a: [1, 1e400]", "1e400 is too large"),
        ("a: -1e-400", "too small"),
        ("a: b: c", "line 1"),
        ("a: \0", "not valid YAML"),
        ("a: \ud800", "not valid YAML"),
        ("[" * 3000, f"nested more than {DEEPEST} deep"),
        ("".join(f"{' ' * n}a:\n" for n in range(900)), "nested more than"),
    ],
)
def test_what_is_refused(text: str, fault: str) -> None:
    start = time.perf_counter()
    with pytest.raises(TextFileError, match=fault) as error:
        parse_yaml(text)
    assert time.perf_counter() - start < 1 and len(str(error.value).splitlines()) == 1 and len(str(error.value)) < 300


def test_depth_counts_and_width_does_not() -> None:
    deepest = "[" * DEEPEST + "]" * DEEPEST
    assert parse_yaml(f"[{', '.join(['[]'] * 1000)}]") == [[]] * 1000
    assert parse_yaml(deepest) is not None
    with pytest.raises(TextFileError):
        parse_yaml(f"[{deepest}]")


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"#" * (LARGEST + 1))
    (tmp_path / "latin").write_bytes("ä".encode("latin-1"))
    (tmp_path / "loop").symlink_to("loop")
    faults = {"fifo": "is not a file", ".": "is not a file", "large": "more than", "latin": "not a text file"}
    for name, fault in {**faults, "loop": "symbolic links", "a\0b": "null"}.items():
        with pytest.raises(TextFileError, match=fault):
            read_yaml(tmp_path / name)
    with pytest.raises(TextFileError, match="is not a file"):
        read_text(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        read_yaml(tmp_path / "none")
    (tmp_path / "whole").write_bytes(b"#" * LARGEST)
    assert read_yaml(tmp_path / "whole") is None


def test_no_other_module_reads_yaml() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("platform", "trainables", "search_spaces", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^ *(import|from) .*\b(yaml|ruamel)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == {"platform/checked_input/yaml_text.py"}
    uses = set(re.findall(r"(?<![\w/.])yaml[.](\w+)", (ROOT / found.pop()).read_text(encoding="utf-8")))
    assert {each for each in uses if "Event" not in each} == {"YAMLError", "parse", "SafeLoader", "SafeDumper", "dump"}
