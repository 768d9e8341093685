"""InfLoRA: a low-rank branch per task on keys and values, blind to what past tasks' inputs span.

Not here: how what a layer reads is recorded (`backbones.recording`).
"""
