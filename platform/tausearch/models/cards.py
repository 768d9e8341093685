"""The model card: `README.md` of a learned model's folder, for people; `model.json` is for programs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from checked_input.names import counted
from tausearch.models.descriptions import ModelDescription
from tausearch.models.merge_configs import LINEAR, rule_words
from tausearch.models.removal.remnants import WORDS
from tausearch.models.removal.tables import MEMBERSHIP_NOTE, few_images, removal_tables
from tausearch.models.results import ExportForm
from tausearch.models.sources import describe_source, source_of_run
from tausearch.presentation import as_markdown
from tausearch.runs import RunDirectory, replace_text, shown_benchmark
from trainables.backbones import EMBEDDED
from trainables.errors import InputError
from trainables.methods import known_method
from trainables.task_names import NamedTask, quoted
from trainables.user_code import installed, is_code

CARD_FILE = "README.md"
_log = logging.getLogger(__name__)
_LIBRARY: dict[ExportForm, str] = {"adapter": "peft", "timm": "timm", "models": "timm", "vectors": "tausearch"}
_IS: dict[ExportForm, str] = {
    "adapter": "One PEFT adapter of a composition of task vectors, with its classifier in `head.safetensors`.",
    "timm": "A composed ViT with its classifier.",
    "models": "theta_0 and theta_0 + tau_t of each task as whole models; each has the classifier of all tasks.",
    "vectors": "The task vectors of every seed, a folder for each task, each with its rows of the classifier.",
}


def describe_run(directory: RunDirectory) -> None:
    """Write `model.json` and the card beside a final run's task vectors, if it has any.

    A failure, such as a full disk, goes to the log alone: it must cost no results.
    """
    try:
        write_card(directory.artifacts, describe_source(source_of_run(directory)))
    except (InputError, OSError) as error:
        _log.info("%s: has no model card (%s)", directory.name, error)


def write_card(folder: Path, description: ModelDescription) -> None:
    """Write `model.json` and `README.md` into a model's folder."""
    description.save(folder)
    replace_text(folder / CARD_FILE, card(description))


def card(description: ModelDescription) -> str:
    """Return the text of a model card in the format of Hugging Face's hub, without a licence."""
    removal = () if description.removal is None else _removal(description)
    return (
        "\n".join([*_head(description), *_table(description), *removal, *_usage(description), *_limits(description)])
        + "\n"
    )


def _head(description: ModelDescription) -> Iterator[str]:
    protocol = description.protocol
    library = "safetensors" if description.form == "models" and _own(description) else _LIBRARY[description.form]
    yield from ("---", f"library_name: {library}", "pipeline_tag: image-classification", "---", "")
    yield from (
        f"# {' + '.join(description.methods)} on {shown_benchmark(description.benchmark)}",
        "",
        _IS[description.form],
        "",
    )
    for method in description.methods:
        entry = known_method(method)
        if description.form == "vectors" and entry is not None and entry.vectors:
            yield from (entry.vectors, "")
    learned = f"Learned by {', '.join(description.runs)} with tausearch {description.version}"
    yield f"{learned}, on the backbone {protocol.backbone}"
    yield f"(sha256 {protocol.weights_digest[:12]}), {counted(protocol.epochs, 'epoch')} a task."
    if description.weights:
        rule = (
            "" if description.rule == LINEAR else f"; rule {rule_words(description.rule, description.rule_parameters)}"
        )
        yield f"Weights of the task vectors: {', '.join(f'{weight:.4g}' for weight in description.weights)}{rule}."
    if description.removal is None:
        yield from _excluded_tasks(description)
    yield ""


def _excluded_tasks(description: ModelDescription) -> Iterator[str]:
    still = {each.task: f": {each.text()}" for each in description.still_answered}
    for number, (weight, task) in enumerate(zip(description.weights, description.named_tasks, strict=False), start=1):
        if weight <= 0:
            how = "left out" if weight == 0 else "taken out (unlearned)"
            answered = f"its classes can still be answered{still.get(number, '')}"
            yield f"Task {_number(number, task)} ({_classes(task)}) was {how}; {answered}."


def _number(number: int, task: NamedTask) -> str:
    return str(number) if task.name is None else f"{number}: {_cell(task.name)}"


def _classes(task: NamedTask) -> str:
    return ", ".join(map(_cell, map(quoted, task.classes)))


def _table(description: ModelDescription) -> Iterator[str]:
    if not description.tasks:
        return
    yield from ("| task | classes, in order | test accuracy |", "|---|---|---|")
    for number, task in enumerate(description.named_tasks, start=1):
        score = description.accuracy(number)
        yield f"| {_number(number, task)} | {_classes(task)} | {'not measured' if score is None else score.text()} |"
    final = description.final_accuracy
    classes = counted(len(description.class_names), "class")
    yield f"| mean | {classes} | {'not measured' if final is None else final.text()} |"
    yield from (
        "",
        f"Percent, over the logits of all classes, {counted(len(description.accuracies), 'seed')} (± their deviation).",
        "",
    )


def _removal(description: ModelDescription) -> Iterator[str]:
    report = description.removal
    assert report is not None
    yield from ("## Taken out", "")
    gone = ", ".join(f"class {each.number} (task {each.task})" for each in report.classes)
    run = report.retrained or "the run"  # what was trained again has other numbers
    yield f"{gone} of {run}. The model has no such answer."
    own = tuple(range(1, len(report.tasks) + 1))
    if report.tasks != own:
        yield f"Tasks {_list(report.tasks)} of {run} are its tasks {_list(own)}."
        yield f"Below they have their numbers of {run}."
    labels = [task.label for task in description.named_tasks]
    yield from ("", as_markdown(removal_tables(report, list(description.accuracies.values()), labels)), MEMBERSHIP_NOTE)
    if line := few_images(report):
        yield line
    yield from ("", "Left out:", "", *(f"- {line}" for line in report.left_out))
    yield from ("", "What remains:", "", *(f"- {line}" for line in report.remains), "", WORDS, "")


def _usage(description: ModelDescription) -> Iterator[str]:
    yield from ("## Use", "", "```python")
    if description.form != "models":
        yield from ("import tausearch", "")
        yield from (f'tausearch.allow_code("{name}")  # runs the code of that name' for name in description.code)
        yield 'model = tausearch.load_model("FOLDER")  # this folder'
        yield 'model.predict(["image.png"])  # classes and probabilities; model.module is the plain network'
    if description.form != "vectors":
        yield ""
    if description.form == "adapter":
        yield from _backbone(description)
    yield from _opened(description)
    yield from ("```", "")
    if description.transform is not None:
        each = description.transform
        cut = f"resized to {each.resize} pixels ({'shorter side' if each.keep_ratio else 'both sides'})"
        cut = f"{cut}, {each.interpolation}, the middle {each.size} x {each.size} cut out" if each.resize else "as is"
        kind = "grey" if each.channels == 1 else "RGB"
        yield f"What it reads: {kind}, {each.size} x {each.size} pixels ({cut}),"
        yield from (f"scaled to [0, 1], minus {_list(each.mean)}, divided by {_list(each.std)}.", "")


def _opened(description: ModelDescription) -> Iterator[str]:
    if description.form == "timm":
        yield from ("import timm", "from PIL import Image, ImageOps", "")
        yield 'network = timm.create_model("local-dir:FOLDER", pretrained=True).eval()'
        yield "transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network))"
        yield 'image = ImageOps.exif_transpose(Image.open("image.png"))  # as a photo says that it was held'
        yield f'image = transform(image.convert("{"L" if _grey(description) else "RGB"}"))'
        yield "shares = network(image[None]).softmax(-1)[0].tolist()"
        yield 'print(dict(zip(network.pretrained_cfg["label_names"], shares)))'
    elif description.form == "models":
        learned = (f"task_{number}" for number, weight in enumerate(description.weights, start=1) if weight)
        name = next(learned, "theta_0")  # of what --forget left, tasks without a vector have no folder
        yield from ("import safetensors.torch", "")
        whose = "the backbone's own" if _own(description) else "timm's"
        yield f'safetensors.torch.load_file("FOLDER/{name}/model.safetensors")  # by {whose} names'
    elif description.form == "adapter":
        yield 'features = peft.PeftModel.from_pretrained(backbone, "FOLDER")  # has no classifier; it lies beside'
        yield 'head = safetensors.torch.load_file("FOLDER/head.safetensors")'
        mode = "GRAY" if _grey(description) else "RGB"
        yield f'image = decode_image("image.png", mode="{mode}", apply_exif_orientation=True)'
        yield 'logits = features(model.transform([image])) @ head["head.weight"].T + head["head.bias"]'
    elif description.removal is None:
        yield 'tausearch.compose(["FOLDER"], keep=[1])  # any other composition of the same vectors'
    else:
        yield 'tausearch.load_model("FOLDER", keep=[1])  # of one task alone; `compose` refuses what --forget left'


def _grey(description: ModelDescription) -> bool:
    return description.transform is not None and description.transform.channels == 1


def _backbone(description: ModelDescription) -> Iterator[str]:
    name, weights = description.protocol.backbone, description.protocol.backbone_weights
    hub = name != EMBEDDED and weights is None and not _own(description)
    yield from ("import peft", "import safetensors.torch")
    yield from (("import timm",) if hub else ("from trainables.backbones import Backbone",))
    if weights is not None:
        yield "from pathlib import Path"
    yield from ("from torchvision.io import decode_image", "")
    if hub:
        architecture, _, option = name.partition("?")
        size = f", {option}" if option else ""
        yield f'backbone = timm.create_model("{architecture}", pretrained=True, num_classes=0{size}).eval()'
    elif weights is None:
        yield f'backbone = Backbone("{name}").load()'
    else:
        yield f'backbone = Backbone("{name}", Path("WEIGHTS")).load()  # the weights named above'


def _own(description: ModelDescription) -> bool:
    """Whether the backbone is the user's code; nothing is imported."""
    name = description.protocol.backbone
    return is_code(name) or name in installed("backbone")


def _limits(description: ModelDescription) -> Iterator[str]:
    yield from ("## Limits", "")
    yield "- It always answers with one of its classes, whatever the image shows."
    yield "- Its probabilities are a softmax of logits; nobody has calibrated them."
    benchmark = shown_benchmark(description.benchmark)
    yield f"- Accuracies are of the test images of {benchmark}; of another kind expect less."
    yield "- Backbone and images belong to those who published them; their terms hold for what was learned of them."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
