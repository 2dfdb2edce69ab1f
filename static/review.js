// The page of a checkpoint: forms in dialogs, and the seconds in which a decision can be taken back. With scripts off
// the same forms are pages, and the bar says until when.
(() => {
  "use strict";
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    const dialog = opener && document.getElementById(opener.dataset.dialog);
    if (dialog && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      opener.focus({ preventScroll: true }); // where the focus returns to, also where a key has opened it
      dialog.showModal();
      const first = dialog.querySelector("[autofocus]") ?? dialog.querySelector("input:not([type=hidden]), textarea");
      first?.focus();
      return;
    }
    const closer = event.target.closest("[data-close]");
    const open = (closer ?? event.target).closest("dialog[open]");
    if (open && (closer || event.target === open)) {
      event.preventDefault();
      open.close();
    }
  });

  const count = (bar) => {
    const end = performance.now() + Number(bar.dataset.undo);
    const label = bar.querySelector("[data-countdown]");
    const tick = () => {
      if (!bar.isConnected) return;
      const left = Math.ceil((end - performance.now()) / 1000);
      if (left > 0) {
        label.textContent = `in ${left} s`;
        setTimeout(tick, 250);
        return;
      }
      for (const part of bar.querySelectorAll("[data-unless-sent]")) part.hidden = true;
      bar.querySelector("[data-sent]").hidden = false;
      setTimeout(() => bar.remove(), 4000);
    };
    tick();
  };
  const countAll = () => {
    for (const bar of document.querySelectorAll("[data-undo]:not([data-counting])")) {
      bar.dataset.counting = "";
      count(bar);
    }
  };
  countAll();
  document.addEventListener("htmx:afterSettle", countAll);
})();
