// The picker of settings: searches as you type, and adds the setting as a row of factors or a line of a profile.
// Without this file the field is a plain one with a button, and the server adds the row.
(() => {
  "use strict";

  const SHOWN = 20;

  function address(picker, q) {
    const asked = new URLSearchParams({ q, limit: SHOWN });
    for (const [name, field] of [["host", "host"], ["revision", "profile"]]) {
      const chosen = document.querySelector(`form select[name="${field}"]`);
      if (chosen && /^\d+$/.test(chosen.value)) asked.set(name, chosen.value);
    }
    return `${picker.dataset.source}?${asked}`;
  }

  async function search(picker, q, signal) {
    if (!q) return [];
    const answer = await fetch(address(picker, q), { signal, headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.statusText);
    return (await answer.json()).map((each) => ({ ...each, label: each.name, detail: each.about, note: each.hint, code: true }));
  }

  const field = (row, name) => row.querySelector(`[name="${name}"]`);
  const isBlank = (row) => ["level", "path", "value"].every((name) => !field(row, name).value.trim());

  // A copy of a row with a script has a field of several lines: a new row gets a plain one.
  function plain(row) {
    const area = row.querySelector("textarea[name='value']");
    if (!area) return;
    const input = document.createElement("input");
    input.name = "value";
    input.className = "mono";
    input.setAttribute("aria-label", "Value");
    area.replaceWith(input);
  }

  function newRow(body) {
    const row = body.lastElementChild.cloneNode(true);
    row.querySelectorAll(".error, .help").forEach((each) => each.remove());
    plain(row);
    row.querySelectorAll("input").forEach((input) => { input.value = ""; input.removeAttribute("aria-invalid"); });
    body.append(row);
    return row;
  }

  function hint(row, text) {
    row.querySelectorAll(".help").forEach((each) => each.remove());
    if (!text) return;
    const help = document.createElement("p");
    help.className = "help";
    help.textContent = text;
    field(row, "value").closest("td").append(help);
  }

  function asRow(setting, say) {
    const body = document.getElementById("rows"), all = [...body.children];
    let row = all.find((each) => field(each, "path").value === setting.path);
    if (!row) {
      row = all.find(isBlank) || newRow(body);
      field(row, "factor").value = setting.name;
      field(row, "path").value = setting.path;
      field(row, "value").value = setting.present;
      hint(row, setting.hint);
      say(`Added ${setting.name}.`);
    }
    field(row, "value").focus();
    field(row, "value").select();
    row.closest("form").dispatchEvent(new Event("change", { bubbles: true }));
  }

  // A knob of the host has a field of its own; a parameter of PostgreSQL becomes a line.
  function asLine(setting, say) {
    const own = document.querySelector(`[name="${CSS.escape(setting.path)}"]`);
    const target = own || document.querySelector("[name='settings.postgresql']");
    target.closest("details").open = true;
    if (!own) {
      const lines = target.value.replace(/\n+$/, "").split("\n").filter((line, at, every) => line || every.length > 1);
      if (!lines.some((line) => line.split("=")[0].trim() === setting.name)) lines.push(`${setting.name} = ${setting.present}`);
      target.value = lines.join("\n");
    } else if (own.tagName === "INPUT" && !own.value) own.value = setting.present;
    target.focus();
    if (!own) {
      const at = target.value.split("\n").findIndex((line) => line.split("=")[0].trim() === setting.name);
      const before = target.value.split("\n").slice(0, at + 1).join("\n");
      target.setSelectionRange(before.length - (before.split("= ").at(-1) || "").length, before.length);
    }
    say(`${setting.name}: ${setting.hint}`);
  }

  function start(picker) {
    picker.hidden = false;
    const input = picker.querySelector("input"), status = picker.querySelector("[data-said]");
    const list = picker.querySelector("[role=listbox]"), add = picker.querySelector("[data-add-setting]");
    const insert = picker.dataset.settingPicker === "lines" ? asLine : asRow;
    const say = (text) => { status.textContent = text; };
    const box = window.provingCombobox(input, list, {
      search: (q, signal) => search(picker, q, signal),
      choose(item) {
        if (!item) { if (input.value.trim()) say(`No setting matches ${input.value.trim()}.`); return; }
        box.clear();
        insert(item, say);
      },
      status,
      first: true,
    });
    if (!add) return;
    add.addEventListener("mousedown", (event) => event.preventDefault()); // the list stays open, with the chosen match
    add.addEventListener("click", (event) => { event.preventDefault(); input.focus(); box.pickActive(); });
  }

  document.querySelectorAll("[data-setting-picker]").forEach(start);
})();
