"""A password in a tracking URI is shown nowhere and stored nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import unquote

import pytest
from sqlalchemy.engine import make_url

from tausearch.api import SearchRequest, plan_search, sync_run
from tausearch.runs import Record, SearchSpec, Storage, read_spec
from tausearch.tracking import MlflowCallback, checked_uri, mlflow_process, mlflow_store, reason, secrets
from tausearch.tracking.mlflow_process import MlflowProcess
from tests.support.command_line import Ask
from tests.support.runs.trials import make_trial, search_spec
from trainables.errors import InputError

SECRET = "s3cr%40t"
URIS = {
    f"http://me:{SECRET}@127.0.0.1:9": "http://127.0.0.1:9",
    f"https://{SECRET}@server/path": "https://server/path",
    f"postgresql://me:{SECRET}@host:5/db": "postgresql://me@host:5/db",
    f"mysql+pymysql://me:{SECRET}@host/db?ssl=1": "mysql+pymysql://me@host/db?ssl=1",
    f"postgresql://host/db?user=me&password={SECRET}": "postgresql://host/db?user=me",
    f"postgresql://host:5/db?user=a@b&password={SECRET}": "postgresql://host:5/db?user=a@b",
}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("MLFLOW_TRACKING_URI", *secrets.LOGIN):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setattr(secrets, "_uris_with_secrets", {})
    monkeypatch.setattr(secrets, "_secrets", set())
    monkeypatch.setattr(secrets, "_logged_in", {})
    yield


@pytest.mark.parametrize("uri", URIS)
def test_a_password_is_kept_in_the_process_alone(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked_uri(uri) == URIS[uri]
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "is not stored" in err and "s3cr" not in err
    assert ("MLFLOW_TRACKING_USERNAME and " in err) == uri.startswith("http")
    opened = secrets.with_secrets(URIS[uri])
    if uri.startswith("http"):
        assert opened == URIS[uri] and "s3cr@t" in (
            os.environ["MLFLOW_TRACKING_PASSWORD"] + os.environ["MLFLOW_TRACKING_USERNAME"]
        )
    else:
        assert opened == uri
    for secret in (SECRET, "s3cr@t"):
        assert "s3cr" not in reason(RuntimeError(f"cannot open {uri} with {secret}\nsecond line"))


def test_a_database_is_opened_with_the_password_that_its_run_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = f"postgresql://me:{SECRET}@host:5/db"
    uri, asked = checked_uri(given), list[str]()
    assert uri is not None
    monkeypatch.setattr("mlflow.MlflowClient", lambda tracking_uri: (asked.append(tracking_uri), MagicMock())[1])
    mlflow_store.open_store(Storage(tmp_path), uri, "digits")
    assert asked == [given]


@pytest.mark.parametrize(
    "uri", [*URIS.values(), "sqlite:////b c?d.db", "http://[::1]:5000", "http://host:1/a%40b", "mysql://h/b?c=d:e@f"]
)
def test_a_uri_without_one_stays_as_it_is(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked_uri(uri) == uri == secrets.with_secrets(uri)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("password", ["p#w", "p?w", "9/w", "[p", "9#?/[w]%40"])
def test_a_password_of_a_database_may_have_the_signs_that_divide_a_uri(password: str) -> None:
    given, stored = f"postgresql://me:{password}@host:5/db?a=1&pwd=s3cr", "postgresql://me@host:5/db?a=1"
    assert make_url(given).password == unquote(password), "so MLflow reads it"
    assert checked_uri(given) == stored and secrets.with_secrets(stored) == given
    assert reason(RuntimeError(f"refused {password}, {unquote(password)} and s3cr")) == "refused ***, *** and ***"


@pytest.mark.parametrize(
    "key", ["password", "passwd", "pwd", "sslpassword", "token", "access_token", "Password", "pass%77ord"]
)
def test_a_password_among_the_options_of_a_database(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked_uri(f"postgresql://host/db?a=1&{key}={SECRET}&b=2") == "postgresql://host/db?a=1&b=2"
    assert "take it from MLFLOW_TRACKING_URI\n" in capsys.readouterr().err
    assert reason(RuntimeError(f"refused {SECRET}")) == "refused ***"


def test_a_server_takes_user_and_password_from_two_variables(capsys: pytest.CaptureFixture[str]) -> None:
    assert checked_uri("https://me@x:s3@cr@host") == "https://host"  # the last @ ends the password
    assert "from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD\n" in capsys.readouterr().err
    assert secrets.with_secrets("https://host") == "https://host"
    assert login() == ("me@x", "s3@cr")


def login() -> tuple[str | None, ...]:
    """Return the user and the password that MLflow sends."""
    return tuple(map(os.environ.get, secrets.LOGIN))


def test_no_server_gets_the_login_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    known, bare = checked_uri("http://alice:a@one"), checked_uri("http://two")
    other = checked_uri("http://bob:b@three")
    assert known and bare and other
    for uri in (known, known, other):  # two runs of one server
        secrets.with_secrets(uri)
    assert login() == ("bob", "b")
    secrets.with_secrets(bare)
    assert login() == (None, None)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "mine")
    for uri in (known, bare):
        secrets.with_secrets(uri)
    assert login() == ("mine", None), "what the user has set is theirs"
    secrets.with_secrets(known)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "new")
    secrets.with_secrets(bare)
    assert login() == ("mine", "new")


def test_each_server_has_a_process_that_knows_its_login_alone(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[object, list[tuple[str | None, ...]]] = {}

    class Remote:
        def __init__(self, process: object) -> None:
            self.process = process

        def ask(self, name: str, *arguments: Any) -> None:
            if name == "take_over":
                told.setdefault(self.process, []).append(tuple(map(arguments[0].get, secrets.LOGIN)))

    monkeypatch.setattr(MlflowProcess, "_start", lambda self: None)
    monkeypatch.setattr(MlflowProcess, "_connection", lambda self: self)
    monkeypatch.setattr(mlflow_process, "RemoteRun", Remote)
    servers = [checked_uri(f"http://{server}") or "" for server in ("alice:a@one", "two", "bob:b@three")]
    callback = MlflowCallback()
    for uri in (*servers, *servers):
        callback.process(uri).open(spec, Storage(tmp_path), uri)
    assert list(told.values()) == [[("alice", "a")] * 2, [(None, None)] * 2, [("bob", "b")] * 2]


def test_a_password_that_was_given_goes_over_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:other@host/db")
    given = f"postgresql://me:{SECRET}@host/db"
    assert secrets.with_secrets(checked_uri(given) or "") == given
    assert secrets.with_secrets("postgresql://me:own@host/db") == "postgresql://me:own@host/db"


def test_a_continued_run_finds_it_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://me:{SECRET}@host/db")
    assert secrets.with_secrets("postgresql://me@host/db") == f"postgresql://me:{SECRET}@host/db"
    assert secrets.with_secrets("postgresql://me@other/db") == "postgresql://me@other/db"
    assert "s3cr" not in reason(RuntimeError(f"password {SECRET}"))


def test_a_password_that_begins_another_leaves_no_rest_of_it() -> None:
    for password in ("s3cr", "s3cret"):
        checked_uri(f"postgresql://me:{password}@host/db")
    assert reason(RuntimeError("refused s3cret and s3cr for me")) == "refused *** and *** for me"


def test_a_reason_is_found_inside_a_line() -> None:
    assert reason(RuntimeError("HTTP: Connection refused (111)")) == "no server answers there"
    assert reason(RuntimeError("first\nConnection refused")) == "first"


@pytest.mark.parametrize("password", ["s3@cr", "@s3cr", "s3cr@"])
def test_an_at_in_the_password_of_a_database_is_refused(password: str) -> None:
    with pytest.raises(InputError) as error:
        checked_uri(f"postgresql+psycopg2://me:{password}@host/db")
    assert str(error.value).endswith("me@host/db: write an @ of the password as %40") and "s3" not in str(error.value)
    for allowed in ("me@server:s3%40cr@host/db", "me@host/db?options=a@b"):
        assert secrets.with_secrets(checked_uri(f"postgresql://{allowed}") or "") == f"postgresql://{allowed}"


@pytest.mark.parametrize("uri", [f"ftp://me:{SECRET}@host", f"me:{SECRET}@host", "", "http:", "http://a\nb"])
def test_what_is_refused_does_not_show_it(uri: str) -> None:
    with pytest.raises(InputError, match="--tracking-uri must start with one of") as error:
        checked_uri(uri)
    if "://" in uri:
        assert "s3cr" not in str(error.value)


@pytest.mark.usefixtures("no_insight")
def test_nothing_that_a_run_leaves_has_it(tmp_path: Path, ask: Ask) -> None:
    uri = next(iter(URIS))
    plan = plan_search(SearchRequest("digits", "ita-lora", storage=tmp_path / "p", tracking_uri=uri))
    assert plan.spec.tracking_uri == URIS[uri] and "s3cr" not in plan.spec.model_dump_json()
    storage = Storage(tmp_path / "runs")
    directory, spec = storage.run("s"), search_spec().model_copy(update={"name": "s"})
    directory.path.mkdir(parents=True)
    spec.save(directory)
    Record(directory.record).write(make_trial(0, value=70.0))
    with pytest.raises(InputError, match="no server answers there") as error:
        sync_run(storage, directory, uri)
    code, out, err = ask("runs", "sync", "s", "--storage", str(storage.root), "--tracking-uri", uri)
    assert code == 2 and "s3cr" not in out + err + str(error.value)
    own = f"sqlite:///{tmp_path}/own.db?password={SECRET}"
    assert sync_run(storage, directory, own).tracking_uri == f"sqlite:///{tmp_path}/own.db"
    assert read_spec(directory).tracking_uri == f"sqlite:///{tmp_path}/own.db"
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) > 3
    for path in left:
        assert b"s3cr" not in path.read_bytes(), path


@pytest.mark.parametrize(
    "uri",
    [
        *(f"https://me:s3cr{sign}et@host:5000" for sign in "#/?["),
        "https://s3cr#et@host",
        "http://s3cr/et@host",
        "http://me:1/s3cr@host",
        "postgresql://me@ho[st/s3cr",
        "http://",
        "https:///s3cr",
        "http://s3cr:99999",
        "http://s3cr:abc",
        "http://s3cr host",
        "http://localhost:5000/#/experiments/s3cr",
        "http://host/?token=s3cr",
        "http+unix://s3cr",
    ],
)
def test_a_uri_that_cannot_be_taken_apart_is_refused_without_its_text(uri: str) -> None:
    with pytest.raises(
        InputError,
        match=r"^--tracking-uri \w+://\.\.\.: must be \w+://HOST\[:PORT\]\[/PATH\], with .* ends before its # or \?; ",
    ) as error:
        checked_uri(uri)
    assert "s3" not in str(error.value)


def test_an_sqlite_file_that_cannot_be_made_is_refused_and_a_folder_that_mlflow_makes_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"m.db cannot be made in {tmp_path}/file/a, because {tmp_path}/file is no"):
        checked_uri(f"sqlite:///{tmp_path}/file/a/m.db")
    with pytest.raises(InputError, match=f"{tmp_path} is a folder; name a file in it"):
        checked_uri(f"sqlite:///{tmp_path}")
    for place in ("team.db", "", "/", "/:memory:", "/?timeout=5"):
        with pytest.raises(InputError, match="names no file; must be sqlite:///FILE or sqlite:////FOLDER/FILE"):
            checked_uri(f"sqlite://{place}")
    for place in (f"{tmp_path}/new/m.db", f"{tmp_path}/m.db?timeout=5", "file:m.db?uri=true"):
        assert checked_uri(f"sqlite:///{place}") == f"sqlite:///{place}"
    monkeypatch.chdir(tmp_path)  # a run is continued in other folders
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("m.db", "~/m.db"):
        assert checked_uri(f"sqlite:///{place}?timeout=5") == f"sqlite:///{tmp_path}/m.db?timeout=5"
