"""A small model with a text encoder, and settings that train it in seconds."""

import tiny

from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.training.loop.settings import TrainingSettings

SETTINGS = TrainingSettings(
    batch_frames=60, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    max_epochs=2, patience=None, average=1,
)  # fmt: skip


def aligned_backbone(layers: int = 2):
    model = tiny.backbone()
    model.text_encoder = TextEncoder(
        TextEncoderSize(len(tiny.vocabulary()), model.dim, layers, heads=4, ffn=64, dropout=0.0)
    )
    return model.eval()
