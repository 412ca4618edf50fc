"""What Whisper hears after an utterance: word error, BLEU and time by seconds of silence; 30 is its own padding.

NPDA_MODELS=… NPDA_DATA=… python benchmarks/whisper_silence.py [--sentences 100] [--json]
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from npda.corpus.manifest import read_manifest
from npda.decoding.beam import SearchOptions
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu, wer
from npda.models.whisper import Whisper

SILENCES = (0.5, 1.0, 2.0, 5.0, 30.0)
DOMAINS = ("tatoeba", "dialogue")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sentences", type=int, default=100, help="of the dev set of each domain")
    arguments.add_argument("--silence", type=float, nargs="+", default=SILENCES, help="seconds")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    folders = Path(os.environ.get("NPDA_MODELS", "models")), Path(os.environ.get("NPDA_DATA", "data"))
    model, corpus = folders[0] / "whisper-base", folders[1] / "pico-de-en"
    for folder in (model, corpus):
        if not folder.is_dir():
            sys.exit(f"skipped: there is no {folder}; set NPDA_MODELS and NPDA_DATA.")
    whisper = Whisper.from_pretrained(model, "de")
    clips = [u for domain in DOMAINS for u in read_manifest(corpus / domain / "dev.tsv")[: given.sentences]]
    heard = DevSet(whisper, [replace(u, tgt_text=u.src_text, tgt_lang="de") for u in clips], "speech")
    translated = DevSet(whisper, clips, "speech")
    rows = []
    for silence in given.silence:
        rows.append(measured(whisper, silence, heard, translated))
        print(rows[-1], file=sys.stderr, flush=True)
    if given.json:
        print(json.dumps(rows))
        return
    table = Table(
        "silence (s)", "WER %", "BLEU", "CPU s a clip", "load", title=f"{len(clips)} clips, greedy, one thread"
    )
    for row in rows:
        table.add_row(*(f"{row[name]:g}" for name in ("silence", "wer", "bleu", "seconds", "load")))
    Console().print(table)


def measured(whisper: Whisper, silence: float, heard: DevSet, translated: DevSet) -> dict[str, float]:
    whisper.silence = silence
    greedy = SearchOptions(beam=1, max_length=80)
    for devset in (heard, translated):
        devset._kept.clear()  # what was encoded with another silence
    transcripts = heard.translations(greedy)
    start = time.process_time()
    translations = translated.translations(greedy)
    seconds = (time.process_time() - start) / len(translated)
    return {
        "silence": silence,
        "wer": round(wer(transcripts, heard.references).value, 1),
        "bleu": round(bleu(translations, translated.references).value, 1),
        "seconds": round(seconds, 3),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
