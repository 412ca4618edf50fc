"""What there is to say of a store, line by line: `npda inspect` prints it, its card has it in tables."""

from __future__ import annotations

from npda.datastore.format import StoreInfo
from npda.datastore.measured import GuardRecord, TunedRecord
from npda.io.card import bytes_text


def described(info: StoreInfo) -> list[tuple[str, str]]:
    """What a store is made of, how it is searched, how large it is and whose it is."""
    sizes, index, recall = info.sizes(), info.index, info.index.recall
    searched = "all keys compared" if index.directory is None else f"nprobe {index.nprobe}, rerank {index.rerank}"
    found = "1 by definition" if index.directory is None else "not measured"
    if recall is not None:
        found = f"{recall.value:.3f} ({recall.queries} queries as of a new sentence, {recall.keys:,} keys)"
    scale = "not measured yet" if info.distance_scale is None else f"{info.distance_scale:.4g}"
    per_key = sizes["keys"] / max(info.count, 1)
    compressed = [f"{info.pruned:,} keys left out, others nearby say the same"] if info.pruned else []
    if (projection := info.projection) is not None:
        share = f"{100 * projection.variance:.1f} % of the variance"
        compressed.append(f"{info.dim} of {projection.dim} dimensions with {share}")
    return [
        ("entries", f"{info.count:,} keys of {info.dim} × {info.dtype}"),
        *([("compressed", "; ".join(compressed))] if compressed else []),
        ("made of", ", ".join(info.kinds) or "nothing"),
        ("keys", f"{bytes_text(sizes['keys'])}, {per_key:.1f} B/key ({info.key})"),
        ("index", f"{index.factory}: {searched} (asked for: {index.asked})"),
        ("index size", f"{bytes_text(sizes['index'])}, {index.bytes_per_key:.1f} B/key"),
        ("recall@8", found),
        ("distance scale", scale),
        ("on disk", f"{bytes_text(sizes['total'])} in {len(info.shards)} shard{'s' * (len(info.shards) != 1)}"),
        ("model", f"{info.backbone.name} {info.backbone.digest[:12]}"),
        ("vocabulary", f"{info.vocabulary_size:,} tokens, {info.vocabulary[:12]}"),
        ("digest", info.digest()[:12]),
    ]


def measured(tuned: TunedRecord | None, guard: GuardRecord | None) -> list[tuple[str, str]]:
    """What the store was tuned to, what it gained in its domain, and what it cost general sentences."""
    if tuned is None:
        return [("tuned", "not yet: run `npda tune`")]
    settings = f"k {tuned.k}, λ {tuned.lambda_:g}, T {tuned.temperature:g}, α {tuned.length_penalty:g}"
    gain = f"BLEU {tuned.base_bleu:.1f} → {tuned.bleu:.1f}"
    if tuned.chrf is not None and tuned.base_chrf is not None:
        gain += f", chrF {tuned.base_chrf:.1f} → {tuned.chrf:.1f}"
    rows = [("tuned", f"{settings} ({tuned.way})"), ("gain on dev", gain)]
    if guard is None:
        return [*rows, ("gate", "none: left on, the store steers whatever is said")]
    gate, *price = guard.lines()
    told = [("price", line.removeprefix("left on for ")) for line in price]
    return [*rows, ("gate", gate.removeprefix("gate: ")), *told]
