"""The sentences of the embedded corpus: one spoken English, two domains, German and French translations.

The domains share their English words but not the wording of their translations (`floor` is `Boden` at home
and `Wort` in parliament), which is what makes a translator trained on the one fail on the other.
"""

import random
from bisect import bisect
from functools import cache
from itertools import accumulate

from npda.corpus.mini.frames import Frame
from npda.corpus.mini.lexicon import load_lexicon, read_yaml
from npda.corpus.pairs import Pair
from npda.io.errors import InputError

# Names the caches of prepared speech: to be raised whenever the sentences change, or the way they are read aloud.
VERSION = "5"
DOMAINS = ("general", "parliament")
LANGUAGES = ("de", "fr")
MAX_ATTEMPTS = 100
SPLITS = {
    ("general", "train"): 6000,
    ("general", "dev"): 200,
    ("general", "test"): 300,
    ("parliament", "train"): 2500,
    ("parliament", "dev"): 200,
    ("parliament", "test"): 300,
}


def sentences(domain: str, split: str, language: str = "de", seed: int = 0) -> list[Pair]:
    """One split. No English sentence and no translation occurs twice among all the splits of a seed."""
    if (domain, split) not in SPLITS:
        raise InputError(
            f"mini has no split {domain!r}/{split!r}; domains: {', '.join(DOMAINS)}; splits: train, dev, test"
        )
    if language not in LANGUAGES:
        raise InputError(f"mini has no language {language!r}; choose one of {', '.join(LANGUAGES)}")
    drawn = _draw_all(seed)[domain, split]
    return [
        Pair(sentence["en"], sentence[language], f"{domain}-{split}-{number:05d}", language)
        for number, sentence in enumerate(drawn, start=1)
    ]


@cache
def frames(domain: str) -> tuple[Frame, ...]:
    """All sentence patterns of a domain, checked."""
    lexicon = load_lexicon(domain)
    found = []
    for entry in read_yaml(f"{domain}.yaml")["frames"]:
        if missing := {"en", *LANGUAGES} - set(entry):
            raise InputError(f"{domain}.yaml: the frame {entry} has no line {min(missing)!r}")
        lines = {language: entry[language] for language in ("en", *LANGUAGES)}
        found.append(Frame(lines, entry.get("weight", 1), lexicon))
    return tuple(found)


@cache
def _draw_all(seed: int) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Every split of a seed, each sentence as {"en": …, "de": …, "fr": …}."""
    seen = {language: set() for language in ("en", *LANGUAGES)}
    splits = {}
    for domain in DOMAINS:
        sizes = {key: size for key, size in SPLITS.items() if key[0] == domain}
        drawn = _draw(domain, sum(sizes.values()), random.Random(f"{seed}-{domain}"), seen)
        ends = accumulate(sizes.values())
        splits |= {key: drawn[end - sizes[key] : end] for key, end in zip(sizes, ends, strict=True)}
    return splits


def _draw(domain: str, count: int, rng: random.Random, seen: dict[str, set[str]]) -> list[dict[str, str]]:
    """`count` sentences that are new in every language, in random order; `seen` grows by them."""
    patterns = frames(domain)
    weights = list(accumulate(frame.weight for frame in patterns))
    drawn: list[dict[str, str]] = []
    for number in range(count):
        # Each frame gets its share by weight exactly, so that no seed leaves a word out by bad luck.
        frame = patterns[bisect(weights, (number + 0.5) / count * weights[-1])]
        sentence, attempts = frame.sample(rng), 1
        while any(sentence[language] in seen[language] for language in seen):
            if attempts >= MAX_ATTEMPTS:  # a narrow frame has run dry: others fill its share
                frame = rng.choices(patterns, cum_weights=weights)[0]
            sentence, attempts = frame.sample(rng), attempts + 1
        for language in seen:
            seen[language].add(sentence[language])
        drawn.append(sentence)
    rng.shuffle(drawn)
    return drawn
