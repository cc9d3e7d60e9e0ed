// Scripts of pgbench, read and written with colours, line numbers, and the lines that a check complained about.
// A textarea stays what it is; behind it lies a copy of its text in colours, which scrolls along. Without this file
// everything works, in one colour.
(() => {
  "use strict";

  const KEYWORDS = new Set((
    "abort all alter analyze and as asc begin between both by call case cast checkpoint close cluster commit conflict " +
    "constraint copy create cross cursor database declare default delete desc discard distinct do drop else end except " +
    "execute exists explain extension fetch filter for foreign from full function grant group having if ilike in index " +
    "inner insert intersect into is isolation join key lateral left level like limit local lock materialized merge not " +
    "notify null nulls offset on only or order outer over partition prepare primary read recursive references refresh " +
    "release repeatable returning right rollback row rows savepoint schema select serializable session set share skip " +
    "start table temp temporary then to transaction truncate union unique unlogged update using vacuum values view wait " +
    "when where window with work committed uncommitted locked nowait true false"
  ).split(" "));
  const META = /^(\s*)(\\(?:set|gset|aset|sleep|if|elif|else|endif|startpipeline|syncpipeline|endpipeline)\b|\\\S+)/;
  const TOKEN = new RegExp([
    "(?<comment>--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$))",
    "(?<string>\\$(?<tag>[A-Za-z_]\\w*)?\\$[\\s\\S]*?(?:\\$\\k<tag>\\$|$)|[eE]?'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$))",
    "(?<cast>::)",
    "(?<variable>:[A-Za-z_]\\w*)",
    "(?<number>\\b\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b)",
    "(?<word>[A-Za-z_][\\w$]*)",
  ].join("|"), "g");
  const KINDS = ["comment", "string", "variable", "number"];

  // [text, kind] pieces of a script; kind is "" for what has no colour. Meta commands take whole lines.
  function pieces(text) {
    const found = [];
    let sql = "";
    for (const line of text.split(/(?<=\n)/)) {
      const meta = META.exec(line);
      if (!meta) { sql += line; continue; }
      found.push(...sqlPieces(sql), [meta[1], ""], [meta[2], "meta"], ...sqlPieces(line.slice(meta[0].length)));
      sql = "";
    }
    return [...found, ...sqlPieces(sql)];
  }

  function sqlPieces(text) {
    const found = [];
    let end = 0;
    for (const match of text.matchAll(TOKEN)) {
      const kind = KINDS.find((each) => match.groups[each]) ||
        (match.groups.word && KEYWORDS.has(match[0].toLowerCase()) ? "keyword" : "");
      found.push([text.slice(end, match.index), ""], [match[0], kind]);
      end = match.index + match[0].length;
    }
    return [...found, [text.slice(end), ""]];
  }

  // Lines as elements, so that each carries its number and its mark, however a long one is wrapped.
  function paint(target, text, wrong) {
    const lines = [document.createElement("span")];
    for (const [piece, kind] of pieces(text)) {
      piece.split("\n").forEach((part, place) => {
        if (place) lines.push(document.createElement("span"));
        if (!part) return;
        const node = kind ? document.createElement("span") : document.createTextNode(part);
        if (kind) { node.className = `code-${kind}`; node.textContent = part; }
        lines.at(-1).append(node);
      });
    }
    lines.forEach((line, place) => {
      line.className = wrong.has(place + 1) ? "line wrong" : "line";
      line.append("\n");
    });
    target.replaceChildren(...lines);
  }

  const numbers = (text) => new Set((text.match(/\d+/g) || []).map(Number));

  // What a check said beside the field: "line 2: syntax error".
  function complaints(area) {
    const said = document.getElementById(`${area.id}_error`);
    return new Set([...(said ? said.textContent.matchAll(/\bline (\d+):/g) : [])].map((match) => Number(match[1])));
  }

  function indent(area, event) {
    const { selectionStart: start, selectionEnd: end, value } = area;
    if (start !== end || event.shiftKey) return false;
    area.setRangeText("  ", start, end, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    return value !== area.value;
  }

  function dress(area) {
    area.dataset.dressed = "yes";
    const box = document.createElement("div"), back = document.createElement("pre");
    box.className = "editor";
    back.setAttribute("aria-hidden", "true");
    area.replaceWith(box);
    box.append(back, area);
    let wrong = complaints(area), leaving = false;
    const show = () => {
      paint(back, area.value, wrong);
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight + 2}px`;
    };
    area.addEventListener("input", () => { show(); });
    // Escape first lets Tab leave the field, as it does everywhere else.
    area.addEventListener("keydown", (event) => {
      if (event.key === "Tab" && !leaving && indent(area, event)) event.preventDefault();
      leaving = event.key === "Escape";
    });
    const hint = document.createElement("p");
    hint.className = "help";
    hint.textContent = "Tab indents; Escape, then Tab leaves the field.";
    hint.id = `${area.id}_keys`;
    box.after(hint);
    area.setAttribute("aria-describedby", `${area.getAttribute("aria-describedby") || ""} ${hint.id}`.trim());
    // A step of a form may be folded while it is dressed, and has no height then.
    new ResizeObserver(show).observe(box);
    show();
  }

  function dressAll(root) {
    root.querySelectorAll("textarea[data-language='pgbench']:not([data-dressed])").forEach(dress);
    root.querySelectorAll("pre[data-language='pgbench']:not([data-dressed])").forEach((pre) => {
      pre.dataset.dressed = "yes";
      pre.classList.add("numbered");
      paint(pre, pre.textContent.replace(/\n$/, ""), numbers(pre.dataset.wrong || ""));
    });
  }

  document.addEventListener("DOMContentLoaded", () => dressAll(document));
  document.addEventListener("htmx:load", (event) => dressAll(event.target));
})();
