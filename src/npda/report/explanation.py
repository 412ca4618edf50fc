"""Explanations as one HTML page that needs nothing but itself: no network, and no script if there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TextIO

from npda.explanation.records import Evidence, Explanation, Token, Word
from npda.explanation.wording import clean, number, percent, recording, verdict, where
from npda.explanation.words import WORD_BEGIN
from npda.report.page import head
from npda.report.style import SCRIPT

SHOWN = 8  # sentences behind a word; all of them are in the JSON


def write_page(explanations: Iterable[Explanation], stream: TextIO, title: str = "Why these words?") -> int:
    """Write a section for every explanation as soon as it is there; return how many there were."""
    stream.write(_opening(title))
    count = 0
    for count, explanation in enumerate(explanations, 1):
        stream.write(_card(explanation, f"u{count}"))
    stream.write(f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")
    return count


def _opening(title: str) -> str:
    return f"""{head(title, script=SCRIPT)}<body>
<header>
<h1>{escape(title)}</h1>
<p class="intro soft">Each word of a translation is chosen by the model and by the sentences in the datastore that came
to the same point: p = λ·p<sub>kNN</sub> + (1 − λ)·p<sub>model</sub>. Choose a word to see the sentences behind it.</p>
<ul class="legend">
<li><span class="key by-store">store</span> the store decided</li>
<li><span class="key by-model">model</span> the model decided</li>
<li><span class="key by-both">both</span> both wanted it</li>
<li><b>bold</b> not in the base translation</li>
</ul>
</header>
<main>
"""


def _card(e: Explanation, id_: str) -> str:
    spoken = [word for word in e.words if not word.end]
    decided = sum(word.decided_by == "store" for word in spoken)
    tally = f"the store decided {decided} of {len(spoken)} words"
    if e.text == e.base_text:
        tally += ", the text stays the same"
    lines = [("Transcript", "", _text(e.transcript)) if e.transcript else None]
    lines.append(("Base model", "", " ".join(_base_word(w.text, w.kept) for w in e.base_words) or "–"))
    words = " ".join(_word(word, f"{id_}w{place}") for place, word in enumerate(e.words))
    lines.append(("With the store", "adapted", words))
    lines.append(("Reference", "", _text(e.reference)) if e.reference else None)
    rows = "\n".join(f'<dt>{n}</dt><dd class="{c}" dir="auto">{text}</dd>' for n, c, text in filter(None, lines))
    panels = "".join(_panel(e, word, f"{id_}w{place}") for place, word in enumerate(e.words))
    return f"""<section class="card" aria-labelledby="{id_}">
<div class="head"><h2 id="{id_}">{_text(recording(e.audio))}</h2><span class="soft small">{tally}</span></div>
<dl>
{rows}
</dl>
<p class="hint soft small">Choose a word to see what is behind it.</p>
{panels}<p class="soft small"><code>{_text(e.signature)}</code></p>
</section>
"""


def _base_word(text: str, kept: bool) -> str:
    return _text(text) if kept else f"<del>{_text(text)}</del>"


def _word(word: Word, id_: str) -> str:
    new = " new" if word.new else ""
    tip = f"p model {number(word.p_model)}, p kNN {number(word.p_knn)}, p {number(word.p)}"
    label = ' aria-label="end of the sentence"' if word.end else ""
    return f'<a class="word by-{word.decided_by}{new}" href="#{id_}" title="{tip}"{label}>{_name(word)}</a>'


def _panel(e: Explanation, word: Word, id_: str) -> str:
    tokens = e.tokens[word.first : word.last + 1]
    who, instead = verdict(word, tokens)
    heading = "end of the sentence" if word.end else _name(word)
    return f"""<article class="panel" id="{id_}" aria-labelledby="{id_}h">
<h3 id="{id_}h" dir="auto">{heading}</h3>
<p class="verdict by-{word.decided_by}"><b>{_text(who)}</b> {_text(instead)}</p>
{_bars(word)}
{_token_table(tokens) if len(tokens) > 1 else ""}{_sentences(word.evidence)}
</article>
"""


def _bars(word: Word) -> str:
    shares = (("model", "model", word.p_model), ("store", "kNN", word.p_knn), ("both", "", word.p))
    rows = [
        f'<span class="soft small">p<sub>{name}</sub></span>{_bar(p, who)}<span class="number">{number(p)}</span>'
        for who, name, p in shares
    ]
    return f'<div class="bars">{"".join(rows)}</div>'


def _bar(share: float, who: str = "") -> str:
    by = f" by-{who}" if who else ""
    return f'<span class="bar{by}" aria-hidden="true"><i style="--p:{share:.4f}"></i></span>'


def _token_table(tokens: Sequence[Token]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><code>{_text(t.piece)}</code></th><td>{number(t.p_model)}</td><td>{number(t.p_knn)}</td>'
        f"<td>{number(t.p)}</td><td><code>{_text(t.base_piece)}</code> {number(t.base_p)}</td></tr>"
        for t in tokens
    )
    return (
        '<table><thead><tr><th scope="col">token</th><th scope="col">p<sub>model</sub></th>'
        '<th scope="col">p<sub>kNN</sub></th><th scope="col">p</th><th scope="col">the model alone</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>\n"
    )


def _sentences(evidence: Sequence[Evidence]) -> str:
    if not evidence:
        return '<p class="soft">The store has no neighbours here.</p>'
    origins = {where(e) for e in evidence}
    origin = f' <span class="soft small">in {_text(where(evidence[0]))}</span>' if len(origins) == 1 else ""
    items = "\n".join(_item(e, len(origins) > 1) for e in evidence[:SHOWN])
    rest = evidence[SHOWN:]
    weight = percent(sum(e.weight for e in rest))
    more = f'<p class="soft small">and {len(rest)} more, together {weight}</p>' if rest else ""
    return f'<h4>The sentences behind it{origin}</h4>\n<ol class="evidence">\n{items}\n</ol>{more}'


def _item(e: Evidence, say_where: bool) -> str:
    before, at, after = e.target_text[: e.start], e.target_text[e.start : e.end], e.target_text[e.end :]
    marked = f"{_text(before)}<mark>{_text(at) or _gap(e)}</mark>{_text(after)}"
    origin = f'<p class="soft small">{_text(where(e))}</p>' if say_where else ""
    return (
        f'<li class="{"same" if e.agrees else "other"}"><div class="small">{_bar(e.weight)}'
        f'<div class="share"><span title="share in p kNN">{percent(e.weight)}</span>'
        f'<span class="soft" title="squared distance of the decoder states">d² {e.distance:.3g}</span></div></div>'
        f'<div><p dir="auto">{marked}</p><p class="soft" dir="auto">{_text(e.source_text)}</p>{origin}</div></li>'
    )


def _gap(e: Evidence) -> str:
    """A mark for what has no letters: the end of a sentence, or the beginning of a word."""
    return "∎" if e.end == len(e.target_text) else WORD_BEGIN


def _name(word: Word) -> str:
    return "∎" if word.end else _text(word.text) or "–"


def _text(text: str) -> str:
    """For HTML: texts come from outside."""
    return escape(clean(text))
