"""Commands that are refused: one clear line for each mistake, exit code 2, and nothing is left behind."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from tests.support.terminal import Terminal

SEARCHES = (
    "digit ita-lora",
    "digits ita-lra",
    "digits,digits ita-lora",
    "'digits?tasks=2&epochs=3,digits?epochs=3&tasks=2' ita-lora",
    "digits ita-lora --trials 0 --seed -1 --algorithm tpee",
    "digits ita-lora --algorithm grid --trials 1000",
    "digits ita-lora --scheduler asha --algorithm gp",
    "digits ita-lora --set lr=-1 --set rate=3",
    "digits ita-lora --set lr=0.1 --space nowhere.yaml",
    "digits ita-lora --constraint 'forgeting <= 5'",
    "digits ita-lora --constraint 'forgetting <= 5' --constraint 'forgetting >= 6'",
    "digits ita-lora --objective forgetting --objective forgetting",
    "digits ita-lora --prefer knee",
    "digits ita-lora --warm-start nobody,paper",
    "digits ita-lora --tasks 3 --classes-per-task 2",
    "'digits?tasks=2&epochs=1' ita-lora --tasks 5 --epochs 2",
    "digits ita-lora --task 0,1 --task 1,2",
    "digits ita-lora --class-order 0,1",
    "digits ita-lora --precision tf32",
    "digits ita-lora --gpus-per-trial 0.3",
    "digits ita-lora --cpus-per-trial 5000",
    "digits ita-lora --reevaluate 9 --trials 4",
    "digits ita-lora --across rank",
    "digits ita-lora --tracking mlfow",
    "digits ita-lora --time-budget 5x",
    "digits ita-lora --name a/b",
    "digits ita-lora --callback nowhere:Bell",
    "digits joint --objective forgetting",
    "folder:nowhere ita-lora",
)
OTHERS = (
    "train nobody",
    "train digits ita-lora",
    "resume nobody",
    "extend nobody --trials 3",
    "export nobody",
    "status nobody",
    "report nobody",
    "compare nobody digits",
    "compose nobody",
    "predict nobody picture.png",
    "figures nobody",
    "runs delete nobody",
    "runs rename nobody somebody",
    "runs replay nobody",
    "campaign plan nowhere.yaml",
    "campaign plan wrong.yaml",
    "campaign status nobody",
    "data check digits",
    "list spaces ita-lra",
)
WRONG = """
campaign: wrong
benchmarks: [digits, digit]
methods: [ita-lora]
search: {trails: 3, algorithm: grd}
train: {seeds: [0, 0]}
cells: [{method: joint, serch: null}]
"""


def test_refusals(terminal: Terminal, kept: SnapshotAssertion) -> None:
    (terminal.folder / "wrong.yaml").write_text(WRONG)
    for words in SEARCHES:
        terminal(f"search {words}", code=2)
    for words in OTHERS:
        terminal(words, code=2)
    terminal.add_files("the folder", terminal.folder)
    assert terminal.transcript == kept
