// How far a file is, and whether it is whole. With scripts off the same links are plain downloads.
(() => {
  "use strict";
  const EVERY_MS = 500;
  const number = new Intl.NumberFormat("en-GB");
  const size = (bytes) => (bytes < 1e6 ? `${number.format(Math.ceil(bytes / 1e3))} kB` : `${number.format(Math.round(bytes / 1e5) / 10)} MB`);

  const noteOf = (link) => {
    const place = link.closest(".sheet, .panel-head, .row, .row-bar") || link.parentElement;
    let note = place.querySelector("[data-export-note]");
    if (!note) {
      note = document.createElement("span");
      note.className = "export-note";
      note.setAttribute("role", "status");
      note.dataset.exportNote = "";
      place.append(note);
    }
    return note;
  };

  const nameOf = (answer) => {
    const found = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") || "");
    return found ? found[1] : "guardops";
  };

  // Counts lines and bytes on their way; the browser keeps the rest, on disk where it is long.
  const counted = (body, tell) => {
    let lines = 0, bytes = 0, told = 0;
    return body.pipeThrough(new TransformStream({
      transform(chunk, on) {
        bytes += chunk.length;
        for (const byte of chunk) if (byte === 10) lines += 1;
        if (performance.now() - told > EVERY_MS) {
          told = performance.now();
          tell(lines, bytes);
        }
        on.enqueue(chunk);
      },
      flush() { tell(lines, bytes); },
    }));
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const fetchFile = async (link, note) => {
    const answer = await fetch(link.href, { credentials: "same-origin" });
    if (answer.status === 503) return "Too many files are being sent just now. Try again in a quarter of a minute.";
    // Signed out, not allowed, or filters that cannot be read: the page itself says so.
    if (!answer.ok || !answer.headers.get("Content-Disposition")) { location.assign(link.href); return ""; }
    const json = link.pathname.endsWith(".json");
    let rows = 0, bytes = 0;
    const tell = (lines, all) => {
      rows = Math.max(0, lines - 1);
      bytes = all;
      note.textContent = `${number.format(rows)} rows, ${size(bytes)} …`;
    };
    const blob = await new Response(counted(answer.body, tell)).blob();
    save(blob, nameOf(answer));
    if (json) rows = Math.max(0, rows - 1);
    return `Done: ${number.format(rows)} ${rows === 1 ? "row" : "rows"}, ${size(bytes)}.`;
  };

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-export]");
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || !window.TransformStream) return;
    event.preventDefault();
    if (link.getAttribute("aria-disabled")) return;
    const note = noteOf(link);
    link.setAttribute("aria-disabled", "true");
    note.textContent = "Starting …";
    try {
      note.textContent = await fetchFile(link, note);
    } catch {
      note.textContent = "The file broke off before its end, and was not saved. Try again.";
    } finally {
      link.removeAttribute("aria-disabled");
    }
  });
})();
