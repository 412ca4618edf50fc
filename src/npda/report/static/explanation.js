// Without it the links still lead to their panels; with it a panel opens in its place, and arrow keys walk the words.
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
