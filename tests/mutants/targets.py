"""The mutated modules, and the tests that may notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCIENCE, PLATFORM = "science", "platform"
FLOORS = {SCIENCE: 90.0, PLATFORM: 85.0}  # percent of the mutants tried


@dataclass(frozen=True)
class Room:
    """Modules that share their tests."""

    part: str  # `SCIENCE` or `PLATFORM`, whose floor holds
    modules: tuple[str, ...]  # files, as patterns under the repository's root
    tests: tuple[str, ...]  # files and folders, in the order in which they run
    methods: tuple[str, ...] = ()  # methods whose contract tests run last; those of all methods would take minutes

    def sources(self) -> dict[str, Path]:
        """Return the room's modules by their names."""
        files = sorted(file for pattern in self.modules for file in ROOT.glob(pattern) if file.name != "__init__.py")
        return {module_name(file): file for file in files}

    def test_files(self) -> list[str]:
        """Return the room's files of tests, relative to the root, each once."""
        names = (*self.tests, CONTRACT) if self.methods else self.tests
        files = [file for name in names for file in sorted((ROOT / name).rglob("test_*.py")) or [ROOT / name]]
        return list(dict.fromkeys(str(file.relative_to(ROOT)) for file in files))


def module_name(file: Path) -> str:
    """Return the name by which a source file is imported; `platform` is a source root."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "platform" else parts)


METHODS = "tests/trainables/methods"
CONTRACT = f"{METHODS}/test_methods.py"
SEARCH, RUNS, EXECUTION = "tests/tausearch/studies", "tests/tausearch/runs", "tests/tausearch/execution"

ROOMS = (
    Room(
        SCIENCE,
        ("trainables/metrics.py",),
        ("tests/trainables/test_metrics.py",),
    ),
    Room(
        SCIENCE,
        ("trainables/data/splits.py",),
        ("tests/trainables/data/test_split_properties.py", "tests/trainables/data/test_benchmark.py"),
    ),
    Room(
        SCIENCE,
        tuple(f"trainables/data/embedded/{name}.py" for name in ("characters", "digits", "sheets")),
        ("tests/trainables/data/test_embedded.py", "tests/trainables/data/test_benchmark.py"),
    ),
    Room(SCIENCE, ("trainables/task_vectors/*.py",), ("tests/trainables/task_vectors", "tests/reference/composable")),
    Room(
        SCIENCE,
        ("trainables/curvature/*.py",),
        ("tests/trainables/curvature", "tests/trainables/task_vectors", "tests/reference/composable"),
    ),
    Room(
        SCIENCE,
        ("trainables/preconsolidation/*.py",),
        ("tests/trainables/preconsolidation", "tests/reference/composable"),
    ),
    Room(
        SCIENCE,
        ("trainables/methods/composable/*.py",),
        ("tests/reference/composable", f"{METHODS}/test_averaged_heads.py", f"{METHODS}/test_composable_config.py"),
        ("ita-fft", "iel-lora", "ita-ia3"),
    ),
    Room(
        SCIENCE,
        ("trainables/composition/*.py",),
        (
            "tests/trainables/composition",
            "tests/trainables/test_composition.py",
            "tests/tausearch/models",
        ),
    ),
    Room(
        SCIENCE,
        tuple(
            f"trainables/methods/{name}.py" for name in ("contract", "entry", "hyperparameters", "registry", "training")
        ),
        (
            f"{METHODS}/test_training.py",
            "tests/trainables/test_sequence.py",
            "tests/reference",
        ),
        ("finetune", "linear-probe"),
    ),
    Room(
        SCIENCE,
        ("trainables/methods/sequential/*.py",),
        (f"{METHODS}/sequential", "tests/reference/test_finetune.py"),
        ("finetune", "ewc", "lwf-mc", "derpp"),
    ),
    Room(SCIENCE, ("trainables/methods/prompts/*.py",), (f"{METHODS}/prompts",), ("l2p", "coda", "apt")),
    Room(SCIENCE, ("trainables/methods/seed/*.py",), (f"{METHODS}/seed",), ("seed",)),
    Room(SCIENCE, ("trainables/methods/inflora/*.py",), (f"{METHODS}/inflora",), ("inflora",)),
    Room(SCIENCE, ("trainables/methods/probe.py",), (f"{METHODS}/test_probe.py",), ("probe",)),
    Room(SCIENCE, ("trainables/methods/tak/*.py",), (f"{METHODS}/tak",), ("tak",)),
    Room(
        SCIENCE,
        ("trainables/methods/tmc.py", "trainables/backbones/linearised/network.py"),
        (f"{METHODS}/tmc",),
        ("tmc",),
    ),
    Room(
        SCIENCE, ("trainables/state/*.py",), ("tests/trainables/test_checkpoints.py", "tests/trainables/test_state.py")
    ),
    Room(
        SCIENCE,
        ("trainables/sequence.py",),
        (
            "tests/trainables/test_sequence.py",
            "tests/trainables/test_trial.py",
            "tests/reference/composable",
        ),
        ("finetune",),
    ),
    Room(
        PLATFORM,
        (
            "platform/tausearch/runs/record/record.py",
            "platform/tausearch/runs/record/files.py",
            "platform/tausearch/runs/trials.py",
        ),
        (f"{RUNS}/record", RUNS, SEARCH),
    ),
    Room(
        PLATFORM,
        tuple(f"platform/tausearch/studies/{name}.py" for name in ("study", "searchers", "best_listener", "best_file")),
        (SEARCH, f"{RUNS}/test_status.py"),
    ),
    Room(
        PLATFORM,
        ("platform/tausearch/execution/checkpoints.py", "platform/tausearch/execution/tune_adapters.py"),
        (
            f"{EXECUTION}/test_checkpoints.py",
            f"{EXECUTION}/tune/test_tune_adapters.py",
            EXECUTION,
            f"{SEARCH}/test_searchers.py",
        ),
    ),
    Room(
        PLATFORM,
        tuple(
            f"platform/tausearch/execution/{name}.py" for name in ("dispatcher", "driver", "observer", "queue", "run")
        ),
        (EXECUTION, "tests/tausearch/api", SEARCH),
    ),
    Room(
        PLATFORM,
        tuple(f"platform/tausearch/models/{name}.py" for name in ("descriptions", "images", "loading", "model")),
        ("tests/tausearch/models/test_prediction.py", "tests/tausearch/models", "tests/tausearch/security"),
    ),
    Room(
        PLATFORM,
        (
            "platform/tausearch/api/continuation.py",
            *(f"platform/tausearch/api/plans/{name}.py" for name in ("final_runs", "new_runs", "one_benchmark")),
            *(f"platform/tausearch/api/plans/{name}.py" for name in ("searches", "several_benchmarks", "trial_counts")),
            "platform/tausearch/runs/protocol.py",
        ),
        ("tests/tausearch/api",),
    ),
    Room(
        PLATFORM,
        ("platform/tausearch/runs/racing.py", "platform/tausearch/runs/constraints.py"),
        (f"{RUNS}/test_racing.py", "tests/tausearch/execution", f"{SEARCH}/test_constraints.py"),
    ),
    Room(
        PLATFORM,
        (
            *(
                f"platform/tausearch/studies/recorded/{name}.py"
                for name in ("replays", "trials", "configurations", "files")
            ),
            "platform/tausearch/cli/output/replays.py",
        ),
        (f"{SEARCH}/test_replay.py", f"{SEARCH}/test_tables.py"),
    ),
    Room(
        PLATFORM,
        ("platform/tausearch/execution/durations.py", "platform/tausearch/execution/previews.py"),
        (f"{EXECUTION}/test_preview.py",),
    ),
    Room(
        PLATFORM,
        ("platform/tausearch/api/management.py",),
        ("tests/tausearch/api/test_management.py",),
    ),
)
