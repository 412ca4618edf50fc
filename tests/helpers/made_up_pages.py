"""Reports made up by hand, with one text wherever a text comes from outside; no model is needed."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.demo.page import write_report
from npda.demo.results import BASE, GUARDED, KNN_MT, NPDA, CurvePoint, DemoReport, SystemResult
from npda.demo.terms import Listed, TermExample, TermUse
from npda.evaluation.faults import Faults
from npda.evaluation.similarity import Similarity
from npda.evaluation.tuning.climb import Point
from npda.evaluation.tuning.objective import Decoded, Outcome, Setting
from npda.evaluation.tuning.search import Tuning
from npda.explanation.records import BaseWord, Evidence, Explanation, Token, Word
from npda.report.explanation import write_page
from npda.report.table import Cell, Table
from npda.terms.replacing import Placed, Replacement

HOSTILE = '<script>alert("1")</script>\x1b[31m\x00 &amp; \' onload=x $x_1$ <img src=http://example.org/x.png> \\g<1>'
SHOWN = HOSTILE.replace("\x1b", "�").replace("\x00", "�")  # as a page shows it

LAMBDAS, TEMPERATURES = (0.1, 0.3, 0.5, 0.7), (1.0, 10.0, 100.0)


def evidence(text: str, number: int, store: str = "domain") -> Evidence:
    """The mark stands on characters 1 to 9 of the text."""
    return Evidence(0.5 * number, 0.4 / (number + 1), number % 2 == 0, text, text, 1, 9, text, store)


def explanation(text: str = "die Küche im Haus", sentences: int = 10, stores: int = 1) -> Explanation:
    """Two words of two tokens each, and the end. sentences: behind every word"""
    behind = tuple(evidence(text, number, f"store {number % stores}") for number in range(sentences))
    tokens = tuple(Token(n, text, 0.2, 0.9, 0.5, 0.55, n + n % 2, text, 0.6, "store", ()) for n in range(5))
    words = (
        Word(text, False, 0, 1, 0.04, 0.8, 0.3, "store", True, behind),
        Word(text, False, 2, 3, 0.0004, 0.0, 0.01, "model", False, ()),
        Word("", True, 4, 4, 0.9, 0.9, 0.9, "both", False, behind[:1]),
    )
    base = (BaseWord(text, True), BaseWord(text, False))
    placed = Placed(text, (Replacement(text, text, text, 1, 9, True), Replacement(text, text, text, 9, 10)))
    return Explanation(text, text, f"{text}.", -1.5, text, words, base, tokens, text, text, placed=placed)


def tuning() -> Tuning:
    """The best of eight neighbours is λ 0.5, T 10."""
    points = [
        Point(KnnOptions(k, lambda_, temperature), -3.0 - abs(lambda_ - 0.5) - abs(temperature - 10) / 50 - 1 / k)
        for k, lambda_, temperature in itertools.product((4, 8), LAMBDAS, TEMPERATURES)
    ]
    best = KnnOptions(8, 0.5, 10.0)
    faults = Faults(n=40, words=400, reference_words=400, cut_short=0, empty=0, looping=0)
    scores = {best: 61.25, KnnOptions(8, 0.3, 10.0): 58.5, KnnOptions(4, 0.5, 10.0): 57.0}
    decoded = tuple(Decoded(Setting(knn), Outcome(score, 80.0, faults)) for knn, score in scores.items())
    return Tuning(
        best, 0.6, 1.0, decoded[0].outcome, Outcome(9.5, 30.0, faults), 70.0, 19.75, -4.0, tuple(points), decoded,
        "text", SearchOptions(), False, 90.0, 1.0, 40, 0, 1.5,
    )  # fmt: skip


def demo_report(folder: Path, text: str = "die Küche im Haus") -> DemoReport:
    systems = {
        BASE: SystemResult(94.25, 9.5),
        NPDA: SystemResult(5.125, 73.25, 0.0005),
        GUARDED: SystemResult(93.75, 74.25, 0.0005),
        KNN_MT: SystemResult(4.875, 75.5, 0.0123),
    }
    curve = tuple(CurvePoint(share, int(2500 * share), int(25000 * share), 73 * share) for share in (0.25, 0.5, 1.0))
    # A file name holds no slash.
    model = folder / text.replace("/", "∕").replace("\x00", "")
    return DemoReport(
        systems,
        tuning(),
        tuning(),
        tuning(),
        74.5,
        tuning(),
        70.75,
        {"general": Similarity(0.987, 12.25, 40), "parliament": Similarity(0.913, 30.5, 40)},
        curve,
        (explanation(text), explanation("ein Satz", 0)),
        {"store": 12.5, "npda_tuning": 3.25, "significance": 100.0},
        115.75,
        ("store",),
        7,
        {"parliament text": 2500, "parliament test": 300, "general test": 300},
        0,
        text,
        model,
        {NPDA: model / "text", KNN_MT: model / "speech"},
        folder / "report.html",
        folder / "why.html",
        TermUse(57, 1, 55, 480, 2, (TermExample(text, Listed(text, f"{text} {text}", (text,))),), model / "terms"),
    )


def tables(text: str = "NPDA-kNN-ST") -> list[Table]:
    """One of every kind that has a picture, and one that is wider than every screen."""
    columns = ("system", *(f"column {number}" for number in range(24)))
    scores = ("system", "de", "avg", "Δ")
    cells = [Cell("73.25", 73.25, 0.0123, text, "⇑", 71.5, best=True, form=".2f"), Cell("9.50", 9.5)]
    rows = tuple((Cell(name, name), cell, cell, cell) for name, cell in zip((text, "E2E-ST-Base"), cells, strict=True))
    size = ("direction", "language", "share", "pairs", "keys", "BLEU")
    share = (Cell(text, text), Cell("de", "de"), Cell("0.5", 0.5), Cell("5", 5), Cell("50", 50), Cell("9.5", 9.5))
    speed = (Cell("8", 8), Cell("1.10×", 1.1), Cell("1.50×", 1.5))
    return [
        Table("adaptation", "adaptation", text, scores, rows, (text, f"BLEU|{text}")),
        Table("datastore-size", "size", text, size, (share, share)),
        Table("speed", "speed", text, ("k", "batch 1", f"batch {text}"), (speed, speed)),
        Table("other", "wide", text, columns, (tuple(Cell(text, text) for _ in columns),)),
    ]


def explanation_page(*explanations: Explanation) -> str:
    stream = io.StringIO()
    assert write_page(explanations, stream) == len(explanations)
    return stream.getvalue()


def demo_pages(folder: Path, text: str = "die Küche im Haus") -> tuple[str, str]:
    """The report, and the page that explains its words."""
    report = demo_report(folder, text)
    write_report(report)
    return report.page.read_text(encoding="utf-8"), report.why.read_text(encoding="utf-8")
