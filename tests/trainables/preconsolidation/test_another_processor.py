"""A trial continues a checkpoint of another kind of processor, and uses its cache entries."""

from __future__ import annotations

from pathlib import Path

from benchmarks.processors import SETTINGS, printed_under
from tests.support.methods.first_task import sequence_in
from trainables.metrics import CACHE_HIT
from trainables.process import threads
from trainables.state import read_state


def test_a_trial_moves_and_finds_the_cache(tmp_path: Path) -> None:
    printed_under(SETTINGS[0], "tests.support.methods.first_task", str(tmp_path))
    with threads(1):
        moved, anew, apart = sequence_in(tmp_path), sequence_in(tmp_path), sequence_in(tmp_path / "own")
        moved.load_state(read_state(tmp_path / "state", tmp_path / "state"))
        assert anew.run_next_task()[CACHE_HIT] == 1 and apart.run_next_task()[CACHE_HIT] == 0
        for sequence in (moved, apart):
            while not sequence.finished:
                sequence.run_next_task()
    assert moved.tasks_done == 3
    for name, tensor in moved.state().tensors.items():  # 1.7e-5 of the largest number was measured
        other = apart.state().tensors[name].double()
        assert (tensor.double() - other).abs().max() <= 1e-3 * other.abs().max(), name
