"""Does a translator listen? References under their own source, and under that of another sentence.

    python -m benchmarks.listening --model DIR part_test.tsv [--sentences 200] [--json]

Where the two are as likely, and the decoder's states as alike, the decoder writes what is usual and not what is said:
no datastore can help it, since its states do not tell which sentence is meant.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from npda.corpus.manifest import Utterance, read_manifest
from npda.evaluation.devset import DevSet
from npda.evaluation.similarity import sentence_states
from npda.models import load_backbone
from npda.models.backbone import Backbone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="directory; with a text encoder, text is asked too")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    backbone = load_backbone(options.model)
    utterances = read_manifest(options.manifest)[: options.sentences]
    found = listening(backbone, utterances)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:52} {value:8.3f}")


@torch.inference_mode()
def listening(backbone: Backbone, utterances: Sequence[Utterance]) -> dict[str, float]:
    """Nats a token of the references, cosines of the decoder's states: with the right source, with a wrong one."""
    ways = ("speech", "text") if getattr(backbone, "text_encoder", None) is not None else ("speech",)
    found: dict[str, float] = {}
    states: dict[tuple[str, str], list[Tensor]] = {}
    for way in ways:
        for source, given in (("own", utterances), ("other", exchanged(utterances))):
            devset = DevSet(backbone, given, way)
            states[way, source] = sentence_states(devset)
            found[f"cross-entropy, {source} {way}"] = cross_entropy(backbone, devset, states[way, source])
    pairs = [("own speech and other speech", ("speech", "own"), ("speech", "other"))]
    if "text" in ways:
        pairs += [(f"own speech and {which} text", ("speech", "own"), ("text", which)) for which in ("own", "other")]
    for name, one, other in pairs:
        found[f"cosine, {name}"] = cosine(states[one], states[other])
    return found


def exchanged(utterances: Sequence[Utterance]) -> list[Utterance]:
    """Every translation with the speech and the transcript of the sentence half a list away."""
    half = len(utterances) // 2
    sources = [*utterances[half:], *utterances[:half]]
    return [
        replace(source, id=target.id, tgt_text=target.tgt_text)
        for source, target in zip(sources, utterances, strict=True)
    ]


def cross_entropy(backbone: Backbone, devset: DevSet, states: Sequence[Tensor]) -> float:
    total, count = 0.0, 0
    for example, rows in zip(devset.examples, states, strict=True):
        log_probs = backbone.logits(rows).log_softmax(dim=-1)
        total -= float(log_probs.gather(1, torch.tensor(example.target)[:, None]).sum())
        count += len(rows)
    return total / count


def cosine(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    means = [torch.cosine_similarity(a, b, dim=1).mean() for a, b in zip(one, other, strict=True)]
    return float(torch.stack(means).mean())


if __name__ == "__main__":
    main()
