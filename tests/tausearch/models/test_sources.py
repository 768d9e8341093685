"""Sources of task vectors: which seeds, device and weights count, and which sources go together."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tausearch import compose
from tausearch.models import ModelOptions, Pools, analysis, open_model, pools, sources
from tausearch.models.descriptions import ModelDescription
from tausearch.models.sources import VectorSource, chosen_seeds, describe_source, find_source, source_of_run
from tausearch.runs import Record, Resources, RunDirectory, SearchSpec, Storage, read_spec
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import final_spec, make_trial, search_spec
from trainables.backbones import Backbone
from trainables.composition import VECTOR_FILE
from trainables.errors import InputError
from trainables.task_names import NamedTask


@pytest.fixture
def source(spec: SearchSpec, tmp_path: Path) -> VectorSource:
    final = final_spec(spec, seeds=(0, 1), trials=2)
    directory = RunDirectory(tmp_path)
    return VectorSource("r", "digits", ("ita-lora",), spec.protocol, (1,), tmp_path, None, final, directory)


def test_a_description_has_the_accuracies_of_the_seeds_with_vectors(source: VectorSource) -> None:
    assert source.directory is not None
    record = Record(source.directory.record)
    for seed in (0, 1):
        trial = make_trial(seed, value=70.0)
        trial.rows[-1].update({f"test/accuracy/task_{task}": 10.0 * task + seed for task in (1, 2, 3)})
        record.write(replace(trial, seed=seed))
    early = make_trial(2, value=70.0)  # of a version that kept other metrics
    record.write(replace(early, seed=2))
    exported(source.folder, search_spec())  # of an earlier state of the run
    assert describe_source(replace(source, seeds=(1, 2))).accuracies == {1: (11.0, 21.0, 31.0)}


def test_a_description_has_the_classes_of_the_first_seed_with_vectors(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert source.spec is not None
    tasks = (NamedTask(("a", "b"), "first"), NamedTask(("c",)))
    named = replace(source, spec=source.spec.model_copy(update={"tasks": tasks}))
    unknown = describe_source(named)  # it has left no vectors that would say their classes
    assert (unknown.class_names, unknown.task_names, unknown.transform) == ((), (), None)
    for task in (1, 2):
        (source.folder / "seed_1" / f"task_{task}").mkdir(parents=True)
    monkeypatch.setattr(sources, "vector_folders", lambda folder: sorted(folder.iterdir()))

    def vector(folder: Path) -> SimpleNamespace:
        names = tasks[int(folder.name[-1]) - 1].classes
        return SimpleNamespace(origin=SimpleNamespace(class_names=names, classes=range(len(names)), transform=None))

    monkeypatch.setattr(sources, "read_vector", vector)
    about = describe_source(named)
    assert (about.class_names, about.tasks, about.task_names) == (("a", "b", "c"), (2, 1), ("first", None))
    assert describe_source(source).task_names == ()


def test_of_a_search_its_final_runs_are_named_or_how_to_make_one(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    for name in ("s", "other"):
        make_run_directory(spec.model_copy(update={"name": name, "id": name}), storage)
    with pytest.raises(InputError, match="its final runs do: `.*train s --storage .*` makes one$"):
        find_source(storage, "s")
    for name, search in (("f", "s"), ("g", "s"), ("h", "other")):
        make_run_directory(final_spec(spec).model_copy(update={"name": name, "id": name, "source": search}), storage)
    with pytest.raises(
        InputError, match="^run 's': is a search, which leaves no task vectors; its final runs do: f, g$"
    ):
        find_source(storage, "s")


def test_of_an_unknown_name_final_runs_are_suggested_and_no_search(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    make_run_directory(spec.model_copy(update={"name": "s-a"}), storage)
    with pytest.raises(InputError, match="no folder of exported task vectors$"):
        find_source(storage, "m-a")
    make_run_directory(final_spec(spec).model_copy(update={"name": "paper", "id": "p"}), storage)
    with pytest.raises(InputError, match="no folder of exported task vectors; there are: paper$"):
        find_source(storage, "m-a")


def test_a_run_on_the_cpu_stays_there_and_vectors_without_a_run_go_to_a_gpu(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert source.spec is not None
    on_gpu = source.spec.model_copy(update={"resources": Resources(gpus_per_trial=0.5)})
    found = [pools.device_of(None, replace(source, spec=each)).type for each in (source.spec, on_gpu, None)]
    assert found == ["cpu", "cuda", "cuda"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    wanted = ("cpu", "cuda", "cuda:1")
    assert [str(pools.device_of(each, source)) for each in wanted] == list(wanted)
    with pytest.raises(InputError, match="--device cuda:2: this machine has 2 GPUs, numbered from 0$"):
        pools.device_of("cuda:2", source)
    for wrong in ("gpu", "meta", "half"):
        with pytest.raises(InputError, match=f"--device must be cpu or cuda, got '{wrong}'"):
            pools.device_of(wrong, source)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pools.device_of(None, replace(source, spec=on_gpu)).type == "cpu"
    for wanted in ("cuda", "cuda:0"):
        with pytest.raises(InputError, match=f"--device {wanted}: this machine has no GPU"):
            pools.device_of(wanted, source)


def test_the_users_weights_go_before_those_of_the_protocol(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backbone(name: str, weights: Path | None, head: Path | None) -> SimpleNamespace:
        shape = SimpleNamespace(parameters=pools.MAX_PARAMETERS + (weights == Path("/large")))
        return SimpleNamespace(
            name=name, weights=weights, head=head, shape=shape, digest=source.protocol.weights_digest, input=None
        )

    monkeypatch.setattr(pools, "Backbone", backbone)
    protocol = source.protocol.model_copy(update={"backbone_weights": "/large", "initial_head": "/head"})
    mine = pools.backbone_of("r", protocol, "/mine")
    assert (mine.weights, mine.head) == (Path("/mine"), Path("/head"))
    assert pools.backbone_of("r", protocol, "/large").weights == Path("/large")  # named by the user
    with pytest.raises(InputError, match="more than 400,000,000 are not built for a file"):
        pools.backbone_of("r", protocol)
    assert pools.backbone_of("r", source.protocol).weights is None
    gone = protocol.model_copy(update={"backbone_weights": "/gone"})
    with pytest.raises(InputError, match="weights /gone: there is no such file; name them with --backbone-weights"):
        pools.backbone_of("r", gone)
    assert pools.backbone_of("r", gone, "/mine").weights == Path("/mine")


@pytest.mark.parametrize(
    ("what", "changes"), [("backbone", {"weights_digest": "a" * 64}), ("precision", {"precision": "bf16"})]
)
def test_a_third_source_must_be_like_the_first(source: VectorSource, what: str, changes: dict[str, str]) -> None:
    other = replace(source, name="other", protocol=source.protocol.model_copy(update=changes))
    pools.require_alike([source, source])
    with pytest.raises(InputError, match=f"other and r cannot be composed: their {what} is"):
        pools.require_alike([source, source, other])


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("complete", "its method 'm:Mine' left no task vectors"),
        ("failed", "no seed has finished and left task vectors"),
    ],
)
def test_a_run_of_code_that_may_not_run_says_why_it_has_no_vectors(
    status: Any, why: str, spec: SearchSpec, tmp_path: Path
) -> None:
    _, directory = make_run_directory(final_spec(spec, method="m:Mine", seeds=(5,), trials=1), Storage(tmp_path))
    Record(directory.record).write(replace(make_trial(0, value=70.0), seed=5, status=status))
    with pytest.raises(InputError, match=f": {why}$"):
        source_of_run(directory)


def test_only_seeds_that_finished_and_left_vectors_count_in_the_order_of_the_run(
    spec: SearchSpec, tmp_path: Path
) -> None:
    final, directory = make_run_directory(final_spec(spec, seeds=(5, 3, 4, 2), trials=4), Storage(tmp_path))
    for number, (seed, status) in enumerate({5: "complete", 3: "complete", 4: "complete", 2: "failed"}.items()):
        trial = replace(make_trial(number, value=70.0), seed=seed, status=status)  # type: ignore[arg-type]
        Record(directory.record).write(trial)
    for seed in (2, 3, 5):
        (directory.artifacts / f"seed_{seed}").mkdir(parents=True)
    found = source_of_run(directory)
    assert found.seeds == (5, 3)
    for seed, why in (
        (4, "seed 4 has left no task vectors"),
        (2, r"seed 2 has no result \(failed\)"),
        (9, "no seed 9"),
    ):
        with pytest.raises(InputError, match=f"{final.name}: .*{why}; compose those that have with --seeds 5,3"):
            chosen_seeds([found], [seed])
    assert chosen_seeds([replace(found, spec=None)], None) == (5, 3)  # of a folder all that it has
    with pytest.raises(InputError, match="seed 4 has left no task vectors"):
        chosen_seeds([found], None)  # of a run all that were asked for


def test_every_source_has_every_seed_that_is_composed(source: VectorSource) -> None:
    other = replace(source, name="other", seeds=(1, 2), spec=None)
    assert chosen_seeds([source, other], [1]) == (1,)
    assert chosen_seeds([other], [2, 1]) == (1, 2), "their order makes no other composition"
    with pytest.raises(InputError, match="other: has no seed 3; compose those that have with --seeds 1,2"):
        chosen_seeds([replace(source, seeds=(1, 2, 3)), other], [1, 3])
    first = replace(source, seeds=(1, 3))
    for seeds, instead in (((1, 2), "compose those that have with --seeds 1"), ((2,), "no seed is in every source")):
        with pytest.raises(InputError, match=f"other: has no seed 3; {instead}$"):
            chosen_seeds([first, replace(other, seeds=seeds)], [3])


def exported(folder: Path, spec: SearchSpec, *seeds: int, methods: tuple[str, ...] = ("ita-lora",)) -> Path:
    """A folder of exported vectors, without the vectors."""
    for seed in seeds:
        (folder / f"seed_{seed}").mkdir(parents=True)
    protocol = {"benchmark": "digits", "protocol": spec.protocol, "runs": ("r",), "methods": methods}
    ModelDescription(**protocol, class_names=("a", "b"), tasks=(1, 1)).save(folder)  # type: ignore[arg-type]
    return folder


def test_the_seeds_of_a_folder_are_in_the_order_of_numbers(spec: SearchSpec, tmp_path: Path) -> None:
    folder = exported(tmp_path / "vectors", spec, 10, 2, 1, methods=("ita-lora", "iel-lora"))
    (folder / "seed_3.old").mkdir()
    found = find_source(Storage(tmp_path / "runs"), str(folder))
    assert found.seeds == (1, 2, 10) and found.tasks is None and found.methods == ("ita-lora", "iel-lora")
    chosen = find_source(Storage(tmp_path / "runs"), f"{folder}:2,1")
    assert (chosen.tasks, chosen.text, chosen.folder) == ((2, 1), f"{folder}:2,1", folder)
    named = exported(tmp_path / "vectors:2,1", spec, 7)  # a folder of exactly that name is meant
    assert find_source(Storage(tmp_path / "runs"), str(named)).seeds == (7,)


def test_a_run_goes_before_a_folder_of_its_name_unless_the_folder_has_a_path(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exported(tmp_path / "r", spec, 7)
    _, directory = make_run_directory(final_spec(spec, name="r"), Storage(tmp_path / "runs"))
    monkeypatch.setattr(sources, "source_of_run", lambda found: found)
    assert find_source(Storage(tmp_path / "runs"), "r") == directory  # type: ignore[comparison-overlap]
    assert find_source(Storage(tmp_path / "runs"), "./r").seeds == (7,)
    (tmp_path / "r").rename(tmp_path / "v")
    assert find_source(Storage(tmp_path / "runs"), "v:1").text == "./v:1"  # which no run can be called
    (tmp_path / "v").rename(tmp_path / "r")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_source(Storage(tmp_path / "runs"), "~/r").seeds == (7,)
    for open_it in (find_source, lambda storage, text: open_model(text, ModelOptions(), storage.root)):
        for name in ("~gone", "a" * 300):
            with pytest.raises(InputError, match=f"'{name}': no run of that name"):
                open_it(Storage(tmp_path / "runs"), name)


def test_vectors_compute_with_the_threads_of_the_first_run(source: VectorSource) -> None:
    assert source.spec is not None
    threads = torch.get_num_threads() + 1
    run = replace(source, spec=source.spec.model_copy(update={"resources": Resources(cpus_per_trial=threads)}))
    folder, network = replace(source, spec=None), SimpleNamespace(device=torch.device("cpu"))
    found = [Pools(each, None, None, {}, network).threads for each in ((run, folder), (folder, run))]  # type: ignore[arg-type]
    assert found == [threads, threads - 1]


def test_each_task_is_taken_once_and_the_tasks_are_those_of_the_benchmark(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "vector_folders", lambda folder: [folder / f"task_{task}" for task in range(1, 5)])
    monkeypatch.setattr(pools, "VectorPool", list)

    def taken(*chosen: tuple[int, ...]) -> list[str]:
        sources = [replace(source, name=name, tasks=tasks) for name, tasks in zip("rs", chosen, strict=False)]
        return [folder.name for folder in pools._pool(sources, 1, 3)]  # type: ignore[arg-type]

    assert taken((3, 1), (2,)) == ["task_1", "task_2", "task_3"]
    for chosen, said in (
        ([(1, 1, 2, 3)], "task 1 is in r and in r; take each task from one of them"),
        ([(1, 2), (2, 3)], "task 2 is in r and in s; take each task from one of them"),
        ([(1, 2, 4)], "r: seed 1 has task vectors of the tasks 1, 2, 4, but the benchmark has 3 tasks"),
        ([(1, 2, 4), (3,)], "r, s: seed 1 has task vectors of the tasks 1, 2, 3, 4, but the benchmark has 3 tasks"),
    ):
        with pytest.raises(InputError, match=said):
            taken(*chosen)


def test_the_vectors_of_every_seed_are_checked_and_compute_as_the_run_did(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[int] = []

    class Pool(list[str]):
        """Vectors that note that they were checked."""

        def require_fit(self, *given: object) -> None:
            fitted.append(len(self))
            assert given == ([range(2)], {}, 4, source.protocol.weights_digest, [("a", "b")])

    seen: list[object] = []

    def network_for(vectors: Iterable[str], *about: object) -> SimpleNamespace:
        seen.extend([list(vectors), about])
        return SimpleNamespace(theta_0={}, width=4)

    monkeypatch.setattr(pools, "_pool", lambda sources, seed, count: Pool(["of LoRA"] * seed))
    monkeypatch.setattr(pools, "network_for", network_for)
    bf16 = replace(source, seeds=(1, 2), protocol=source.protocol.model_copy(update={"precision": "bf16"}))
    spec = SimpleNamespace(named_tasks=[NamedTask(("a", "b"))])
    benchmark: Any = SimpleNamespace(tasks=[SimpleNamespace(classes=range(2))], spec=spec)
    made = pools.make_pools([bf16], benchmark, "theta_0", [2, 1], "cpu")  # type: ignore[arg-type]
    assert list(made.by_seed) == [1, 2] and fitted == [1, 2]
    assert seen == [["of LoRA"] * 3, ("theta_0", torch.device("cpu"), "bf16")]


def test_alignment_is_of_the_seeds_that_both_runs_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vectors of the first run and of the second are equal in task 1 and orthogonal in task 2."""
    monkeypatch.setattr(analysis, "inner_products", lambda _, vectors: torch.stack(vectors) @ torch.stack(vectors).T)
    one, two, other = torch.eye(3)

    def run(name: str, *seeds: int, last: torch.Tensor) -> SimpleNamespace:
        network = SimpleNamespace(theta_0={})
        by_seed = {seed: [one, last] for seed in seeds}
        return SimpleNamespace(sources=[SimpleNamespace(text=name)], by_seed=by_seed, tasks=2, network=network)

    first, second, third = run("a", 0, 2, 1, last=two), run("b", 1, 2, 5, last=other), run("c", 7, last=two)
    rows = analysis.alignment_rows(first, second)  # type: ignore[arg-type]
    assert [(row["seed"], row["task"]) for row in rows] == [(seed, task) for seed in (2, 1) for task in range(3)]
    assert [row["cosine"] for row in rows[:3]] == pytest.approx([0.5, 1.0, 0.0])
    with pytest.raises(InputError, match="a and c: have no seed in common"):
        analysis.alignment_rows(first, third)  # type: ignore[arg-type]


def test_vectors_without_a_header_are_refused(made: Storage, tmp_path: Path) -> None:
    old = Storage(tmp_path)
    shutil.copytree(made.run("ita").path, old.run("ita").path)
    file = old.run("ita").artifacts / "seed_0" / "task_1" / VECTOR_FILE
    save_file({name: value.clone() for name, value in load_file(file).items()}, file)
    with pytest.raises(InputError, match="is not a task vector .format version unknown, this version reads 1"):
        compose(["ita"], storage=old.root)


class TestForeignVectors:
    @pytest.fixture
    def copy(self, made: Storage, tmp_path: Path) -> Storage:
        for name in ("ita", "iel"):
            shutil.copytree(made.run(name).path, tmp_path / name)
        return Storage(tmp_path)

    def refused(self, storage: Storage, words: str, *runs: str) -> None:
        with pytest.raises(InputError, match=words):
            compose(list(runs or ["ita"]), storage=storage.root)

    @pytest.mark.parametrize(
        ("header", "tensors", "words"),
        [
            (
                {"backbone": "other", "backbone_digest": "f" * 64},
                {},
                "seed_1/task_2: was learned on another backbone, other with digest ffffffffffff",
            ),
            ({"classes": "4-6"}, {}, "task_2: is of classes 4 to 5, but this task of the benchmark has classes 2 to 3"),
            (
                {},
                {"blocks.0.attn.qkv.weight.A": torch.zeros(6, 5)},
                r"'blocks.0.attn.qkv.weight' is \(192, 5\), but the backbone's is \(192, 64\)",
            ),
        ],
    )
    def test_a_vector_that_does_not_fit(
        self, header: dict[str, str], tensors: dict[str, torch.Tensor], words: str, copy: Storage
    ) -> None:
        file = copy.run("ita").artifacts / "seed_1" / "task_2" / VECTOR_FILE
        with safe_open(file, framework="pt") as opened:
            then = {name: text for name, text in opened.metadata().items() if name != "content digest"}
        save_file({**load_file(file), **tensors}, file, metadata={**then, **header})
        self.refused(copy, words)

    def test_other_weights_of_the_backbone(self, copy: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Backbone, "digest", "e" * 64)
        self.refused(
            copy, "ita: was trained on other weights of glyph_vit, with digest 555973dec18a; those here have e"
        )

    def test_a_weights_file_elsewhere(self, copy: Storage, tmp_path: Path) -> None:
        state = Backbone().load().state_dict()
        save_file(state, tmp_path / "here.safetensors")
        done = compose(["ita"], backbone_weights=tmp_path / "here.safetensors", storage=copy.root)
        assert done.result == compose(["ita"], storage=copy.root).result
        save_file({**state, "norm.bias": state["norm.bias"] + 1}, tmp_path / "other.safetensors")
        with pytest.raises(InputError, match="ita: was trained on other weights of glyph_vit"):
            compose(["ita"], backbone_weights=tmp_path / "other.safetensors", storage=copy.root)

    def test_runs_that_do_not_go_together(self, copy: Storage) -> None:
        read_spec(copy.run("iel")).model_copy(update={"benchmark": "digits"}).save(copy.run("iel"))
        self.refused(copy, "iel and ita cannot be composed: their benchmark is", "ita:1,2", "iel:3")
