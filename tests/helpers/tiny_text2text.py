"""A random translator of text."""

import tiny
import torch

from npda.models.text2text import Text2Text


def model(languages: tuple[str, ...] = ()) -> Text2Text:
    """Random weights, spread widely so that searches differ."""
    torch.manual_seed(5)
    size = dict(dim=32, encoder_layers=2, decoder_layers=2, heads=4, ffn=48)
    made = Text2Text.create("mini", tiny.vocabulary(), tiny.vocabulary(languages), **size)
    for parameter in made.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return made
