"""Open a tracking store: the SQLite file in the storage root, or a team's tracking server."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from checked_input.ranges import text_fault
from checked_input.text_files import shown
from checked_input.whole_files import replacing
from tausearch.runs import Storage
from tausearch.tracking.secrets import (
    has_at_in_password,
    hide_secrets,
    keep_secrets,
    names_a_place,
    with_secrets,
    without_secrets,
)
from trainables.errors import InputError

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
_LONGEST_NAME = 250  # characters; the databases of older servers take 256
_SHORTER = {
    "Connection refused": "no server answers there",
    "timed out": "no answer in time",
    "Name or service not known": "there is no such host",
    "Temporary failure in name resolution": "there is no such host",
}


def checked_uri(uri: str | None) -> str | None:
    """Return a tracking URI that MLflow can write to, without its password; None for the default store.

    The password is kept in this process alone, and a line on stderr says so. The path of an SQLite file becomes
    absolute, because a run may be continued in another working folder.

    Raises:
        InputError: If the URI is empty, has a scheme that is not supported or an `@` in a password, or names no server,
            or an SQLite file that cannot be made. A server may be away for a while, so it is not asked.
    """
    if uri is None:
        return None
    scheme = uri.partition("://")[0].partition("+")[0]
    if "://" not in uri or scheme not in _SCHEMES or text_fault(uri):
        raise InputError(
            f"--tracking-uri must start with one of {', '.join(f'{s}://' for s in _SCHEMES)},"
            f" got {shown(without_secrets(uri))}"
        )
    if not names_a_place(uri):  # the text is not shown: what of it is a password is not known
        raise InputError(
            f"--tracking-uri {scheme}://...: must be {scheme}://HOST[:PORT][/PATH], with USER:PASSWORD@ before the host"
            " if there is a user; an address of a browser ends before its # or ?; in user, password and path write"
            " / ? # @ [ ] as %2F %3F %23 %40 %5B %5D"
        )
    if has_at_in_password(uri):
        raise InputError(f"--tracking-uri {without_secrets(uri)}: write an @ of the password as %40")
    if scheme == "sqlite":
        uri = _absolute(uri)
    return keep_secrets(uri)


def _absolute(uri: str) -> str:
    """Return the URI of an SQLite file with an absolute path; refuse one that names no file, or that cannot be made."""
    named = f"--tracking-uri {shown(without_secrets(uri))}"
    scheme, _, rest = uri.partition("://")
    path, mark, options = rest.partition("?")
    if not path.startswith("/") or path in ("/", "/:memory:"):
        raise InputError(f"{named}: names no file; must be sqlite:///FILE or sqlite:////FOLDER/FILE")
    if path.startswith("/file:"):  # a URI of SQLite's own
        return uri
    file = Path(os.path.expanduser(path[1:])).absolute()
    _require_place(file, named)
    return f"{scheme}:///{file}{mark}{options}"


def _require_place(file: Path, named: str) -> None:
    """Refuse a folder, and a file in a folder that is not there and cannot be made; MLflow makes one that can."""
    if os.path.isdir(file):  # False for a name that is too long
        raise InputError(f"{named}: {file} is a folder; name a file in it")
    there = next((each for each in (file, *file.parents) if os.path.lexists(each)), file)
    if there != file and not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"{named}: {file.name} cannot be made in {file.parent}, because {there} is no writable folder")


def reason(error: Exception) -> str:
    """Return an error of MLflow in a few words, without passwords."""
    line = hide_secrets((str(error).strip().splitlines() or [type(error).__name__])[0])
    return next((shorter for sign, shorter in _SHORTER.items() if sign in line), line)


def tracked_name(benchmark: str) -> str:
    """Return the name of a benchmark in MLflow: a long one, with the names of classes, is cut and gets a digest."""
    if len(benchmark) <= _LONGEST_NAME:
        return benchmark
    return f"{benchmark[: _LONGEST_NAME - 13]}-{hashlib.sha256(benchmark.encode()).hexdigest()[:12]}"


def open_store(storage: Storage, uri: str, benchmark: str) -> tuple[Any, str]:
    """Open a tracking store; returns a `MlflowClient` and the id of the experiment that is named after a benchmark."""
    # An absent server is noticed within seconds. MLflow must not repeat requests, which could make a run twice: the
    # caller tries again, after it has looked up what has arrived.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
    from mlflow import MlflowClient  # takes seconds to import

    with store_lock(storage):  # two searches must not create the schema at once
        if uri == storage.mlflow_uri:
            _create_schema(storage)
            _relocate_artifacts(storage)
        client = MlflowClient(tracking_uri=with_secrets(uri))
        name = tracked_name(benchmark)
        found = client.get_experiment_by_name(name)
        if found is not None:
            return client, str(found.experiment_id)
        # A server has its own place for artifacts. Without a server MLflow would put them into the working folder.
        location = None if uri.startswith(("http://", "https://")) else storage.mlflow_artifacts.as_uri()
        return client, str(client.create_experiment(name, artifact_location=location))


def search_runs(client: Any, experiment: str, query: str) -> list[Any]:
    """Return all runs of an experiment that match a query, from all pages of the answer."""
    found, token = [], None
    while True:
        page = client.search_runs([experiment], query, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def store_lock(storage: Storage) -> FileLock:
    """Return the lock of a storage root for requests that MLflow cannot take from two processes at once."""
    return FileLock(storage.root / "mlflow.lock")


def _relocate_artifacts(storage: Storage) -> None:
    """Correct the paths of artifacts: MLflow stores absolute paths, and a storage root may have been moved."""
    here = storage.mlflow_artifacts.as_uri()
    with closing(sqlite3.connect(storage.mlflow_file, timeout=60)) as store, store:
        # 0.1.0 corrected experiments and runs alone: where a version's model lies tells the place before, too.
        before = "substr(storage_location, 1, instr(storage_location, substr(artifact_uri, :rest)) - 1)"
        versions = f"SELECT {before} FROM model_versions JOIN runs ON run_uuid = run_id"
        for query in ("SELECT artifact_location FROM experiments", versions):  # the second compares with corrected runs
            found = store.execute(query, {"rest": len(here) + 1}).fetchall()
            # The experiment that MLflow itself makes has another place.
            name = f"/{storage.mlflow_artifacts.name}"
            for there in {place for (place,) in found if place and place.endswith(name) and place != here}:
                for table, column in _PLACES:
                    change = f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                    which = f"WHERE substr({column} || '/', 1, ?) = ? || '/'"
                    store.execute(f"{change} {which}", (here, len(there) + 1, len(there) + 1, there))


def _create_schema(storage: Storage) -> None:
    """Make the default tracking store, whole or not at all: MLflow cannot open half a schema.

    MLflow's migrations take two seconds, so an empty store of this version is kept in the user's cache folder.
    """
    from mlflow import MlflowClient  # takes seconds to import
    from mlflow.version import VERSION

    path = storage.mlflow_file
    if path.exists():
        return
    empty = user_cache_path("tausearch") / f"mlflow-{VERSION}.db"
    for left in path.parent.glob(f"{path.name}.*.tmp"):  # of processes that were killed; this one has the lock
        left.unlink()
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.touch()  # with the mode of the umask; SQLite's own files have 0644 at most
    try:
        shutil.copyfile(empty, unfinished)
        _set_default_place(unfinished, storage)
    except (OSError, sqlite3.DatabaseError):  # none is kept, or it cannot be read, or it is damaged
        unfinished.write_bytes(b"")
        MlflowClient(tracking_uri=f"sqlite:///{unfinished}").search_experiments(max_results=1)
        _keep(unfinished, empty)
        _set_default_place(unfinished, storage)
    os.replace(unfinished, path)


def _set_default_place(store: Path, storage: Storage) -> None:
    """Correct the place of MLflow's own experiment, else that of where the empty store was made."""
    with closing(sqlite3.connect(store)) as opened, opened:
        opened.execute("UPDATE experiments SET artifact_location = ?", (storage.mlflow_artifacts.as_uri(),))


def _keep(store: Path, empty: Path) -> None:
    """Keep an empty store for the next storage root, if the folder can be written."""
    with suppress(OSError):
        empty.parent.mkdir(parents=True, exist_ok=True)
        with replacing(empty) as half:
            shutil.copyfile(store, half)
