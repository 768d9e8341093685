"""Code of the user: what is found behind a name, what is imported when, and what is said of a bad plugin."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from tests.support.packages import install
from trainables import user_code
from trainables.errors import InputError
from trainables.user_code import (
    allow_code,
    allow_typed,
    called,
    changed,
    digests_of,
    explained,
    explaining,
    find,
    folders_of,
    forbidden,
    installed,
    is_code,
    require_allowed,
    require_current,
    require_members,
)

IMPORTED = "from pathlib import Path\n(Path(__file__).parent / 'ran').touch()\n"


@pytest.fixture(autouse=True)
def _nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.setattr(user_code, "_modules", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("plugged"):
            del sys.modules[name]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def found(name: str, builtins: dict[str, Any] | None = None, must_be: type = type) -> Any:
    return find("method", name, builtins or {}, must_be)


@pytest.mark.parametrize(
    ("name", "code"),
    [("a.b:C", True), ("a:B?tasks=2", True), ("digits", False), ("folder:birds", False), ("parquet:x", False)]
    + [("a:b-c", False), (":B", False), ("a:", False), ("a:B:C", False), ("folders:X", True)],
)
def test_what_names_code(name: str, code: bool) -> None:
    assert is_code(name) is code
    allow_typed(name, None)
    assert folders_of([name, "other:X"]) == ({name.partition("?")[0]: str(Path.cwd())} if code else {})


def test_a_module_is_imported_from_the_folder_that_was_allowed_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "plugged.py").write_text(f"{IMPORTED}class Mine: pass\nnumber = 1\n")
    with pytest.raises(InputError, match=r"^method 'plugged:Mine': a file names this code.*--allow-code plugged:Mine "):
        found("plugged:Mine")
    allow_code("other:Mine", tmp_path)
    allow_code("plugged:number", tmp_path)
    with pytest.raises(InputError, match="a file names this code"):
        found("plugged:Mine")
    assert not (tmp_path / "ran").exists()
    allow_code("plugged:Mine", tmp_path)
    before = list(sys.path)
    assert found("plugged:Mine").__name__ == "Mine" and sys.path == before
    assert found("plugged:number", must_be=int) == 1
    with pytest.raises(InputError, match=r"^method 'plugged:number': 'number' must be a class, got int$"):
        found("plugged:number")
    with pytest.raises(InputError, match=r"^method 'plugged:number\?a=1': code takes no .*; write 'plugged:number'$"):
        found("plugged:number?a=1")
    with pytest.raises(InputError, match="'number' must be an InputError, got int$"):
        found("plugged:number", must_be=InputError)


def test_the_digest_is_that_of_the_file_that_has_the_class_as_it_was_imported(path: Path) -> None:
    (path / "plugged_inner.py").write_text("class Mine: pass\n")
    install(path, "a-pack", {"methods mine": "plugged_outer:Mine"}, plugged_outer="from plugged_inner import Mine")
    assert digests_of(["mine", "plugged_outer:Mine"]) == {}
    allow_code("plugged_outer:Mine", path)
    assert [found("mine"), found("plugged_outer:Mine"), found("our", {"our": object})].count(object) == 1
    before = digests_of(["mine", "plugged_outer:Mine?a=1", "our"])
    assert set(before) == {"mine", "plugged_outer:Mine"} and len(set(before.values())) == 1
    require_current([*before, "our", None])
    (path / "plugged_inner.py").write_text("class Mine: number = 1\n")
    assert found("mine") and digests_of(before) == before
    for name in before:
        with pytest.raises(InputError, match=f"^'{name}': .*plugged_inner.py has changed since .*; restart Python"):
            require_current([name])
    importlib.reload(sys.modules["plugged_inner"])
    require_current(before)
    assert set(digests_of(["mine"]).values()).isdisjoint(before.values())
    assert changed({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == ["b"]


@pytest.mark.parametrize(
    ("text", "changed"), [("class Mine: pass\n", False), ("class Mine: number = 1\n", True), ("class Mine:\n", True)]
)
def test_code_that_the_user_imported_and_changed_before_it_was_named_is_noticed(
    text: str, changed: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (file := path / "plugged_early.py").write_text("class Mine: pass\n")
    importlib.import_module("plugged_early")
    file.write_text(text)
    os.utime(file, (1, 1))
    allow_code("plugged_early:Mine", path)
    assert found("plugged_early:Mine")
    now = sha256(file.read_bytes()).hexdigest()
    assert (digests_of(["plugged_early:Mine"])["plugged_early:Mine"] != now) == changed
    with pytest.raises(InputError, match=r"plugged_early.py has changed since") if changed else nullcontext():
        require_current(["plugged_early:Mine"])


def test_a_module_of_this_name_in_another_folder_is_not_taken_for_it(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two", tmp_path / "none"):
        folder.mkdir()
        (folder / "plugged_twice.py").write_text("class Mine: pass\n")
        allow_code("plugged_twice:Mine", folder)
        if folder.name == "none":
            (folder / "plugged_twice.py").unlink()
        if folder.name != "two":
            require_current(["plugged_twice:Mine", "json:tool"])
            assert found("plugged_twice:Mine")
            continue
        with pytest.raises(InputError, match=r"has imported 'plugged_twice' from .*one/.*, not from .*two/.*; restart"):
            require_current(["plugged_twice:Mine"])


def test_all_code_that_a_file_names_is_asked_for_at_once() -> None:
    names = ["digits", "a:B?x=1", "c:D", "a:B", "e:F"]
    with pytest.raises(InputError) as caught:
        require_allowed(names)
    assert str(caught.value) == (
        "a file names the code a:B and c:D and e:F, you did not; if you trust it, let it run with --allow-code a:B"
        " --allow-code c:D --allow-code e:F (in Python: tausearch.allow_code('a:B'), tausearch.allow_code('c:D'),"
        " tausearch.allow_code('e:F'))"
    )
    allow_code("a:B")
    assert forbidden(names) == ("c:D", "e:F")
    allow_code("c:D")
    require_allowed(names)  # `find` says of what kind a single one is


def test_what_is_missing_or_raises_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "plugged_bad.py").write_text("\nraise KeyError('lo\\nst')\n")
    for name in ("plugged_bad:X", "plugged_none:X", "json:nothing", "sys:nothing"):
        allow_code(name, tmp_path)
    where = r"module 'plugged_bad' cannot be imported \(KeyError: 'lo\\nst' in .*plugged_bad.py, line 2\)$"
    with pytest.raises(InputError, match=f"^method 'plugged_bad:X': {where}"):
        found("plugged_bad:X")
    with pytest.raises(InputError, match="module 'plugged_none' cannot be imported .ModuleNotFoundError"):
        found("plugged_none:X")
    said = rf"^method 'json:nothing': 'nothing' must be a class, got nothing of that name in {json.__file__}$"
    with pytest.raises(InputError, match=said):  # a json.py in the folder would not be the one that was imported
        found("json:nothing")
    with pytest.raises(InputError, match="^method 'sys:nothing': 'nothing' must be a class, got nothing of that name$"):
        found("sys:nothing")
    with pytest.raises(InputError, match="only code of the form MODULE:NAME can be allowed, got 'digits'"):
        allow_code("digits")


def test_a_typing_error_of_a_module_names_similar_ones_and_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "plugged_package").mkdir()
    (tmp_path / "plugged_package" / "__init__.py").touch()
    (tmp_path / "plugged_package" / "pull.py").write_text("class Pull: pass\nimport plugged_package.pol\n")
    (tmp_path / "plugged_right.py").write_text("class Pull: pass\n")
    (tmp_path / "plugged_link.py").symlink_to("gone.py")
    wrong = {
        "plugged_link:Pull": rf"looked in {tmp_path} .*; {tmp_path}/plugged_link.py is a link that leads nowhere\)$",
        "plugged_package.pul:Pull": r"No module named 'plugged_package.pul'; did you mean 'plugged_package.pull'\?\)$",
        "plugged_packag:Pull": f"looked in {tmp_path} and on Python's path; did you mean 'plugged_package'",
        "plugged_package.pull:Pull": r"No module named 'plugged_package.pol' in .*pull.py, line 2\)$",  # not its own
        "plugged_right:Pul": rf"must be a class, got nothing of that name in {tmp_path}/.*; did you mean 'Pull'\?$",
    }
    for name, message in wrong.items():
        allow_code(name, tmp_path)
        with pytest.raises(InputError, match=message):
            found(name)


@pytest.mark.parametrize("name", ["a.b.C", "a/b:C", "a/b.py:C", "a/b.C"])
def test_code_that_is_named_otherwise_is_shown_as_it_should_be(name: str) -> None:
    with pytest.raises(InputError, match=r"allowed: our, MODULE:NAME or .* brings; as MODULE:NAME: 'a\.b:C'$"):
        found(name, {"our": object})


def test_an_installed_package_brings_a_name_that_needs_no_permission(path: Path) -> None:
    install(path, "my-pack", {"methods mine": "plugged_pack:Mine", "rules mine": "plugged_pack:rule"}, plugged_pack="")
    (path / "plugged_pack.py").write_text(f"{IMPORTED}class Mine: pass\n")
    assert installed("method") == ("mine",) == installed("rule") and installed("merging rule") == ()
    said = r"^unknown method 'ours'; allowed: our, mine, MODULE:NAME or what .* brings; did you mean 'our'"
    with pytest.raises(InputError, match=said):
        found("ours", {"our": object})
    assert found("our", {"our": object}) is object
    assert not (path / "ran").exists()
    assert found("mine", {"our": object}).__name__ == "Mine"
    with pytest.raises(InputError, match="^rule 'mine' of package 'my-pack': 'rule' must be a class, got nothing"):
        find("rule", "mine", {}, type)
    assert not set(sys.path) - {str(path), *sys.path[1:]}


def test_a_package_that_does_not_import_is_named(path: Path) -> None:
    install(path, "bad-pack", {"methods bad": "plugged_wrong:Mine"}, plugged_wrong="import torch +")
    message = r"^method 'bad' of package 'bad-pack': module 'plugged_wrong' cannot be imported \(SyntaxError.*line 1\)$"
    with pytest.raises(InputError, match=message):
        found("bad")


def test_a_name_that_two_claim_is_refused_and_both_are_named(path: Path) -> None:
    install(path, "one", {"methods mine": "plugged_one:A", "methods ita": "plugged_one:B"}, plugged_one=IMPORTED)
    install(path, "two", {"methods mine": "plugged_two:C", "methods sole": "plugged_two:D"}, plugged_two="D = int")
    claims = r"package '(one|two)' \(plugged_\1:[AC]\) and package '(?!\1)(one|two)' \(plugged_\2:[AC]\)"
    with pytest.raises(InputError, match=f"^method 'mine': {claims} have one of this name; uninstall all but one$"):
        found("mine")
    with pytest.raises(InputError, match=r"^method 'ita': tausearch itself and package 'one' .plugged_one:B. have one"):
        found("ita", {"ita": object})
    assert found("sole") is int and not (path / "ran").exists()


def test_a_name_that_no_file_can_have_is_not_offered(path: Path) -> None:
    install(path, "odd", dict.fromkeys(("methods ../up", "methods a/../up", "methods plain"), "plugged_odd:A"))
    assert installed("method") == ("plain",)


class Wanted(Protocol):
    """What a class must have."""

    def one(self) -> int: ...

    def two(self) -> int: ...

    def _own(self) -> int: ...


def test_a_class_that_lacks_a_method_is_told_which() -> None:
    class Half:
        one = 3

    with pytest.raises(
        InputError, match=r"^method 'm:Half': the class Half lacks one\(\), two\(\) of the protocol Wanted$"
    ):
        require_members("method 'm:Half'", Half, Wanted)
    require_members("", type("Whole", (), {"one": lambda self: 1, "two": lambda self, more=0: 2}), Wanted)
    with pytest.raises(InputError, match=r"^m: Other.two must take \(\) \(missing a required argument: 'more'\)$"):
        require_members("m", type("Other", (), {"one": lambda self: 1, "two": lambda self, more: 2}), Wanted)


def test_what_a_call_raises_becomes_one_line_but_ctrl_c() -> None:
    def fails(error: BaseException) -> int:
        raise error

    with pytest.raises(InputError, match=r"^it failed \(SystemExit: 3 in .*test_user_code.py, line \d+\)$"):
        called("it", lambda: fails(SystemExit(3)))
    with pytest.raises(InputError, match="^as it is$"):
        called("it", lambda: fails(InputError("as it is")))
    with pytest.raises(KeyboardInterrupt):
        called("it", lambda: fails(KeyboardInterrupt()))
    assert called("it", lambda: 3) == 3
    assert explained(ValueError("much " * 100)) == f"ValueError: {'much ' * 40}"


def test_a_file_beside_it_takes_the_place_of_no_library(tmp_path: Path) -> None:
    for name in ("own_beside", "safetensors"):
        (tmp_path / f"{name}.py").write_text("")
    before = list(sys.path)
    with user_code._on_path(str(tmp_path)):
        specs = [PathFinder.find_spec(name) for name in ("own_beside", "safetensors")]
    assert [each is not None and str(each.origin).startswith(str(tmp_path)) for each in specs] == [True, False]
    assert sys.path == before


class TwoArguments(Exception):
    """No other process can read it: its constructor takes more than the text."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests stand for a module that the user has named."""
    monkeypatch.setitem(user_code._modules, "tests:Own", __name__)


def _raised(function: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught, explaining():
        function()
    return caught.value


def _fails_in_a_library() -> object:
    return torch.zeros(2, 3) @ torch.zeros(2, 3)


def _exits() -> object:
    raise SystemExit(3)


def _interrupts() -> object:
    raise KeyboardInterrupt


def _cannot_read() -> object:
    raise OSError(5, "Input/output error")


def _wrong() -> object:
    raise InputError("two\nlines")


def _sends_badly() -> object:
    raise TwoArguments(1, 2)


def _caused_badly() -> object:
    raise ValueError("no") from TwoArguments(1, 2)


def test_the_place_of_an_error_is_in_the_code_that_called_a_library() -> None:
    line = _fails_in_a_library.__code__.co_firstlineno + 1
    assert explained(_raised(_fails_in_a_library)).endswith(
        f"shapes cannot be multiplied (2x3 and 2x3) in {__file__}, line {line}"
    )
    with pytest.raises(InputError, match=r"^it failed \(TypeError: 'NoneType' object is not callable\)$"):
        called("it", None)  # type: ignore[arg-type]  # no line of ours is the user's fault


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (
            _fails_in_a_library,
            RuntimeError,
            "RuntimeError: mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
        ),
        (_wrong, InputError, "two lines"),
        (_sends_badly, RuntimeError, "TwoArguments: 1 and 2"),
        (_caused_badly, RuntimeError, "ValueError: no"),
        (_exits, RuntimeError, "SystemExit: 3"),
        (_interrupts, RuntimeError, "KeyboardInterrupt"),
        (_cannot_read, RuntimeError, "OSError: [Errno 5] Input/output error"),
    ],
)
def test_a_traceback_ends_with_the_place_in_the_users_code(
    function: Callable[[], object], kind: type[BaseException], said: str, named: None
) -> None:
    error = _raised(function)
    last = traceback.format_exception(error)[-1].strip()
    assert type(error) is kind
    assert last == f"{said} in {__file__}, line {function.__code__.co_firstlineno + 1}"
    assert f"in {function.__name__}\n" in "".join(traceback.format_exception(error))
    pickle.loads(pickle.dumps(error))
    assert error.__cause__ is None, "Ray copies causes"


def test_an_error_of_our_own_writing_stays_one_of_the_storage(named: None) -> None:
    def called_by(package: str, function: Any) -> Any:
        namespace = {"__name__": package, "function": function}
        exec("def call(): return function()", namespace)
        return namespace["call"]

    def full() -> None:
        raise OSError(28, "No space left on device")

    written = called_by("trainables.state", called_by("filelock", partial(os.stat, "/no/such/file")))
    assert type(_raised(written)) is FileNotFoundError
    assert type(_raised(called_by("tests.own", written))) is FileNotFoundError
    assert type(_raised(called_by("trainables.state", full))) is RuntimeError  # code of the user that ours calls


def test_the_end_that_a_signal_asks_for_is_left_as_it_is() -> None:
    namespace = {"__name__": "ray._private.worker"}
    exec("import sys\ndef ended(): sys.exit(1)\ndef interrupted(): raise KeyboardInterrupt", namespace)
    assert type(_raised(namespace["ended"])) is SystemExit  # type: ignore[arg-type]
    assert type(_raised(namespace["interrupted"])) is KeyboardInterrupt  # type: ignore[arg-type]
