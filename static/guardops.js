// What the pages do beyond links and forms. Everything here is a convenience: with scripts off the pages still work.
(() => {
  "use strict";
  const YEAR = 31536000;
  const setCookie = (name, value) => {
    const life = value ? YEAR : 0;
    document.cookie = `${name}=${value}; Path=/; Max-Age=${life}; SameSite=Lax`;
  };
  const press = (group, button) => {
    for (const other of group.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
  };

  // Theme: a cookie, so that the server writes the attribute and nothing flashes.
  for (const group of document.querySelectorAll("[data-theme-choice]")) {
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      setCookie("theme", button.dataset.value);
      if (button.dataset.value) document.documentElement.dataset.theme = button.dataset.value;
      else delete document.documentElement.dataset.theme;
      press(group, button);
    });
  }

  // Clock: the server writes every time and cuts the days, so it must know the zone.
  for (const group of document.querySelectorAll("[data-clock]")) {
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const local = button.dataset.value === "local";
      setCookie("zone", local ? Intl.DateTimeFormat().resolvedOptions().timeZone : "UTC");
      press(group, button);
      location.reload();
    });
  }

  // A menu closes on Escape and on a click elsewhere.
  const openMenus = () => document.querySelectorAll("details.menu[open]");
  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
    const label = button.querySelector("[data-label]");
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = "Copy"; }, 2000);
  });
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;

  // A suggested value goes into its field, so that nothing else that was written is lost.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-fill]");
    const field = link && document.getElementById("policy")?.elements[link.dataset.fill];
    if (!field) return;
    event.preventDefault();
    field.value = link.dataset.value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
  });

  // A filter that is not set stays out of the address, also where the form is sent as a whole.
  document.addEventListener("formdata", (event) => {
    if (!event.target.matches("form.filters")) return;
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.detail.elt.matches("form.filters")) return;
    const { parameters } = event.detail;
    for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
  });

  // Live refresh: no polls from a hidden page, a lost focus is put back, a failing poll is said.
  // An element that swaps itself is gone when its request ends, and htmx names another one.
  const isPoll = ({ elt, requestConfig }) => Boolean((requestConfig?.elt ?? elt)?.matches?.("[data-poll]"));
  const linksIn = (part) => [...(part?.querySelectorAll("a[href]") ?? [])];
  let focused = null;
  const stale = (on) => {
    const banner = document.getElementById("stale");
    if (banner) banner.hidden = !on;
    const asOf = document.getElementById("as-of");
    if (!on || !asOf || asOf.classList.contains("is-stale")) return;
    asOf.classList.add("is-stale");
    const label = asOf.querySelector("[data-as-of]");
    label.firstChild.textContent = "Stale, last answer ";
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (isPoll(event.detail) && document.hidden) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    for (const polled of document.querySelectorAll("[data-poll]")) htmx.trigger(polled, "resume");
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target, pathInfo } = event.detail;
    // Signed out meanwhile: the answer is the login page of another address.
    if (xhr.responseURL && new URL(xhr.responseURL).pathname !== new URL(pathInfo.finalRequestPath, location).pathname) {
      event.detail.shouldSwap = false;
      location.reload();
      return;
    }
    const active = document.activeElement;
    const place = linksIn(target).indexOf(active);
    focused = place < 0 || active.id ? null : { target: target.id, href: active.getAttribute("href"), place };
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!focused || document.activeElement !== document.body) return;
    // The same link; where the window has moved on, and every link with it, the one in its place.
    const links = linksIn(document.getElementById(focused.target));
    const again = links.find((link) => link.getAttribute("href") === focused.href) ?? links[focused.place];
    focused = null;
    again?.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (isPoll(event.detail)) stale(!event.detail.successful);
  });
})();
