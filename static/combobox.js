// A text field with a list of matches below it (ARIA's combobox pattern), for the pickers and the palette.
(() => {
  "use strict";

  const WAIT_MS = 120;

  // `search(text, signal)` yields items {label, detail, note, code}; `choose(item)` gets the picked one, or null if none
  // matches. `status` is the element that announces the number of matches. Escape calls `close` if given, and closes the
  // list otherwise.
  window.provingCombobox = (input, list, { search, choose, status, first = false, close = null }) => {
    let items = [], active = -1, timer = 0, asked = null, stale = false;

    const isOpen = () => !list.hidden;
    const say = (text) => { if (status) status.textContent = text; };

    function setOpen(open) {
      list.hidden = !open;
      input.setAttribute("aria-expanded", String(open));
      if (!open) activate(-1);
    }

    function activate(index) {
      active = index;
      [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
      const option = list.children[index];
      if (option) { input.setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); }
      else input.removeAttribute("aria-activedescendant");
    }

    function text(tag, content, name) {
      const node = document.createElement(tag);
      node.textContent = content;
      if (name) node.className = name;
      return node;
    }

    function option(item, index) {
      const node = document.createElement("li"), top = document.createElement("span");
      node.id = `${list.id}-${index}`;
      node.setAttribute("role", "option");
      top.className = "option-top";
      top.append(text(item.code ? "code" : "span", item.label), " ", text("span", item.note || "", "muted"));
      node.append(top);
      if (item.detail) node.append(text("span", item.detail, "muted option-detail"));
      node.addEventListener("click", () => pick(index));
      return node;
    }

    function show(matches) {
      items = matches;
      list.replaceChildren(...matches.map(option));
      setOpen(matches.length > 0);
      activate(matches.length && first ? 0 : -1);
      say(matches.length === 1 ? "1 match" : `${matches.length || "No"} matches`);
    }

    function pick(index) {
      const item = items[index] || null;
      setOpen(false);
      choose(item);
    }

    async function ask() {
      clearTimeout(timer);
      if (asked) asked.abort();
      asked = new AbortController();
      const { signal } = asked;
      try {
        const matches = await search(input.value.trim(), signal);
        if (!signal.aborted) { stale = false; show(matches); }
      } catch {
        if (!signal.aborted) { stale = true; show([]); say("The server does not answer. Try again."); }
      }
    }

    // Until the response arrives, the list belongs to an older text, and so does a response that is still under way.
    function soon() {
      stale = true;
      if (asked) asked.abort();
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    }

    async function pickActive() {
      if (stale || !isOpen()) {
        await ask();
        if (stale) return; // no response, or the text has changed meanwhile
      }
      pick(active);
    }

    const keys = {
      ArrowDown() { if (isOpen()) activate((active + 1) % items.length); else ask(); },
      ArrowUp() { if (isOpen()) activate((active <= 0 ? items.length : active) - 1); },
      Enter() { pickActive(); },
      Escape() {
        if (close) { close(); return true; }
        if (!isOpen()) return false;
        setOpen(false);
        return true;
      },
    };

    input.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (act() !== false) { event.preventDefault(); event.stopPropagation(); }
    });
    input.addEventListener("input", (event) => { event.stopPropagation(); soon(); });
    input.addEventListener("change", (event) => event.stopPropagation());
    list.addEventListener("mousedown", (event) => event.preventDefault());
    input.addEventListener("blur", () => setOpen(false));
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id,
    })) input.setAttribute(name, value);
    if (input.value && input === document.activeElement) soon(); // typed while this script was on its way
    return { ask, pickActive, clear: () => { input.value = ""; show([]); say(""); } };
  };
})();
