// A text field with a list of matches below it (ARIA's combobox pattern), for the pickers and the palette.
(() => {
  "use strict";

  const WAIT_MS = 120;

  // `search(text, signal)` yields items {label, detail, note, code}; `choose(item)` gets the one that was picked. Enter on
  // nothing calls `choose(null)`; `status` is the element that says how many there are to a screen reader. Escape calls
  // `close` where there is one, and else closes the list.
  window.provingCombobox = (input, list, { search, choose, status, first = false, close = null }) => {
    let items = [], active = -1, timer = 0, asked = null, stale = false;

    const isOpen = () => !list.hidden;
    const say = (text) => { if (status) status.textContent = text; };

    function setOpen(open) {
      list.hidden = !open;
      input.setAttribute("aria-expanded", String(open));
      if (!open) activate(-1);
    }

    function activate(place) {
      active = place;
      [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === place)));
      const option = list.children[place];
      if (option) { input.setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); }
      else input.removeAttribute("aria-activedescendant");
    }

    function text(tag, words, name) {
      const node = document.createElement(tag);
      node.textContent = words;
      if (name) node.className = name;
      return node;
    }

    function option(item, place) {
      const node = document.createElement("li"), top = document.createElement("span");
      Object.assign(node, { id: `${list.id}-${place}` });
      node.setAttribute("role", "option");
      top.className = "option-top";
      top.append(text(item.code ? "code" : "span", item.label), " ", text("span", item.note || "", "muted"));
      node.append(top);
      if (item.detail) node.append(text("span", item.detail, "muted option-detail"));
      node.addEventListener("click", () => pick(place));
      return node;
    }

    function show(found) {
      items = found;
      list.replaceChildren(...found.map(option));
      setOpen(found.length > 0);
      activate(found.length && first ? 0 : -1);
      say(found.length === 1 ? "1 match" : `${found.length || "No"} matches`);
    }

    function pick(place) {
      const item = items[place] || null;
      setOpen(false);
      choose(item);
    }

    async function ask() {
      clearTimeout(timer);
      if (asked) asked.abort();
      asked = new AbortController();
      const { signal } = asked;
      try {
        const found = await search(input.value.trim(), signal);
        if (!signal.aborted) { stale = false; show(found); }
      } catch (error) {
        if (!signal.aborted) { show([]); say("The server does not answer. Try again."); }
      }
    }

    // Until the answer comes, what is listed belongs to an older text: Enter must not open that.
    function soon() {
      stale = true;
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    }

    const keys = {
      ArrowDown() { if (isOpen()) activate((active + 1) % items.length); else ask(); },
      ArrowUp() { if (isOpen()) activate((active <= 0 ? items.length : active) - 1); },
      async Enter() {
        if (stale) await ask();
        pick(active);
      },
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
    return { ask, clear: () => { input.value = ""; show([]); say(""); } };
  };
})();
