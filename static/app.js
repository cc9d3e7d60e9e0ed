// Theme, keys, copying, confirmations and rows of forms. Everything here is a convenience: each page works without it.
(function () {
  "use strict";

  const store = {
    get(key) {
      try { return localStorage.getItem(key); } catch { return null; }
    },
    set(key, value) {
      try { localStorage.setItem(key, value); } catch { /* private mode: it lasts for this page */ }
    },
  };

  // Theme

  function toggleTheme() {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    store.set("theme", root.dataset.theme);
    document.dispatchEvent(new CustomEvent("theme"));
  }

  // The narrow navigation scrolls sideways: the section of this page is in view.

  const current = document.querySelector(".top nav [aria-current]");
  const nav = current && current.closest("nav");
  if (nav && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;

  // Keys

  const help = document.getElementById("keys");
  const keysOn = () => store.get("keys") !== "off";

  function rows() {
    return [...document.querySelectorAll("[data-row]")]
      .map((row) => row.querySelector("a"))
      .filter((link) => link && link.offsetParent !== null);
  }

  function step(by) {
    const links = rows();
    if (!links.length) return;
    const row = document.activeElement.closest("[data-row]");
    const here = row ? links.indexOf(row.querySelector("a")) : -1;
    const beyond = here + by < 0 ? "previous" : here + by >= links.length ? "next" : "";
    const page = row && beyond && document.querySelector(`[data-page="${beyond}"]`);
    if (page) { page.click(); return; }
    const next = here < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(here + by, 0), links.length - 1);
    links[next].focus();
    links[next].scrollIntoView({ block: "nearest" });
  }

  function search() {
    const field = document.querySelector("[data-search]");
    const page = document.querySelector("[data-search-page]");
    if (field) { field.focus(); field.select(); }
    else if (page) location.href = page.href;
  }

  // Two sides of a comparison, picked one after another, on whatever pages of this tab.

  const sides = ["a", "b"];
  const session = {
    get(side) {
      try { return JSON.parse(sessionStorage.getItem(`side-${side}`)); } catch { return null; }
    },
    set(side, value) {
      try {
        if (value) sessionStorage.setItem(`side-${side}`, JSON.stringify(value));
        else sessionStorage.removeItem(`side-${side}`);
      } catch { /* private mode: nothing is picked */ }
    },
  };

  function pick(side, key, name) {
    session.set(side, { key, name });
    showPicked();
  }

  function pickRow(side) {
    const row = document.activeElement.closest("[data-pick]");
    if (!row) return;
    const link = row.querySelector("th");
    pick(side, row.dataset.pick, `${link ? link.textContent.trim() : ""} ${row.dataset.pick.split(":")[0]}`.trim());
  }

  function comparison() {
    const bar = document.querySelector("[data-picked]");
    const both = sides.map(session.get);
    if (!bar || both.some((each) => !each)) return "";
    return `${bar.dataset.picked}?${new URLSearchParams(both.map((each) => ["of", each.key]))}`;
  }

  function goCompare() {
    const address = comparison();
    if (address) location.href = address;
  }

  function showPicked() {
    const bar = document.querySelector("[data-picked]");
    if (!bar) return;
    bar.replaceChildren();
    bar.hidden = !sides.some(session.get);
    for (const side of sides) {
      const picked = session.get(side);
      const text = document.createElement("span");
      text.textContent = `${side.toUpperCase()}: ${picked ? picked.name : "none"}`;
      bar.append(text);
    }
    const address = comparison();
    if (address) {
      const link = document.createElement("a");
      Object.assign(link, { href: address, className: "button primary", textContent: "Compare" });
      bar.append(link);
    }
    const clear = document.createElement("button");
    Object.assign(clear, { type: "button", textContent: "Clear" });
    clear.addEventListener("click", () => { sides.forEach((side) => session.set(side, null)); showPicked(); });
    bar.append(clear);
  }

  showPicked();
  window.provingPick = pick;

  // The chart that has the focus, or the first that can be pinned.
  function pin() {
    const chart = document.activeElement.closest("figure");
    const link = (chart && chart.querySelector("[data-pin]")) || document.querySelector("[data-pin]");
    if (link) location.href = link.href;
  }

  function dashboard() {
    const link = document.querySelector("[data-dashboard]");
    if (link) location.href = link.href;
  }

  const actions = {
    "/": search,
    a: () => pickRow("a"),
    b: () => pickRow("b"),
    c: goCompare,
    d: dashboard,
    j: () => step(1),
    k: () => step(-1),
    p: pin,
    t: toggleTheme,
    "?": () => help.showModal(),
  };

  function typing(target) {
    return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && typing(event.target)) event.target.blur();
    if (!keysOn() || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || help.open) return;
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  const keysSwitch = document.querySelector("[data-keys-switch]");
  keysSwitch.checked = keysOn();
  keysSwitch.addEventListener("change", () => store.set("keys", keysSwitch.checked ? "on" : "off"));

  // Clicks

  async function copy(button, text) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy by hand";
    }
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  function addRow(button) {
    const body = document.getElementById(button.dataset.addRow);
    const last = body.lastElementChild;
    const row = last.cloneNode(true);
    row.querySelectorAll("input").forEach((input) => {
      if (!input.hasAttribute("data-keep")) input.value = "";
      input.removeAttribute("aria-invalid");
    });
    row.querySelectorAll(".error, .help").forEach((error) => error.remove());
    body.append(row);
    (row.querySelector("input:not([data-keep])") || row.querySelector("input")).focus();
  }

  function dropRow(button) {
    const row = button.closest("tr");
    const form = row.closest("form");
    if (row.parentElement.children.length > 1) row.remove();
    else row.querySelectorAll("input").forEach((input) => { input.value = ""; });
    form.dispatchEvent(new Event("change", { bubbles: true }));
  }

  document.addEventListener("click", (event) => {
    const on = (selector) => event.target.closest(selector);
    let button;
    if (on("[data-theme-toggle]")) toggleTheme();
    else if (on("[data-keys-help]")) help.showModal();
    else if ((button = on("[data-copy]"))) copy(button, document.getElementById(button.dataset.copy).textContent);
    else if ((button = on("[data-copy-link]"))) copy(button, new URL(button.dataset.copyLink || location.href, location.href).href);
    else if ((button = on("[data-drop-row]"))) { event.preventDefault(); dropRow(button); }
    else if ((button = on("[data-add-row]"))) { event.preventDefault(); addRow(button); }
    else if ((button = on("[data-confirm]")) && !window.confirm(button.dataset.confirm)) event.preventDefault();
  });

  // One box ticks all boxes of its form.
  function tick(all) {
    for (const box of all.form.elements) if (box.type === "checkbox") box.checked = all.checked;
  }
  document.querySelectorAll("[data-all]").forEach((all) => { all.closest("label").hidden = false; });

  // A select that decides what the rest of the form offers sends its form at once.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
    if (event.target.matches("[data-all]")) tick(event.target);
  });

  // Parts of a page as tabs. Each is an anchor with an address. Without this file all parts are visible.

  function showPanel() {
    const tabs = document.querySelector("[data-panels]"), panels = [...document.querySelectorAll("[data-panel]")];
    if (!tabs || !panels.length) return;
    const wanted = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const shown = (wanted && wanted.closest("[data-panel]")) || panels.find((panel) => !panel.hidden);
    panels.forEach((panel) => { panel.hidden = panel !== shown; });
    tabs.querySelectorAll("a").forEach((link) => {
      if (link.hash === `#${shown.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    if (wanted && panels.includes(wanted)) tabs.scrollIntoView();
    else if (wanted) wanted.scrollIntoView();
    dispatchEvent(new Event("resize"));  // charts that were drawn while they were hidden
  }

  window.addEventListener("hashchange", showPanel);

  // A menu closes with Escape, with a click elsewhere, or when the focus leaves it.
  const openMenus = () => document.querySelectorAll("[data-menu][open]");
  const closeMenus = (event) => openMenus().forEach((menu) => { menu.open = menu.contains(event.target); });
  document.addEventListener("click", closeMenus);
  document.addEventListener("focusin", closeMenus);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    openMenus().forEach((menu) => { menu.open = false; menu.querySelector("summary").focus(); });
  });

  // A redirect keeps the fragment: after a form is sent, its own panel is shown.
  document.addEventListener("submit", (event) => {
    const panel = event.target.closest("[data-panel]"), action = event.target.getAttribute("action");
    if (panel && action) event.target.setAttribute("action", `${action.split("#")[0]}#${panel.id}`);
  });
  document.addEventListener("htmx:afterSwap", (event) => { if (event.target.id === "main") showPanel(); });
  showPanel();

  // The preview of a campaign has the values of the chosen workload for the empty fields of its load.
  document.addEventListener("htmx:afterSwap", (event) => event.target.querySelectorAll("[data-default-of]").forEach((each) => {
    document.querySelector(`#campaign-form [name="${each.dataset.defaultOf}"]`).placeholder = each.value;
  }));

  const errors = document.getElementById("errors");
  if (errors) errors.focus();
})();
