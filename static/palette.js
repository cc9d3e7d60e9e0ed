// Ctrl-K or Cmd-K: a dialog that leads to pages, hosts, campaigns, runs, settings and actions. Without this file its
// button leads to the search page, which covers only named things and texts.
(() => {
  "use strict";

  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input");

  async function search(q, signal) {
    const answer = await fetch(`${dialog.dataset.source}?${new URLSearchParams({ q })}`, {
      signal, headers: { Accept: "application/json" },
    });
    if (!answer.ok) throw new Error(answer.statusText);
    return (await answer.json()).map((each) => ({
      ...each, label: each.title, note: each.kind === "search" ? "" : each.kind, code: ["setting", "run"].includes(each.kind),
    }));
  }

  const box = window.provingCombobox(input, dialog.querySelector("[role=listbox]"), {
    search,
    choose: (item) => { if (item) location.assign(item.path); },
    status: dialog.querySelector("[data-said]"),
    first: true,
    close: () => dialog.close(),
  });

  function open() {
    if (dialog.open) return;
    box.clear();
    dialog.showModal();
    input.focus();
    box.ask();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close(); else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    if (!event.target.closest("[data-palette-open]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
})();
