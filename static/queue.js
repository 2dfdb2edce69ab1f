// The review queue while it is open: its rows stay where they are, and say how they stand now.
(() => {
  "use strict";
  const cellsOf = (part) => [...part.querySelectorAll("[data-cell]")];

  // Each answer of the poll brings the cells of the rows that are shown; one that holds the focus is left alone.
  const refresh = (fresh) => {
    const row = document.getElementById(fresh.dataset.fresh);
    for (const cell of row ? cellsOf(fresh.content) : []) {
      const old = row.querySelector(`[data-cell="${cell.dataset.cell}"]`);
      if (!old || old.innerHTML.trim() === cell.innerHTML.trim() || old.contains(document.activeElement)) continue;
      old.replaceChildren(...cell.childNodes);
      htmx.process(old);
    }
    if (row && "gone" in fresh.dataset) {
      row.classList.add("is-gone");
      for (const box of row.querySelectorAll("input[name=pick]")) {
        box.checked = false;
        box.disabled = true;
      }
    }
  };
  const tell = () => {
    const news = document.getElementById("queue-news");
    const words = document.querySelector("[data-news]")?.textContent ?? "";
    if (news.textContent !== words) news.textContent = words;
  };

  // Choosing several.
  const boxes = () => [...document.querySelectorAll("input[name=pick]:not(:disabled)")];
  const count = () => {
    const chosen = boxes().filter((box) => box.checked).length;
    const told = document.querySelector("[data-chosen]");
    if (told) {
      told.hidden = !chosen;
      told.textContent = `${chosen} chosen.`;
    }
    const all = document.querySelector("[data-choose-all] input");
    if (all) {
      all.checked = chosen > 0 && chosen === boxes().length;
      all.indeterminate = chosen > 0 && !all.checked;
    }
  };
  const prepare = () => {
    for (const label of document.querySelectorAll("[data-choose-all]")) {
      label.hidden = false;
      label.parentElement.querySelector("[data-choose-none]").hidden = true;
    }
    count();
  };
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-choose-all]")) for (const box of boxes()) box.checked = event.target.checked;
    count();
  });

  // A row that is swapped keeps the focus, also where what had it is gone.
  let within = "";
  document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
    within = target.matches("tr") && target.contains(document.activeElement) ? target.id : "";
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (within && document.activeElement === document.body) {
      document.getElementById(within)?.querySelector("[data-open]")?.focus({ preventScroll: true });
    }
    within = "";
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const fresh of document.querySelectorAll("template[data-fresh]")) {
      refresh(fresh);
      fresh.remove();
    }
    tell();
    prepare();
  });
  prepare();

  // Back from a decision: the address names what comes next. Where the list does not show that, its first row does.
  // A browser gives the focus to nobody when it has scrolled to the place that an address names, so this waits for it.
  if (location.hash.startsWith("#row-")) {
    window.addEventListener("load", () => requestAnimationFrame(() => {
      const row = document.getElementById(location.hash.slice(1)) ?? document.querySelector("[data-rows] > tr");
      row?.querySelector("[data-open]")?.focus();
    }));
  }
})();
