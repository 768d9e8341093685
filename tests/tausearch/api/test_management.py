"""Runs by their names: deleted, renamed, noted, trained and exported; and what is said where there is none."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from filelock import FileLock

from checked_input.text_files import LARGEST
from tausearch.api import delete_driven, delete_run, rename_run
from tausearch.cli import main
from tausearch.execution import bytes_of
from tausearch.models import CompositionResult, read_compositions
from tausearch.models.descriptions import read_description
from tausearch.models.removal.remnants import remaining_after_retraining
from tausearch.models.removal.report import RemovalReport
from tausearch.reports.html.pairs import cell_of
from tausearch.runs import (
    FinalSpec,
    KnownPoint,
    Plan,
    Retraining,
    RunDirectory,
    SearchSpec,
    Storage,
    changed_fields,
    choice_remark,
    finals_of,
    read_spec,
    read_status,
)
from tausearch.studies import load_best
from tests.support.command_line import Command
from tests.support.runs.built_runs import make_run
from tests.support.runs.composable_runs import make_composable_run
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial, search_spec
from trainables.errors import InputError

Patch = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]


def add_search(storage: Storage, name: str, *values: float) -> SearchSpec:
    spec = search_spec().model_copy(update={"name": name, "id": name})
    make_run(storage, spec, [make_trial(number, value=value) for number, value in enumerate(values)])
    return spec


def _compose(directory: RunDirectory, *sources: str, removal: RemovalReport | None = None) -> None:
    about: dict[str, Any] = {"label": "l", "benchmark": "digits", "weights": (1.0, 1.0), "removal": removal}
    CompositionResult(**about, runs=sources, seeds=(0,), accuracies=((60.0, 40.0),)).save(directory)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    made = Storage(tmp_path / "runs")
    made.root.mkdir()
    add_search(made, "search", 50.0, 70.0)
    add_search(made, "other-search", 80.0)
    make_composable_run(made, "final")
    return made


@pytest.fixture
def shown(storage: Storage, command: Command) -> Command:
    return lambda *words, **expected: command(*words, "--storage", storage.root, **expected)


class TestDelete:
    def test_it_asks_unless_told_not_to(self, storage: Storage, monkeypatch: Patch, shown: Command) -> None:
        _, err = shown("runs", "delete", "search", code=2)
        assert "--yes deletes without asking" in err and storage.run_exists("search")
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        for answer, stays in ((False, True), (True, False)):
            monkeypatch.setattr("typer.confirm", lambda _, answer=answer: answer)
            shown("runs", "delete", "search")
            assert storage.run_exists("search") == stays

    def test_final_runs_that_stay_are_named(self, storage: Storage, monkeypatch: Patch, shown: Command) -> None:
        spec = read_spec(storage.run("final"))
        spec.model_copy(update={"source": "search"}).save(storage.run("final"))
        asked: list[str] = []
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("typer.confirm", lambda text: asked.append(text) or True)
        out, _ = shown("runs", "delete", "other-search", "search")
        assert "stay" not in asked[0] and asked[1].endswith(" (final runs that stay without their search: final)?")
        assert out.endswith(" (final runs that stay without their search: final)\n")

    def test_all_of_it_goes_and_nothing_else(self, storage: Storage, shown: Command) -> None:
        spec = read_spec(storage.run("final"))
        spec.model_copy(update={"source": "search"}).save(storage.run("final"))
        out, _ = shown("runs", "delete", "search", "final", "--yes")
        assert out.count("deleted ") == 2 and "stay" not in out
        assert [path.name for path in storage.root.iterdir()] == ["other-search"]

    def test_what_an_earlier_one_left_half_deleted_goes_with_it(self, storage: Storage) -> None:
        half = storage.root / ".search.deleted"
        half.mkdir()
        (half / "run.yaml").write_text("half")
        delete_run(storage.run("search"))
        assert sorted(path.name for path in storage.root.iterdir()) == ["final", "other-search"]

    def test_after_an_interruption_the_same_command_deletes_the_rest(
        self, storage: Storage, monkeypatch: Patch, shown: Command
    ) -> None:
        storage.campaign("table").path.mkdir(parents=True)
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", Mock(side_effect=[None, KeyboardInterrupt] * 3))
            for driven in (storage.run("search"), storage.run("other-search"), storage.campaign("table")):
                with pytest.raises(KeyboardInterrupt):
                    delete_driven(driven, "run")
        assert not storage.run_exists("search")
        assert shown("runs", "delete", "search", "final", "--yes")[0].startswith("deleted the rest of search\ndeleted")
        assert shown("runs", "delete", "other-search") == ("deleted the rest of other-search\n", "")
        assert shown("campaign", "delete", "table")[0] == "deleted the rest of campaign table\n"
        assert [path.name for path in storage.root.rglob(".*")] == []
        assert not storage.run_exists("final")

    def test_how_large_it_is_counts_all_files_that_stay(self, storage: Storage, monkeypatch: Patch) -> None:
        directory, walk = storage.run("final"), os.walk
        sizes = [os.path.getsize(Path(at, name)) for at, _, names in walk(directory.path) for name in names]
        gone = directory.path / "gone"

        def listed_first(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
            gone.write_text("of another process")
            for each in walk(folder):
                gone.unlink(missing_ok=True)
                yield each

        monkeypatch.setattr(os, "walk", listed_first)
        assert bytes_of(directory.path) == sum(sizes) > 1000

    def test_none_goes_where_one_is_not_there(self, storage: Storage, shown: Command) -> None:
        _, err = shown("runs", "delete", "search", "searchh", "--yes", code=2)
        assert "no run named 'searchh'" in err and "there are: search, other-search" in err
        assert storage.run_exists("search")

    def test_a_run_that_is_driven_stays(self, storage: Storage) -> None:
        with FileLock(storage.run("search").lock_file), pytest.raises(InputError, match="driven by another process"):
            delete_run(storage.run("search"))
        assert storage.run_exists("search")

    def test_a_link_is_refused_before_anything_is_moved(self, storage: Storage, tmp_path: Path) -> None:
        storage.run("search").path.rename(tmp_path / "elsewhere")
        storage.run("search").path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InputError, match="search: is a link; delete what it leads to"):
            delete_run(storage.run("search"))
        assert read_status(storage.run("search")).spec.name == "search"

    @pytest.mark.parametrize("lacks", [os.R_OK, os.W_OK, os.X_OK, None])
    def test_nothing_is_deleted_of_a_run_with_a_folder_that_this_user_cannot_empty(
        self, lacks: int | None, storage: Storage, monkeypatch: Patch
    ) -> None:
        closed, scandir = storage.run("final").artifacts, os.scandir

        def listed(path: str) -> Any:
            if Path(path) == closed and lacks is None:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr("os.access", lambda path, rights: Path(path) != closed or not rights & (lacks or 0))
        monkeypatch.setattr("os.scandir", listed)
        with pytest.raises(InputError, match="final/task_vectors in it cannot be changed; nothing was deleted"):
            delete_run(storage.run("final"))
        assert read_spec(storage.run("final")).name == "final" and next(storage.run("final").record.iterdir())

    def test_a_run_whose_own_folder_cannot_be_emptied_is_not_said_to_lie_in_itself(
        self, storage: Storage, monkeypatch: Patch
    ) -> None:
        path = storage.run("final").path
        monkeypatch.setattr("os.access", lambda each, _: Path(each) != path)
        with pytest.raises(InputError, match="run directory [^ ]*/final: cannot be changed; nothing was deleted"):
            delete_run(storage.run("final"))

    def test_one_that_goes_while_somebody_looks_is_no_fault(self, storage: Storage) -> None:
        def read(directory: RunDirectory) -> str:
            if directory.name == "search":
                delete_run(directory)
            return read_spec(directory).name

        assert storage.read_each(read) == (["other-search", "final"], [])


class TestRename:
    def test_a_name_that_cannot_be_written_leaves_the_run_as_it_was(self, storage: Storage, monkeypatch: Patch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(SearchSpec, "save", full)
        with pytest.raises(InputError, match=r"search: cannot be renamed \(No space left on device\)"):
            rename_run(storage, "search", "tuned")
        assert read_spec(storage.run("search")).name == "search" and not storage.run("tuned").path.exists()

    def test_a_run_that_cannot_be_written_is_said_to_have_the_old_name(
        self, storage: Storage, monkeypatch: Patch, capsys: Captured
    ) -> None:
        def denied(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(FinalSpec, "save", denied)
        assert rename_run(storage, "search", "tuned") == []
        assert "final: cannot be written (Permission denied); it still names 'search'\n" in capsys.readouterr().err

    def test_every_place_says_the_new_name(self, storage: Storage) -> None:
        search = storage.run("search")
        search.front.mkdir()
        load_best(search.best_file).save(search.front / "trial-00001.yaml")
        assert rename_run(storage, "search", "tuned") == ["final"]  # whose source it was
        assert not storage.run("search").path.exists() and read_status(storage.run("tuned")).spec.name == "tuned"
        best = load_best(storage.run("tuned").best_file)
        assert best.selection is not None and (best.selection.search, best.selection.value) == ("tuned", 70.0)
        assert load_best(storage.run("tuned").front / "trial-00001.yaml") == best
        assert read_spec(storage.run("final")).source == "tuned"
        assert json.loads(storage.run("final").results_file.read_text(encoding="utf-8"))["source"] == "tuned"
        record = next(storage.run("final").record.iterdir())
        whole = record.read_bytes()
        record.write_bytes(b"damaged")
        assert rename_run(storage, "tuned", "tuned-again") == ["final"]
        assert read_spec(storage.run("final")).source == "tuned-again"
        record.write_bytes(whole)
        before = read_spec(storage.run("final")).id
        assert rename_run(storage, "final", "tested") == []
        directory = storage.run("tested")
        assert json.loads(directory.results_file.read_text(encoding="utf-8"))["name"] == "tested"
        assert read_description(directory.artifacts).runs == ("tested",) and read_spec(directory).id == before

    @pytest.mark.parametrize(("chosen_by", "is_its_search"), [("", True), ("search", True), ("elsewhere", False)])
    def test_a_search_of_the_same_name_in_another_storage_is_another_one(
        self, chosen_by: str, is_its_search: bool, storage: Storage
    ) -> None:
        spec = make_final_run(storage, "later", [50.0], benchmark="digits")
        spec = spec.model_copy(update={"source": "search", "source_id": chosen_by})
        spec.save(directory := storage.run("later"))
        assert (cell_of(storage, "later").search is not None) == is_its_search
        assert choice_remark(directory, spec) == "does not train what search 'search' chooses now" * is_its_search
        assert ("later" in rename_run(storage, "search", "tuned")) == is_its_search
        renamed = read_spec(directory)
        assert isinstance(renamed, FinalSpec) and renamed.source == ("tuned" if is_its_search else "search")
        named = [final.name for final in finals_of(storage, read_spec(storage.run("tuned")))]
        assert named == ["final", *["later"] * is_its_search]

    def test_a_final_run_goes_on_with_its_search_that_was_deleted_and_made_again(self, storage: Storage) -> None:
        spec = read_spec(storage.run("final"))
        assert isinstance(spec, FinalSpec)
        spec.model_copy(update={"source": "search", "source_id": "deleted"}).save(storage.run("final"))
        again = spec.model_copy(update={"source": "search", "source_id": read_spec(storage.run("search")).id})
        with Plan(again, storage, named=True, resume_if_exists=True).open_locked():
            pass
        assert "final" in [final.name for final in finals_of(storage, read_spec(storage.run("search")))]

    def test_a_warm_start_says_the_new_name_and_goes_on_by_the_old_one(self, storage: Storage) -> None:
        other = storage.run("other-search")
        origins = ["search, trial 1 on digits", "other-search, trial 0 on digits", "search-2, trial 1 on digits"]
        points = tuple(KnownPoint(origin=each, point={"lr": 0.1}) for each in origins)
        spec = read_spec(other).model_copy(update={"warm_start": points, "warm_start_from": ("search",)})
        spec.save(other)
        assert rename_run(storage, "search", "tuned") == ["other-search", "final"]
        found = read_spec(other)
        assert isinstance(found, SearchSpec) and found.warm_start_from == ("search",)
        assert [each.origin for each in found.warm_start] == ["tuned, trial 1 on digits", *origins[1:]]
        assert changed_fields(spec, found) == []

    def test_compositions_that_another_run_keeps_say_the_new_name(self, storage: Storage, capsys: Captured) -> None:
        for name in ("second", "third"):
            make_final_run(storage, name, [50.0], benchmark="digits")
        keeps_it, keeps_another = storage.run("final"), storage.run("third")
        _compose(keeps_it, "final:1", "second:2")
        _compose(keeps_another, "third:1", "second-2:2")
        before = read_spec(keeps_it)
        assert rename_run(storage, "second", "new") == ["final"] and read_spec(keeps_it) == before
        assert json.loads((keeps_it.compositions / "l.json").read_text())["runs"] == ["final:1", "new:2"]
        assert [each.runs for each in read_compositions(keeps_another)] == [("third:1", "second-2:2")]
        (keeps_it.compositions / "l.json").write_text("damaged")
        _compose(keeps_another, "third:1", "new:2")
        assert rename_run(storage, "new", "newer") == ["third"] and "l.json: cannot be read" in capsys.readouterr().err
        with FileLock(keeps_another.lock_file), pytest.raises(InputError, match="'newer': is named by third, driven"):
            rename_run(storage, "newer", "newest")
        assert [each.runs for each in read_compositions(keeps_another)] == [("third:1", "newer:2")]

    def test_what_is_known_of_a_removal_says_the_new_name(self, storage: Storage) -> None:
        again, first = storage.run("again"), storage.run("final")
        spec = make_final_run(storage, "again", [50.0], benchmark="digits")
        retrained = Retraining(run="final", run_id=read_spec(first).id, forgotten=(1,), kept=0)
        spec.model_copy(update={"retrained": retrained}).save(again)
        lines = tuple(remaining_after_retraining(["again", "final", "final-2"]))
        of_two: dict[str, Any] = {"tasks": (1, 2), "classes": (), "before": ((),), "left_out": ()}
        report = RemovalReport(**of_two, remains=lines, retrained="final")
        for directory in (again, first):
            _compose(directory, directory.name, removal=report)
        other = Retraining(run="final", run_id="of a run that was deleted", forgotten=(1,), kept=0)
        make_final_run(storage, "other", [50.0], benchmark="digits").model_copy(update={"retrained": other}).save(
            storage.run("other")
        )
        assert rename_run(storage, "final", "tested") == ["again"]
        found = read_spec(again)
        assert isinstance(found, FinalSpec) and found.retrained == retrained.model_copy(update={"run": "tested"})
        for directory in (again, storage.run("tested")):
            (composition,) = read_compositions(directory)
            assert composition.runs == (directory.name,) and composition.removal is not None
            assert composition.removal.retrained == "tested"
            assert composition.removal.remains == tuple(remaining_after_retraining(["again", "tested", "final-2"]))

    def test_every_run_is_read_once(self, storage: Storage, monkeypatch: Patch) -> None:
        read: list[str] = []
        runs = Storage.runs
        monkeypatch.setattr(Storage, "runs", lambda own: read.append("all") or runs(own))
        assert rename_run(storage, "search", "tuned") == ["final"] and read == ["all"]

    @pytest.mark.parametrize("new", ["final", "cache", "a/b", ".hidden"])
    def test_a_name_that_is_taken_or_none_is_refused(self, new: str, storage: Storage) -> None:
        with pytest.raises(InputError, match="name '"):
            rename_run(storage, "search", new)
        assert storage.run_exists("search") and read_spec(storage.run("search")).name == "search"

    def test_a_folder_that_is_no_run_is_not_replaced(self, storage: Storage) -> None:
        (storage.root / "mine").mkdir()
        with pytest.raises(InputError, match="name 'paper': stands for the paper's choices"):
            rename_run(storage, "search", "paper")
        with pytest.raises(InputError, match="name 'mine': is taken in"):
            rename_run(storage, "search", "mine")

    def test_a_run_of_code_that_is_not_there_is_refused_before_anything_changes(self, storage: Storage) -> None:
        read_spec(storage.run("search")).model_copy(update={"method": "nowhere:Method"}).save(storage.run("search"))
        with pytest.raises(InputError, match="a file names this code, you did not"):
            rename_run(storage, "search", "tuned")
        assert storage.run_exists("search") and not storage.run_exists("tuned")

    def test_a_best_file_need_not_be_there_nor_say_how_it_was_chosen(self, storage: Storage, capsys: Captured) -> None:
        file = storage.run("search").best_file
        load_best(file).model_copy(update={"selection": None}).save(file)
        rename_run(storage, "search", "tuned")
        assert load_best(storage.run("tuned").best_file).selection is None
        storage.run("tuned").best_file.unlink()
        rename_run(storage, "tuned", "tuned-again")
        assert read_spec(storage.run("tuned-again")).name == "tuned-again" and capsys.readouterr().err == ""

    def test_a_run_with_damaged_files_is_renamed_and_they_are_named(self, storage: Storage, capsys: Captured) -> None:
        search = storage.run("search")
        search.front.mkdir()
        load_best(search.best_file).save(search.front / "trial-00001.yaml")
        search.best_file.write_text("damaged")
        assert rename_run(storage, "search", "tuned") == ["final"]
        assert "best.yaml: must be a mapping" in capsys.readouterr().err
        best = load_best(storage.run("tuned").front / "trial-00001.yaml")
        assert best.selection is not None and best.selection.search == "tuned"
        next(storage.run("final").record.iterdir()).write_bytes(b"damaged")
        assert rename_run(storage, "final", "tested") == [] and "is damaged" in capsys.readouterr().err
        assert read_spec(storage.run("tested")).name == "tested"

    def test_a_damaged_final_run_does_not_keep_the_next_from_being_renewed(self, storage: Storage) -> None:
        spec = make_final_run(storage, "later", [50.0], benchmark="digits")
        spec.model_copy(update={"source": "search"}).save(storage.run("later"))
        first, last = rename_run(storage, "search", "tuned")
        next(storage.run(first).record.iterdir()).write_bytes(b"damaged")
        assert rename_run(storage, "tuned", "again") == [first, last]
        assert json.loads(storage.run(last).results_file.read_text(encoding="utf-8"))["source"] == "again"

    def test_the_results_of_a_final_run_that_goes_on_with_more_seeds_stay(self, storage: Storage) -> None:
        final = storage.run("final")
        before = final.results_file.read_bytes()
        read_spec(final).model_copy(update={"seeds": (0, 1, 2), "trials": 3}).save(final)
        assert rename_run(storage, "search", "tuned") == ["final"]
        assert final.results_file.read_bytes() == before

    def test_a_run_that_a_driven_one_names_keeps_its_name(self, storage: Storage) -> None:
        refused = pytest.raises(InputError, match="run 'search': is named by driven, driven now; rename it when")
        for name, source in (("driven", "search"), ("of-another", "other-search"), ("later", "search")):
            spec = make_final_run(storage, name, [50.0], benchmark="digits")
            spec.model_copy(update={"source": source}).save(storage.run(name))
        names = ("final", "driven", "of-another", "later")
        for driven in ("driven", "of-another"):
            with FileLock(storage.run(driven).lock_file), refused if driven == "driven" else nullcontext():
                assert sorted(rename_run(storage, "search", "tuned")) == ["driven", "final", "later"]
            sources = [read_spec(storage.run(name)).source for name in names]
            now = "search" if driven == "driven" else "tuned"
            assert storage.run_exists(now) and sources == [now, now, "other-search", now]

    def test_a_run_that_is_driven_keeps_its_name(self, storage: Storage) -> None:
        with FileLock(storage.run("search").lock_file), pytest.raises(InputError, match="driven by another process"):
            rename_run(storage, "search", "tuned")


class TestStatus:
    def test_a_note_is_shown_and_removed(self, shown: Command) -> None:
        assert "note" not in shown("status")[0]
        assert shown("runs", "note", "search")[0] == "search has no note\n"
        shown("runs", "note", "search", "too  small\na range")
        assert shown("runs", "note", "search")[0] == "too small a range\n"
        for arguments in (["status"], ["status", "search"]):
            assert "too small a range" in shown(*arguments)[0]
        assert json.loads(shown("status", "search", "--format", "json")[0])["note"]
        shown("runs", "note", "search", "")
        assert "note" not in shown("status")[0]

    @pytest.mark.parametrize("text", ["a note", ""])
    def test_a_note_that_cannot_be_written_is_said_as_elsewhere(
        self, text: str, storage: Storage, shown: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        file = storage.run("search").note_file
        monkeypatch.setattr("tausearch.runs.replace_text", full)
        monkeypatch.setattr(Path, "unlink", full)
        _, err = shown("runs", "note", "search", text, code=2)
        assert err == f"tausearch: {file}: cannot be written (No space left on device)\n"

    @pytest.mark.parametrize("kind", ["bytes", "folder", "fifo", "large", "link"])
    def test_a_damaged_note_is_named_and_hides_nothing(self, kind: str, storage: Storage, shown: Command) -> None:
        path = storage.run("search").note_file
        match kind:
            case "bytes":
                path.write_bytes(b"\xff\xfe")
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "large":
                path.write_bytes(b"a" * (LARGEST + 1))
            case "link":
                path.symlink_to(path)
        out, err = shown("status", "search")
        assert ("note.txt" in out) and err == "" and "70" in out
        assert "other-search" in shown("status")[0]

    @pytest.mark.parametrize("text", ["\udcff", "a\x1b[31mb", "a\0", "x" * 5000])
    def test_a_note_that_is_no_line_is_refused(self, text: str, storage: Storage, shown: Command) -> None:
        _, err = shown("runs", "note", "search", text, code=2)
        assert err.startswith("tausearch: note must ") and not storage.run("search").note_file.exists()

    def test_signs_that_are_in_a_note_and_do_nothing_there(self, storage: Storage, shown: Command) -> None:
        storage.run("search").note_file.write_text("a\x1b[31mb")
        assert "\x1b" not in shown("status", "search")[0]

    def test_a_terminal_without_these_letters_gets_others(self, storage: Storage, monkeypatch: Patch) -> None:
        target = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(target, encoding="ascii", write_through=True))
        monkeypatch.setattr("sys.argv", ["tausearch", "status", "--storage", str(storage.root)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code and rb"\xb1" in target.getvalue()  # of mean and deviation


class TestByName:
    def test_export_of_a_search(self, storage: Storage, monkeypatch: Patch, tmp_path: Path, shown: Command) -> None:
        monkeypatch.chdir(tmp_path)
        assert "best file: search.best.yaml" in shown("export", "search")[0]
        assert load_best("search.best.yaml") == load_best(storage.run("search").best_file)
        shown("export", "search")  # in place of itself
        for name in ("notes.yaml", "notes.txt"):
            Path(name).write_text("mine", encoding="utf-8")
        Path("link.yaml").symlink_to("notes.yaml")
        for name in ("notes.yaml", "notes.txt", "link.yaml"):
            _, err = shown("export", "search", "-o", name, code=2)
            assert err == f"tausearch: --output {name}: exists and is no best file, so it is not replaced\n"
            assert Path(name).read_text(encoding="utf-8") == "mine"
        assert Path("link.yaml").is_symlink()

    @pytest.mark.parametrize(
        "place", ["search/run.yaml", "final/new.yaml", "mlflow.db", "mlflow.lock", "cache/x.yaml", "campaigns/c/x.yaml"]
    )
    def test_nothing_of_the_storage_is_overwritten(self, place: str, storage: Storage, shown: Command) -> None:
        target = storage.root / place
        before = target.read_bytes() if target.exists() else None
        for command in (
            ["export", "search", "-o"],
            ["compose", "final", "--export"],
            ["report", "search", "--output"],
            ["figures", "final", "--output"],
        ):
            _, err = shown(*command, str(target), code=2)
            assert "lies among the files of" in err and err.count("\n") == 1
        assert (target.read_bytes() if target.exists() else None) == before

    def test_what_lies_beside_the_runs_is_the_users(self, storage: Storage, shown: Command) -> None:
        target = storage.root / "best.yaml"
        shown("export", "search", "-o", str(target))
        assert load_best(target).selection is not None

    def test_files_of_another_run_are_not_taken_for_its_own(self, storage: Storage, shown: Command) -> None:
        make_final_run(storage, "other-final", [70.0, 72.0], benchmark="digits")
        own, other = storage.run("final"), storage.run("other-final")
        own.results_file.write_text(
            json.dumps({"name": "other-final", "summary": {}, "seeds": [{"seed": 0, "status": "failed"}] * 2})
        )
        _, err = shown("compare")
        assert "belongs to run 'other-final'" in err and f"`tausearch runs sync final --storage {storage.root}`" in err
        own.spec_file.write_bytes(other.spec_file.read_bytes())
        out, err = shown("status")
        assert "run 'final': run.yaml is that of a run named 'other-final'" in err and out.count("other-final") == 1

    def test_train_takes_the_name_of_a_search(self, storage: Storage, monkeypatch: Patch) -> None:
        from tausearch.cli.launch import _best_of

        best = _best_of(["search"], str(storage.root))
        assert best.selection is not None and best.selection.value == 70.0
        with pytest.raises(InputError, match="'final': is a final run, which chooses nothing; it was tuned by search"):
            _best_of(["final"], str(storage.root))

    def test_where_no_search_is_found_those_that_are_there_are_named(self, shown: Command) -> None:
        _, err = shown("export", "glyphs", "ita-lora", code=2)
        assert err.count("\n") == 1 and "; there are searches of: digits ita-lora" in err
        _, err = shown("compose", "finale", code=2)
        assert err.count("\n") == 1 and "; there are: final" in err
