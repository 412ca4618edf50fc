"""The report of a demonstration: one HTML page that needs nothing but itself, and the page that explains every word."""

from __future__ import annotations

from html import escape
from pathlib import Path

from npda.demo.plots import curve_plot, map_plot, systems_plot
from npda.demo.results import BASE, KNN_MT, NPDA, DemoReport, ExplainedExample, marked
from npda.evaluation.tuning.search import Tuning
from npda.explanation.wording import clean, percent
from npda.io.files import atomic_write
from npda.report.explanation import write_page
from npda.report.page import head
from npda.report.plots import inline

_MORE_CSS = """
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem;
  margin: 1.4rem 0 1.6rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--c); border-radius: .8rem;
  padding: .9rem 1.2rem 1rem; }
.tile b { display: block; font-size: 2.3rem; line-height: 1.15; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile.base { --c: var(--both); } .tile.npda { --c: var(--store); } .tile.upper { --c: var(--model); }
.tile.npda b { color: var(--store); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1.6rem; }
.card h2 { font-size: 1.15rem; margin-bottom: .3rem; }
.card svg { width: 100%; height: auto; display: block; }
.card figure { margin: 0; }
.card figcaption { margin: .2rem 0 .6rem; }
table.wide { width: 100%; font-size: 1rem; margin: .6rem 0 .2rem; }
table.wide td, table.wide th { border-top: 1px solid var(--line); padding: .4rem .9rem .4rem 0; text-align: right; }
table.wide thead th { border-top: 0; }
table.wide th:first-child { text-align: left; white-space: nowrap; }
table.wide td { white-space: nowrap; }
table.wide td:first-child { text-align: left; }
.times { columns: 3 11rem; margin: 1rem 0 0; padding: 0; list-style: none; font-size: .9rem; }
.times li { display: flex; justify-content: space-between; padding-right: 2rem; font-variant-numeric: tabular-nums; }
table.wide tr.npda > * { font-weight: 650; } table.wide tr.npda th { color: var(--store); }
.example { border-top: 1px solid var(--line); padding: 1rem 0 .3rem; }
.example dd { font-size: 1.02rem; }
.example dd.new { font-weight: 550; }
ins { text-decoration: none; background: var(--store-tint); border-bottom: 2px solid var(--store); padding: 0 .12rem;
  border-radius: .2rem .2rem 0 0; }
pre { background: var(--track); border-radius: .5rem; padding: .8rem 1rem; overflow-x: auto; }
"""


def write_report(report: DemoReport) -> None:
    """Write the report, and beside it the page on which every word of the examples is explained."""
    page = _page(report)
    with atomic_write(report.page) as temporary:
        temporary.write_text(page, encoding="utf-8")
    with atomic_write(report.why) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        write_page(report.explanations, stream, "Five sentences of parliament, word by word")


def _page(report: DemoReport) -> str:
    title = "A speech translator goes to parliament"
    return f"""{head(title, _MORE_CSS)}<body>
<header>
<h1>{title}</h1>
<p class="intro soft">It has learnt everyday talk, English speech to German text, and has never heard a debate. Here it
is given {report.sentences["parliament text"]:,} translated sentences of parliament, as text alone: no recordings, no
training. They become a datastore, and their neighbours have a say in every word.</p>
</header>
<main>
{_tiles(report)}
{_systems(report)}
{_tuning(report)}
{_examples(report)}
{_honesty(report)}
{_how(report)}
</main>
</body>
</html>
"""


def _tiles(report: DemoReport) -> str:
    legends = {
        BASE: ("base", "the model as it is"),
        NPDA: ("npda", "with parliament's text"),
        KNN_MT: ("upper", "with parliament's speech, which one seldom has"),
    }
    tiles = "\n".join(
        f'<div class="tile {kind}"><span class="soft small">{name}</span><b>{report.systems[name].domain:.1f}</b>'
        f'<span class="soft small">{words}</span></div>'
        for name, (kind, words) in legends.items()
    )
    return f'<div class="tiles" role="group" aria-label="BLEU on parliament">\n{tiles}\n</div>'


def _systems(report: DemoReport) -> str:
    base = report.systems[BASE]
    rows = []
    for name, system in report.systems.items():
        change = "–" if name == BASE else f"{system.domain - base.domain:+.1f}"
        p = "–" if system.p_vs_base is None else p_value(system.p_vs_base)
        kind = ' class="npda"' if name == NPDA else ""
        rows.append(
            f'<tr{kind}><th scope="row">{name}</th><td>{system.domain:.1f}</td><td>{change}</td><td>{p}</td>'
            f"<td>{system.general:.1f}</td></tr>"
        )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("system", "parliament", "Δ", "p", "everyday talk"))
    bars = inline(systems_plot(report.systems), "systems", "BLEU of the systems on both tests")
    curve = inline(curve_plot(report.curve, report.systems), "curve", "BLEU over the size of the datastore")
    return f"""<section class="card">
<h2>BLEU on speech never heard before</h2>
<p class="soft">{report.sentences["parliament test"]} sentences of parliament and {report.sentences["general test"]} of
everyday talk, beam {report.tuning.search.beam}; the stores are left on for both. p: paired bootstrap
resampling against the base model, on parliament.</p>
<table class="wide"><thead><tr>{heads}</tr></thead><tbody>
{"".join(rows)}
</tbody></table>
<div class="pictures">
<figure><figcaption class="soft small">Both tests.</figcaption>{bars}</figure>
<figure><figcaption class="soft small">How much text is needed: an eighth, a quarter, half and all of it, with the same
k, λ and T.</figcaption>{curve}</figure>
</div>
</section>"""


def _tuning(report: DemoReport) -> str:
    best = report.best
    picture = inline(map_plot(report.tuning), "map", f"λ × T map for k = {best.k}")
    rows = "".join(
        f"<tr{' class=npda' if decoded.options == best else ''}><td>{decoded.options.k}</td>"
        f"<td>{decoded.options.lambda_:g}</td><td>{decoded.options.temperature:g}</td><td>{decoded.bleu:.1f}</td></tr>"
        for decoded in report.tuning.decoded
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("k", "λ", "T", "dev BLEU"))
    return f"""<section class="card">
<h2>How much to trust the store</h2>
<p class="soft">Chosen on {report.tuning.sentences} held-out sentences, as text too: the grid by the likelihood of their
translations (colour, for k = {best.k}), then a few points by decoding (numbers).</p>
<div class="pictures">
<figure>{picture}</figure>
<div><table class="wide"><thead><tr>{heads}</tr></thead><tbody>
<tr><td>–</td><td>0</td><td>–</td><td>{report.tuning.base_bleu:.1f}</td></tr>{rows}</tbody></table></div>
</div>
</section>"""


def _examples(report: DemoReport) -> str:
    items = "\n".join(_example(example) for example in report.examples)
    return f"""<section class="card">
<h2>What changes, and why</h2>
<p class="soft">The first sentences of the test that came out differently. Every word of them is explained in
<a href="{escape(report.why.name)}">{escape(report.why.name)}</a>, beside this page.</p>
{items}
</section>"""


def _example(example: ExplainedExample) -> str:
    rows = [("said", "", _text(example.said)), ("base", "", _text(example.base))]
    rows.append(("adapted", "new", _marked_word(example.adapted, example.word)))
    if example.adapted != example.reference:
        rows.append(("reference", "soft", _text(example.reference)))
    if (e := example.because) is not None:
        before, word, after = map(_text, marked(e))
        words = f"“{_text(e.source_text)}” → “{before}<mark>{word}</mark>{after}”"
        rows.append(("because", "", f'{words} <span class="soft small">{percent(e.weight)} of p<sub>kNN</sub></span>'))
    listed = "\n".join(f'<dt>{name}</dt><dd class="{kind}" dir="auto">{text}</dd>' for name, kind, text in rows)
    return f'<div class="example"><dl>\n{listed}\n</dl></div>'


def _marked_word(text: str, word: str) -> str:
    before, found, after = text.partition(word) if word else (text, "", "")
    return f"{_text(before)}<ins>{_text(found)}</ins>{_text(after)}" if found else _text(text)


def _honesty(report: DemoReport) -> str:
    base, npda, upper = (report.systems[name] for name in (BASE, NPDA, KNN_MT))
    alike = report.similarity
    rows = [
        (
            "The price",
            f"Everyday talk falls from {base.general:.1f} to {npda.general:.1f} BLEU if parliament's store is left on: "
            "a store belongs to its domain, and is switched on per request.",
        ),
        (
            "Text instead of speech",
            f"{upper.domain - npda.domain:.1f} BLEU are missing to a store of real recordings (kNN-MT). Decoder states "
            f"of text and of speech have a cosine of {alike['parliament'].cosine:.3f} and a squared distance of "
            f"{alike['parliament'].squared_distance:.1f} on parliament ({alike['general'].cosine:.3f} and "
            f"{alike['general'].squared_distance:.1f} on everyday talk, where they were aligned).",
        ),
        (
            "Tuning on text",
            f"Dev speech would have chosen {_point(report.speech_tuning)} and given {report.speech_tuned:.1f} BLEU, "
            f"{report.text_tuning_loss:+.1f} against the choice made on text.",
        ),
        (
            "Beam and greedy",
            f"Beam {report.tuning.search.beam} gives {npda.domain:.1f}, greedy search {report.greedy:.1f}.",
        ),
    ]
    listed = "\n".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    return f'<section class="card"><h2>The small print</h2>\n<dl>\n{listed}\n</dl></section>'


def _how(report: DemoReport) -> str:
    stages = "".join(
        f"<li><span>{stage_name(stage)}{' *' if stage in report.recalled else ''}</span>"
        f"<span>{seconds:.1f} s</span></li>"
        for stage, seconds in report.seconds.items()
    )
    earlier = '<p class="soft small">* in an earlier run, whose results were found</p>' if report.recalled else ""
    dropped = f", {report.dropped} left out because the model was trained on them" if report.dropped else ""
    model, store = _shell(report.model), _shell(report.stores[NPDA])
    return f"""<section class="card">
<h2>How it was made</h2>
<p>Embedded corpus, seed {report.seed}{dropped}. <code>BLEU|{_text(report.signature)}</code></p>
<pre><code>npda translate speech.wav --model {model} --store {store}
npda explain speech.wav --model {model} --store {store} --html why.html</code></pre>
<ul class="times">{stages}</ul>{earlier}
</section>"""


def stage_name(stage: str) -> str:
    return stage.replace("_", " ")


def p_value(p: float) -> str:
    """As a table shows it; a thousand resamples do not tell smaller ones apart."""
    return "< 0.001" if p <= 0.001 else f"{p:.3f}"


def _point(tuning: Tuning) -> str:
    best = tuning.best
    return f"k {best.k}, λ {best.lambda_:g}, T {best.temperature:g}"


def _shell(path: Path) -> str:
    return _text(str(path))


def _text(text: str) -> str:
    """For HTML."""
    return escape(clean(text))
