"""Look and movement of the explanation page: one style sheet, one small script, nothing from elsewhere."""

CSS = """
:root { color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #1c1b19; --soft: #5d5a55; --line: #e2ded7; --track: #ece8e1;
  --model: #1d5fb4; --model-tint: #e4eefb; --store: #a84300; --store-tint: #fdead9; --both: #4b5b52;
  --both-tint: #e9efeb; --gone: #8c2f39; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #161719; --card: #1f2124; --ink: #ecebe8; --soft: #a9a6a0; --line: #34373b; --track: #303338;
  --model: #86b7f6; --model-tint: #1d3350; --store: #ffab6b; --store-tint: #4a2b14; --both: #a9c2b4;
  --both-tint: #29352e; --gone: #f19aa3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 58rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1.2rem; margin: 0; }
p { margin: .4rem 0; }
code { font: .85em ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.intro { max-width: 46rem; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; margin: 1rem 0 1.6rem; padding: 0; list-style: none; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.2rem 1.4rem;
  margin: 0 0 1.6rem; }
.head { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .2rem 1.5rem; margin-bottom: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .55rem 1.1rem; margin: 0; }
dt { color: var(--soft); font-size: .85rem; padding-top: .2rem; }
dd { margin: 0; font-size: 1.1rem; }
dd.adapted { line-height: 2; margin-top: -.25rem; }
dd del { color: var(--gone); text-decoration-thickness: 1px; }
.word, .key { --c: var(--both); --t: transparent; border-bottom: 3px double var(--c); }
.word { color: inherit; text-decoration: none; padding: .12rem .22rem .02rem; border-radius: .3rem .3rem 0 0;
  background: var(--t); }
.by-model { --c: var(--model); }
.by-store { --c: var(--store); }
.word.by-model, .key.by-model { border-bottom-style: dotted; }
.word.by-store, .key.by-store { border-bottom-style: solid; }
.word.new { font-weight: 650; }
.by-store.word, .by-store.key { --t: var(--store-tint); }
.by-model.word, .by-model.key { --t: var(--model-tint); }
.key { background: var(--t); padding: 0 .3rem; }
.word:hover, .word[aria-expanded=true] { background: var(--c); color: var(--card); }
.word:focus-visible, summary:focus-visible, .panel:focus-visible { outline: 3px solid var(--model);
  outline-offset: 2px; }
.hint { margin-top: 1rem; }
.panel { display: none; border-top: 1px solid var(--line); margin-top: 1.1rem; padding-top: 1.1rem;
  scroll-margin-top: 14rem; }
.panel:target, .panel.open { display: block; }
.scripted .panel:target:not(.open), .scripted .hint { display: none; }
.verdict { margin: .2rem 0 .9rem; }
.verdict b { color: var(--c); }
.bars { display: grid; grid-template-columns: max-content minmax(6rem, 22rem) max-content; gap: .25rem .8rem;
  align-items: center; margin: 0 0 1rem; }
.bar { display: block; height: .7rem; background: var(--track); border-radius: .35rem; overflow: hidden; }
.bar i { display: block; height: 100%; width: calc(var(--p) * 100%); background: var(--c, var(--both)); }
.number { font-variant-numeric: tabular-nums; text-align: right; }
table { border-collapse: collapse; font-size: .9rem; margin: 0 0 1rem; }
th, td { text-align: right; padding: .15rem .9rem .15rem 0; font-variant-numeric: tabular-nums; font-weight: 400; }
th:first-child, td:last-child, th:last-child { text-align: left; }
thead th { color: var(--soft); font-size: .8rem; }
h4 { margin: 0 0 .5rem; font-size: .9rem; }
h4 span { font-weight: 400; }
.evidence { list-style: none; margin: 0; padding: 0; }
.evidence > li { display: grid; grid-template-columns: 6.5rem 1fr; gap: 0 1.2rem; padding: .55rem 0;
  border-top: 1px solid var(--line); --c: var(--store); }
.evidence > li.other { --c: var(--soft); }
.evidence .bar { height: .45rem; margin: .5rem 0 .3rem; }
.evidence .share { display: flex; justify-content: space-between; }
.evidence p { margin: 0; }
.small { font-size: .82rem; }
mark { background: var(--store-tint); color: inherit; border-bottom: 2px solid var(--store); padding: 0 .12rem;
  border-radius: .2rem .2rem 0 0; }
.other mark { background: var(--track); border-bottom: 2px dashed var(--soft); }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; gap: .1rem; } dd { margin-bottom: .5rem; }
  .card { padding: 1rem; } .evidence > li { grid-template-columns: 1fr; } }
@media (forced-colors: active) { .bar i { background: CanvasText; } .word:hover, .word[aria-expanded=true] {
  outline: 2px solid Highlight; } }
@media print { body { max-width: none; } .panel { display: block !important; break-inside: avoid; }
  .hint { display: none; } }
"""

# Without it the links still lead to their panels; with it a panel opens in its place, and arrow keys walk the words.
SCRIPT = """
document.documentElement.classList.add("scripted");
for (const card of document.querySelectorAll(".card")) {
  const words = [...card.querySelectorAll(".word")];
  const open = chosen => {
    for (const word of words) {
      const panel = document.getElementById(word.hash.slice(1));
      word.setAttribute("aria-expanded", word === chosen);
      panel.classList.toggle("open", word === chosen);
    }
  };
  words.forEach((word, place) => {
    word.setAttribute("role", "button");
    word.setAttribute("aria-controls", word.hash.slice(1));
    word.addEventListener("click", event => {
      event.preventDefault();
      history.replaceState(null, "", word.hash);
      open(word);
    });
    word.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = step && words[place + step];
      if (event.key === " " || next) event.preventDefault();
      if (event.key === " ") word.click();
      if (next) { next.focus(); next.click(); }
    });
  });
  const asked = words.find(word => word.hash === location.hash);
  const first = asked || words.find(word => word.classList.contains("new")) || words[0];
  if (first) open(first);
}
"""
