"""What backbones made of torch modules have in common."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from npda.models.backbone import Suppressed
from npda.models.digests import weights_digest

_DECODERS = {"decoder", "text_decoder"}  # what transformers' models call theirs


class TorchBackbone(nn.Module):
    """The half of a `Backbone` that does not depend on the architecture. A family overrides what does not suit it."""

    suppressed = Suppressed()

    def __init__(self) -> None:
        super().__init__()
        self._digest_in_full: str | None = None

    @property
    def source_language(self) -> str | None:
        return None

    def decoder_weights(self) -> Mapping[str, Tensor]:
        """The weights by name that the states for a given memory depend on: all of the submodules called decoder."""
        found = {name: w for name, w in self.state_dict().items() if not _DECODERS.isdisjoint(name.split("."))}
        if not found:
            raise NotImplementedError(
                f"{type(self).__name__} has no submodule called decoder or text_decoder: override decoder_weights(), "
                "by which datastores tell one model from another."
            )
        return found

    def decoder_digest(self) -> str:
        return self._digest_in_full or weights_digest(self.decoder_weights())

    def model_digest(self) -> str:
        return weights_digest(self.state_dict())

    def place(self, device: torch.device, dtype: torch.dtype) -> None:
        """Rounded weights have another digest, so that a rounded model keeps the one it had."""
        if dtype != torch.float32:
            self._digest_in_full = self.decoder_digest()
        self.to(device, dtype)
