// Returns what a page holds that none of our templates writes: markup, addresses and characters of attackers.
() => {
  const found = [...window.broken];
  const unseen = new RegExp(
    "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f]",
    "u",
  );
  const hides = (text) => unseen.test(text.replace(/[\n\t]/g, ""));
  const start = (text) => text.slice(0, 120);
  const strange = new Set("iframe object embed base style template math video audio".split(" "));

  for (const element of document.querySelectorAll("*")) {
    const name = element.localName;
    if (element.closest("bdi") && name !== "bdi" && !element.matches("bdi > span.unseen")) {
      found.push(`in a text: ${start(element.outerHTML)}`);
    }
    if (strange.has(name) || (name === "meta" && element.httpEquiv)) {
      found.push(`element: ${start(element.outerHTML)}`);
    }
    if (name === "script" && !element.src.startsWith(`${location.origin}/static/`)) {
      found.push(`script: ${start(element.outerHTML)}`);
    }
    for (const { name: attribute, value } of element.attributes) {
      if (/^on|^(data-)?hx-on|^data-hx-|^(srcdoc|style)$/i.test(attribute)) found.push(`attribute: ${attribute}`);
      const address = /^(href|src|action|formaction|hx-get|hx-post)$/.test(attribute);
      if (address && /^\s*((javascript|data|vbscript):|\/\/)/i.test(value)) found.push(`address: ${start(value)}`);
      if (hides(value)) found.push(`hidden in ${name} ${attribute}: ${start(JSON.stringify(value))}`);
    }
  }

  const texts = document.createTreeWalker(document, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_COMMENT);
  while (texts.nextNode()) {
    if (hides(texts.currentNode.data)) found.push(`hidden: ${start(JSON.stringify(texts.currentNode.data))}`);
  }
  return found;
}
