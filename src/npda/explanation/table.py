"""Explanations in the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npda.explanation.records import Evidence, Explanation, Word
from npda.explanation.wording import clean, number, percent, recording, replaced, where
from npda.explanation.words import WORD_BEGIN
from npda.terms.replacing import Placed

_STYLES = {"store": "dark_orange3", "model": "blue", "both": ""}
_WIDE = 100  # columns of a terminal that has room for everything


def render(e: Explanation, width: int = 120) -> RenderableType:
    """The two translations, and for every word its probabilities and the sentence that weighs most."""
    wide = width >= _WIDE
    rows = [_row(e, word) for word in e.words]
    if not wide:
        rows = [[*row[:5], row[-1]] for row in rows]
    names = ["word", "by", "p model", "p kNN", "p", *(["model alone", "d²"] if wide else [])]
    taken = [max(len(name), *(len(str(row[i])) for row in rows)) for i, name in enumerate(names)]
    room = max(20, width - sum(taken) - 2 * len(taken))

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name.startswith(("p", "d")) else "left", no_wrap=True)
    table.add_column("best neighbour", no_wrap=True)
    several = len({(found.store, found.source) for word in e.words for found in word.evidence}) > 1
    for *cells, best in rows:
        table.add_row(*cells, _marked(best, room, several) if best else Text("none", style="dim"))
    title = _text(recording(e.audio), "bold").append(_text(f"  {e.signature}", "not bold dim"))
    return Group(title, *_lines(e), "", table, "")


def _lines(e: Explanation) -> list[Text]:
    base = Text(" ").join(_text(word.text, "" if word.kept else "strike red") for word in e.base_words)
    adapted = Text(" ").join(_name(word) for word in e.words if not word.end)
    lines = {"transcript": _text(e.transcript), "base": base, "adapted": adapted}
    lines |= {"terms": _placed(e.placed) if e.placed else Text(), "reference": _text(e.reference)}
    if any(share < 1 for share in e.openness.values()):
        lines["gates open"] = _text(", ".join(f"{name} {percent(share)}" for name, share in e.openness.items()))
    return [Text(f"{label:<12}", style="dim").append(text) for label, text in lines.items() if text.plain]


def _placed(placed: Placed) -> Text:
    """The text with the wanted terms, and what each stands for."""
    text, after = Text(), 0
    for done in placed.replacements:
        text.append(_text(placed.text[after : done.start])).append(_text(placed.text[done.start : done.end], "bold"))
        after = done.end
    text.append(_text(placed.text[after:]))
    if placed.replacements:
        text.append(_text(f"  ({'; '.join(map(replaced, placed.replacements))})", "dim"))
    return text


def _row(e: Explanation, word: Word) -> list:
    changed = next((token for token in e.tokens[word.first : word.last + 1] if token.changed), None)
    best = word.evidence[0] if word.evidence else None
    return [
        _name(word),
        Text(word.decided_by, style=_STYLES[word.decided_by]),
        *(number(p) for p in (word.p_model, word.p_knn, word.p)),
        _text(f"{changed.base_piece} {number(changed.base_p)}" if changed else ""),
        f"{best.distance:.3g}" if best else "",
        best,
    ]


def _marked(e: Evidence, room: int, say_where: bool) -> Text:
    """The target sentence with the place in brackets, to be seen without colours too; cut so that it fits."""
    origin = f"  {where(e)}" if say_where else ""
    at = e.target_text[e.start : e.end] or ("∎" if e.end == len(e.target_text) else WORD_BEGIN)
    before, after = e.target_text[: e.start], e.target_text[e.end :]
    around = max(8, room - len(at) - 2 - len(origin))
    left = min(len(before), max(around // 2, around - len(after)))
    right = around - left
    if len(before) > left:
        before = "…" + before[len(before) - left + 1 :]
    if len(after) > right:
        after = after[: right - 1] + "…"
    text = _text(before).append(_text(f"[{at}]", f"bold {_STYLES['store']}" if e.agrees else "bold dim"))
    return text.append(_text(after)).append(_text(origin, "dim"))


def _name(word: Word) -> Text:
    style = f"bold {_STYLES[word.decided_by]}" if word.new else _STYLES[word.decided_by]
    return _text("∎" if word.end else word.text or "–", style)


def _text(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style)
