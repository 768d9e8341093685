"""A storage root: which runs it lists in which order, which names it suggests, and which places it protects."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tausearch.presentation.figures.style import new_figure, save
from tausearch.runs import (
    Plan,
    RunDirectory,
    SearchSpec,
    Storage,
    guards,
    new_locked_run,
    new_run,
    open_storage,
    read_spec,
    require_output,
    require_picture,
    require_space,
    shortage,
)
from tausearch.runs.creation import make_run_directory
from tausearch.runs.guards import UNFINISHED, require_figures, require_new_folder, require_replaceable
from tausearch.runs.storage import DEFAULT_STORAGE, storage_option
from trainables.errors import InputError

AGES = {"b": 2000, "a": 2000, "old": 1000, "young": 3000}


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Runs and campaigns of several ages, and folders that are neither."""
    found = Storage(tmp_path / "runs")
    for name, age in AGES.items():
        for folder, file in ((found.root, "run.yaml"), (found.campaigns_folder, "campaign.yaml")):
            (folder / name).mkdir(parents=True)
            (folder / name / file).touch()
            os.utime(folder / name / file, (age, age))
    for folder in (found.root, found.campaigns_folder):
        (folder / ".hidden").mkdir()
        (folder / "empty").mkdir()
        for file in ("run.yaml", "campaign.yaml"):
            (folder / ".hidden" / file).touch()
    (found.root / "old" / "note.txt").touch()  # the folder of the oldest run has changed last
    return found


class TestListing:
    def test_runs_and_campaigns_are_listed_by_the_age_of_their_specification(self, storage: Storage) -> None:
        for found in (storage.runs(), storage.campaigns()):
            assert [each.name for each in found] == ["old", "a", "b", "young"]  # of the same age by name

    def test_a_run_keeps_its_age_when_its_specification_is_written_again(
        self, spec: SearchSpec, tmp_path: Path
    ) -> None:
        storage = Storage(tmp_path)
        for name in ("c", "b", "a"):
            made, directory = make_run_directory(spec.model_copy(update={"name": name}), storage)
        os.utime(storage.run("b").spec_file, (1, 1))  # by a copy
        read_spec(storage.run("c")).save(storage.run("c"))  # by a new name of its search
        assert [run.name for run in storage.runs()] == ["c", "b", "a"]
        made.model_copy(update={"created": None}).save(directory)  # an earlier version notes no time
        os.utime(directory.spec_file, (1, 1))
        assert [run.name for run in storage.runs()] == ["a", "c", "b"]
        read_spec(directory).save(directory)  # that of its file is noted
        assert [run.name for run in storage.runs()] == ["a", "c", "b"]
        directory.spec_file.write_bytes(b"created: \xff")
        assert len(storage.runs()) == 3

    @pytest.mark.parametrize(("newest", "names"), [(None, ["old", "a", "b", "young"]), (2, ["b", "young"])])
    def test_the_newest_are_read_oldest_first(self, storage: Storage, newest: int | None, names: list[str]) -> None:
        assert storage.read_each(lambda run: run.name, newest) == (names, [])

    def test_a_run_that_was_deleted_while_it_was_read_is_no_fault(self, storage: Storage) -> None:
        def read(run: object) -> None:
            shutil.rmtree(storage.run("a").path, ignore_errors=True)
            raise InputError("gone")

        faults = storage.read_each(read)[1]
        assert len(faults) == 3  # of the runs that are still there

    def test_a_run_that_breaks_its_reader_is_a_fault_and_the_others_are_read(self, storage: Storage) -> None:
        def read(run: RunDirectory) -> str:
            return run.name if run.name != "a" else str(1 / 0)

        names, faults = storage.read_each(read)
        assert names == ["old", "b", "young"] and "cannot be read (ZeroDivisionError" in str(faults[0])
        assert storage.read_each(read, among=[]) == ([], [])

    def test_only_a_folder_with_a_specification_is_a_run(self, storage: Storage) -> None:
        assert storage.run_exists("a")
        assert not any(map(storage.run_exists, ("empty", "none", ".hidden", "../runs/a", "campaigns/a")))


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("yung", "young, ..."),
        ("digits", "young, b, a, old"),  # the latest first
    ],
)
def test_an_unknown_run_gets_similar_names_or_else_the_latest(storage: Storage, name: str, suggested: str) -> None:
    with pytest.raises(InputError) as error:
        read_spec(storage.run(name))
    assert str(error.value) == f"no run named {name!r} in {storage.root}; there are: {suggested}"


def test_at_most_five_of_the_latest_runs_are_suggested(storage: Storage) -> None:
    for number in range(3):
        shutil.copytree(storage.run("old").path, storage.root / f"more-{number}")
        os.utime(storage.root / f"more-{number}" / "run.yaml", (4000 + number, 4000 + number))
    assert storage.hint_for("x") == "; there are: more-2, more-1, more-0, young, b, ..."
    assert storage.hint_for("x", ["a", "odd"]) == "; there are: odd, a"
    assert Storage(storage.root / "empty").hint_for("x") == ""


@pytest.mark.parametrize(
    "name", ["cache", "mlflow.db", "mlflow.lock", "mlflow-artifacts", "compare.png", "compare.pdf", "campaigns"]
)
def test_a_run_does_not_take_the_name_of_a_shared_file(storage: Storage, name: str) -> None:
    with pytest.raises(InputError, match="is reserved"):
        storage.run(name)


def test_a_root_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_storage("~/runs", write=False).root == tmp_path / "runs"


def test_a_root_may_be_a_link_to_a_folder_and_not_one_that_leads_nowhere(tmp_path: Path) -> None:
    for name, there in (("link", tmp_path), ("broken", tmp_path / "none")):
        (tmp_path / name).symlink_to(there)
    assert open_storage(tmp_path / "link", write=True).root == tmp_path / "link"
    with pytest.raises(InputError, match="is a link that leads nowhere"):
        open_storage(tmp_path / "broken", write=True)


def test_a_command_names_no_root_that_is_the_default_however_it_is_written(tmp_path: Path) -> None:
    for root in (DEFAULT_STORAGE, Path(DEFAULT_STORAGE).absolute()):
        assert storage_option(root) == ""
    assert storage_option(tmp_path / "a b") == f" --storage '{tmp_path}/a b'"


@pytest.mark.parametrize("sign", "?#%")
def test_a_root_has_no_sign_that_means_something_in_a_uri(tmp_path: Path, sign: str) -> None:
    with pytest.raises(InputError, match=f"must not contain '[{sign}]'"):
        open_storage(tmp_path / f"a{sign}b", write=False)


class TestOutputs:
    @pytest.mark.parametrize(
        ("target", "owner"),
        [
            ("runs/a/figures/x.png", "the run 'a'"),
            ("runs/a", "the run 'a'"),
            ("runs/a/inner/x.png", "the run 'a'"),  # a run that lies in another: the outer one is named
            ("link/x.png", "the run 'a'"),
            ("elsewhere/run/x.png", "the run 'run'"),  # of any storage
            ("runs/cache/x.png", "the storage "),
            ("runs/mlflow-artifacts/x.png", "the storage "),
            ("runs/campaigns/new/x.png", "the storage "),
            ("runs/mlflow.db", "the storage "),
            ("runs/mlflow.db-wal", "the storage "),
        ],
    )
    def test_no_output_lies_among_the_files_of_the_tool(
        self, storage: Storage, tmp_path: Path, target: str, owner: str
    ) -> None:
        for folder in (storage.root / "a" / "inner", tmp_path / "elsewhere" / "run"):
            folder.mkdir(parents=True)
            (folder / "run.yaml").touch()
            (folder / "driver.lock").touch()
        (tmp_path / "link").symlink_to(storage.root / "a")
        (tmp_path / "linked").symlink_to(storage.root)
        for each in (storage, Storage(tmp_path / "linked")):
            with pytest.raises(InputError, match=f"^--out .*lies among the files of {owner}"):
                require_output(each, tmp_path / target, "--out")

    @pytest.mark.parametrize(
        "target", ["runs/x.png", "runs/empty/x.png", "mlflow.db", "cache/x.png", "runs/new/mlflow.db"]
    )
    def test_any_other_place_is_free(self, storage: Storage, tmp_path: Path, target: str) -> None:
        (tmp_path / "run.yaml").touch()  # of the user: no driver has locked this folder
        require_output(storage, tmp_path / target, "--out")
        assert not (tmp_path / target).exists()  # nothing was written to find out

    def test_a_new_folder_may_be_there_if_it_is_empty(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "out" / UNFINISHED).mkdir(parents=True)  # of an export that was killed
        require_new_folder(storage, tmp_path / "out", "--out")
        (tmp_path / "out" / "file").touch()
        with pytest.raises(InputError, match="is not empty; name another folder"):
            require_new_folder(storage, tmp_path / "out", "--out")
        with pytest.raises(InputError, match="out/file: is not a folder"):
            require_new_folder(storage, tmp_path / "out" / "file", "--out")
        with pytest.raises(InputError, match="out/file/new: cannot be written"):
            require_new_folder(storage, tmp_path / "out" / "file" / "new", "--out")

    @pytest.mark.parametrize(
        ("name", "allowed"), [("x.png", True), ("x.pdf", True), ("x.svg", True), ("x.jpg", True), ("x.gif", False)]
    )
    def test_a_picture_has_the_ending_of_one(self, storage: Storage, tmp_path: Path, name: str, allowed: bool) -> None:
        if allowed:
            require_picture(storage, tmp_path / name, "--figure")
            with pytest.raises(InputError, match="lies among the files of the run 'a'"):
                require_picture(storage, storage.root / "a" / name, "--figure")
            return
        with pytest.raises(InputError, match="must end in .png, .pdf, .svg, .jpg"):
            require_picture(storage, tmp_path / name, "--figure")
        (tmp_path / "folder.png").mkdir()
        with pytest.raises(InputError, match=r"folder.png: cannot be written \(Is a directory\)"):
            require_picture(storage, tmp_path / "folder.png", "--figure")

    @pytest.mark.parametrize("ending", ["png", "pdf", "svg", "jpg"])
    def test_a_picture_takes_the_place_of_a_picture_of_the_tool_and_of_no_other(
        self, storage: Storage, tmp_path: Path, ending: str
    ) -> None:
        ours, theirs, numbers = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}", tmp_path / "a.csv"
        save(new_figure((1.0, 1.0)), ours)
        theirs.write_bytes(ours.read_bytes().replace(b"written by tausearch", b"written by Matplotlib"))
        numbers.write_text("true_label,a\n")
        (tmp_path / f"empty.{ending}").touch()
        for path in (ours, tmp_path / f"empty.{ending}", tmp_path / f"new.{ending}"):
            require_picture(storage, path, "--figure", [numbers])
        with pytest.raises(InputError, match=f"^--figure {theirs}: exists and was not written by tausearch, so it"):
            require_picture(storage, theirs, "--figure")
        numbers.write_text("day,weight\n")
        with pytest.raises(InputError, match=f"^--figure {numbers}: exists and was not written"):
            require_picture(storage, ours, "--figure", [numbers])

    def test_the_same_picture_as_pdf_and_a_table_without_its_picture_are_kept_too(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        save(new_figure((1.0, 1.0)), tmp_path / "mine.png")
        (tmp_path / "mine.pdf").write_text("my talk")  # beside each PNG the tool writes a PDF
        with pytest.raises(InputError, match=r"^--figure \S*mine.pdf: exists and was not written"):
            require_picture(storage, tmp_path / "mine.png", "--figure")
        for name in ("risk.png", "risk.pdf", "time.csv"):
            (tmp_path / name).write_text("my own")
            with pytest.raises(InputError, match=rf"^--output \S*{name}: exists and was not written"):
                require_figures(tmp_path, ["risk", "time"], "--output")
            (tmp_path / name).unlink()
        (tmp_path / "time.csv").write_text("seconds\n")
        save(new_figure((1.0, 1.0)), tmp_path / "time.png")
        require_figures(tmp_path, ["risk", "time"], "--output")  # written by the tool before

    def test_a_page_takes_the_place_of_a_page_of_the_tool_alone(self, tmp_path: Path) -> None:
        require_replaceable(tmp_path, "--output")  # a folder cannot be written, which is another fault
        page = tmp_path / "page.html"
        page.write_text('<head><meta name="generator" content="tausearch"></head>')
        require_replaceable(page, "--output")
        page.write_text("<p>My thesis about tausearch</p>")
        with pytest.raises(InputError, match=f"^--output {page}: exists and was not written by tausearch"):
            require_replaceable(page, "--output")


def test_the_files_of_a_run_keep_the_names_that_earlier_runs_and_other_programs_know(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    names = {path.name for path in (run.spec_file, run.tasks_file, run.record, run.best_file, run.study_file)}
    assert names == {"run.yaml", "tasks.json", "record", "best.yaml", "study.journal"}
    assert (run.artifacts, run.compositions) == (tmp_path / "task_vectors", tmp_path / "compositions")


def test_a_run_needs_64_mebibytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 64 * 2**20

    monkeypatch.setattr(guards.shutil, "disk_usage", lambda path: Usage)
    assert shortage(tmp_path) is None
    Usage.free -= 1
    assert shortage(tmp_path) == "has 67 MB free, needs 67"
    with pytest.raises(InputError, match="--storage .*/later: has 67 MB free, needs 67"):
        require_space(tmp_path / "later")
    with pytest.raises(InputError, match="has 67 MB free"):
        new_run(tmp_path, "a", "stem")
    assert new_run(tmp_path, "a", "stem", write=False)[1] == "a"  # a dry run


class TestNewRuns:
    @pytest.mark.parametrize(("name", "taken"), [(None, "stem-2"), ("mine", "mine")])
    def test_a_run_without_a_name_takes_the_first_free_one(
        self, storage: Storage, name: str | None, taken: str
    ) -> None:
        (storage.root / "stem-1").mkdir()
        (storage.root / "stem-3").mkdir()
        assert new_run(storage.root, name, "stem")[1] == taken

    def test_a_name_is_free_with_all_of_its_endings(self, storage: Storage) -> None:
        (storage.root / "stem-1-final").mkdir()
        assert storage.free_name("stem", ("-search", "-final")) == "stem-2"

    @pytest.mark.parametrize(("name", "goes_on"), [("a", True), ("empty", False)])
    def test_only_a_run_is_continued(self, storage: Storage, name: str, goes_on: bool) -> None:
        with pytest.raises(InputError, match=f"a run named '{name}' exists" if goes_on else "exists and is no run"):
            new_run(storage.root, name, "stem")
        if goes_on:
            assert new_run(storage.root, name, "stem", resume_if_exists=True)[1] == name
            return
        with pytest.raises(InputError, match="exists and is no run"):
            new_run(storage.root, name, "stem", resume_if_exists=True)

    @pytest.mark.parametrize(
        ("error", "started", "stays"),
        [(InputError("no"), False, False), (InputError("no"), True, True), (RuntimeError("no"), False, True)],
    )
    def test_a_refused_run_is_removed_unless_a_trial_has_started(
        self, spec: SearchSpec, tmp_path: Path, error: Exception, started: bool, stays: bool
    ) -> None:
        storage = Storage(tmp_path / "new" / "runs")
        with pytest.raises(type(error)), new_locked_run(spec, storage) as (_, directory):
            if started:
                directory.record.mkdir()
            raise error
        assert directory.spec_file.exists() == stays == (tmp_path / "new").exists()

    @pytest.mark.parametrize("named", [False, True])
    def test_only_a_name_that_the_user_did_not_choose_gives_way(
        self, spec: SearchSpec, tmp_path: Path, named: bool
    ) -> None:
        storage = Storage(tmp_path)
        make_run_directory(spec, storage)  # by another process, just now
        plan = Plan(spec, storage, named)
        if not named:
            with plan.open_locked() as (made, _):
                assert made.name == "digits-ita-lora-2"
            return
        with pytest.raises(InputError, match="exists"), plan.open_locked():
            pass
