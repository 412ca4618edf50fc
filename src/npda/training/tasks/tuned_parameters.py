"""What of a model is trained and what stays frozen, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from npda.models import Trainable

# all: everything that speech passes through; decoder: the decoder alone, for instance after a frozen recogniser's
# encoder; lna-d: layer norms and attention of the decoder (Li et al. 2021); adapters: those of the data's languages.
Tunes = Literal["all", "decoder", "lna-d", "adapters"]
TUNES: tuple[str, ...] = get_args(Tunes)

_DECODER = ("model.model.decoder.", "model.lm_head.")
_LNA = re.compile(r"model\.model\.decoder\.(layers\.\d+\.(self_attn|encoder_attn|\w+_layer_norm)|layer_norm)\..*")

_IS_TUNED: dict[str, Callable[[str], bool]] = {
    "all": lambda name: not name.startswith(("text_encoder.", "selection.")),
    "decoder": lambda name: name.startswith(_DECODER),
    "lna-d": lambda name: _LNA.fullmatch(name) is not None,
    "adapters": lambda name: name.startswith("adapters."),
}


def freeze(backbone: Trainable, tunes: Tunes, languages: Sequence[str] = (), gates: bool = False) -> None:
    """Leave only what is tuned with a gradient.

    languages: whose adapters are tuned, if adapters are: a set that sees no data would only decay
    gates: whether those of the feature selection are tuned too; without their penalty they would all open
    """
    others = () if backbone.adapters is None else set(backbone.adapters.languages) - set(languages)
    apart = (*backbone.fixed, *(f"adapters.sets.{language}." for language in others))
    for name, parameter in backbone.named_parameters():
        tuned = _IS_TUNED[tunes](name) and not name.startswith(apart)
        parameter.requires_grad_(tuned or (gates and name.startswith("selection.")))


def reaches_encoder(backbone: Trainable) -> bool:
    """Whether what is tuned changes the encoder's output, so that a loss on it has something to teach."""
    parts = [name.split(".") for name, parameter in backbone.named_parameters() if parameter.requires_grad]
    return any("encoder" in part for part in parts)
