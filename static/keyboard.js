// The keyboard. An element says itself which key it has and what for (data-key, data-key-label), so that the help
// lists what its page can do; the rows of a list are those of a <tbody data-rows> or a <ul data-rows>, and what has a
// data-row-key in them has it while its row is the selected one.
(() => {
  "use strict";
  const help = document.getElementById("keyboard");
  if (!help) return;
  const MOVES = { j: 1, k: -1 };
  const PATIENCE = 1500; // milliseconds between the two keys of "g o"
  const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
  const isSeen = (element) => element.checkVisibility();

  // Rows: the selection is where the focus goes, and stays marked when the focus leaves. Rows are swapped for new
  // ones, so what is kept of the selected one is what it leads to, and its place among those that lead there too.
  const ROW = "[data-rows] > :is(tr, li)";
  const rows = () => [...document.querySelectorAll(ROW)].filter(isSeen);
  const linkOf = (row) => row.querySelector("[data-open], a[href]");
  const nameOf = (row) => linkOf(row)?.getAttribute("href") ?? row.textContent;
  let selected = null;
  const keep = (row, all = rows()) => {
    selected = all.includes(row) ? { name: nameOf(row), at: all.indexOf(row) } : selected;
  };
  const chosen = (all) => {
    if (!selected) return null;
    const same = all[selected.at];
    return same && nameOf(same) === selected.name ? same : all.find((row) => nameOf(row) === selected.name);
  };
  const mark = () => {
    const all = rows();
    const row = chosen(all);
    for (const one of all) one.classList.toggle("is-at", one === row);
  };
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const from = all.indexOf(chosen(all));
    const at = from < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(from + by, 0), all.length - 1);
    if (!linkOf(all[at])) all[at].tabIndex = -1;
    (linkOf(all[at]) ?? all[at]).focus();
  };
  const open = () => {
    const row = chosen(rows());
    if (row) linkOf(row)?.click();
  };
  const inRow = () => [...(chosen(rows())?.querySelectorAll("[data-row-key]") ?? [])].filter(isSeen);
  document.addEventListener("focusin", ({ target }) => {
    const row = target.closest(ROW);
    if (!row) return;
    keep(row);
    mark();
  });
  document.addEventListener("htmx:afterSwap", mark);
  keep(document.querySelector(`${ROW}:has(> [aria-current="page"])`)); // a list beside one of its rows begins there

  // Keys that elements declare.
  const keyed = () => [...document.querySelectorAll("[data-key]")].filter(isSeen);
  const press = (element) => {
    if (!element.matches(FIELDS)) element.click();
    else {
      element.focus();
      element.select?.();
    }
  };

  const entry = (keys, label) => {
    const line = document.createElement("div");
    const term = line.appendChild(document.createElement("dt"));
    for (const key of keys.split(" ")) term.appendChild(document.createElement("kbd")).textContent = key;
    line.appendChild(document.createElement("dd")).textContent = label;
    return line;
  };
  const show = () => {
    const entries = new Map();
    if (rows().length) entries.set("j", "Next row").set("k", "Row before").set("Enter", "Open the row");
    for (const element of keyed()) {
      const { key, keyLabel } = element.dataset;
      if (!entries.has(key)) entries.set(key, keyLabel || element.textContent.trim());
    }
    for (const { dataset } of document.querySelectorAll("[data-rows] [data-row-key]")) {
      entries.set(dataset.rowKey, dataset.keyLabel);
    }
    entries.set("?", "This help").set("Esc", "Close what is open");
    help.querySelector("[data-keys]").replaceChildren(...[...entries].map(([key, label]) => entry(key, label)));
    help.showModal();
  };
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = false;
    button.addEventListener("click", show);
  }
  help.addEventListener("click", (event) => {
    if (event.target === help) help.close(); // beside the sheet
  });

  if (document.body.dataset.keyboard === "off") return;
  let begun = { key: "", at: 0 };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest(FIELDS) || document.querySelector("dialog[open]")) return;
    const { key } = event;
    const both = event.timeStamp - begun.at < PATIENCE ? `${begun.key} ${key}` : key;
    begun = { key: "", at: 0 };
    const element =
      keyed().find(({ dataset }) => dataset.key === both) ??
      keyed().find(({ dataset }) => dataset.key === key) ??
      inRow().find(({ dataset }) => dataset.rowKey === key);
    if (element) press(element);
    else if (key === "?") show();
    else if (MOVES[key]) move(MOVES[key]);
    else if (key === "Enter" && selected && event.target.matches(`body, ${ROW}`)) open();
    else {
      if (keyed().some(({ dataset }) => dataset.key.startsWith(`${key} `))) begun = { key, at: event.timeStamp };
      return;
    }
    event.preventDefault();
  });
})();
