// Draws what the server computed: an element with data-figure names the address of a Plotly figure.
(function () {
  "use strict";

  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  // Plotly is the last of the deferred scripts, and this event follows them all.
  const plotlyLoaded = new Promise((resolve) => { document.addEventListener("DOMContentLoaded", resolve); });

  function source(plot) {
    const url = new URL(plot.dataset.figure, location.href);
    url.searchParams.set("theme", document.documentElement.dataset.theme);
    url.searchParams.set("width", plot.clientWidth);
    return url;
  }

  // A chart that is saved as a picture says where it comes from.
  function caption(plot) {
    const from = new URL(plot.dataset.page || location.href, location.href);
    return { text: `${plot.dataset.title}<br><sup>${from.href}</sup>`, font: { size: 15 } };
  }

  async function complaint(answer) {
    const isProblem = (answer.headers.get("Content-Type") || "").includes("json");
    const problem = isProblem ? await answer.json() : {};
    return problem.error || [problem.title, problem.hint].filter(Boolean).join("; ") || `the server answered ${answer.status}`;
  }

  // A busy server, or too many requests of this user at a time, is asked again when it says so: not all charts at once.
  async function figureOf(plot) {
    for (let left = 3; ; left -= 1) {
      const answer = await fetch(source(plot), { headers: { Accept: "application/json" } });
      const again = answer.headers.get("Retry-After");
      if (!again || !left) return answer;
      await new Promise((resolve) => { setTimeout(resolve, 1000 * again * (1 + Math.random())); });
    }
  }

  async function draw(plot) {
    const status = plot.querySelector(".plot-status");
    try {
      const answer = await figureOf(plot);
      if (!answer.ok) throw new Error(await complaint(answer));
      const figure = await answer.json();
      if (!figure.data.some((trace) => (trace.x || []).length)) {
        if (status) status.textContent = plot.dataset.empty;
        plot.classList.toggle("vacant", Boolean(status));
        return;
      }
      if (status) status.remove();
      plot.classList.remove("vacant");
      const panels = figure.steps && window.provingPanels;
      if (panels) panels.prepare(plot, figure);
      await plotlyLoaded;
      await Plotly.react(plot, figure.data, figure.layout, options);
      plot.setAttribute("role", "img");
      plot.seq = figure.seq;
      plot.steps = figure.steps;
      plot.means = figure.means || {};
      plot.others = figure.others || {};
      if (panels) panels.drawn(plot);
      if (figure.steps && !plot.zooms) follow(plot);
    } catch (error) {
      if (status) status.textContent = `The chart could not be drawn: ${error.message}${plot.dataset.page ? "" : ". The table has the same figures."}`;
      else console.warn("chart not redrawn", error);
    } finally {
      plot.dataset.drawn = "yes";
    }
  }

  async function picture(button, format) {
    const plot = document.getElementById(button.dataset[format]);
    if (!plot.data) return;
    const margin = { ...plot.layout.margin, t: 90 };
    const layout = { ...plot.layout, title: caption(plot), margin, width: undefined, showlegend: plot.panels || plot.layout.showlegend };
    const url = await Plotly.toImage({ data: plot.data, layout }, { format, width: 1200, height: plot.layout.height || 600, scale: 2 });
    const link = document.createElement("a");
    link.href = url;
    link.download = `${plot.id}.${format}`;
    link.click();
  }

  // A closer look, or the whole again: the server is asked for that part of the time in its own resolution, and the
  // address of the page, and of its other forms, says which it is. All charts of a run's page have one time, unless a
  // step is shown alone, in its own seconds; those of a dashboard are of many runs. One that was not in view yet gets it, too.
  function follow(plot) {
    let waiting = 0;
    plot.zooms = true;
    plot.on("plotly_relayout", (change) => {
      const axis = Object.keys(change).map((key) => key.match(/^xaxis\d*/)).find(Boolean);
      if (!axis) return;
      const [from, to] = change[`${axis}.range`] || [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
      if (from === undefined && !change[`${axis}.autorange`]) return;
      const pinned = Boolean(plot.dataset.page);
      const alone = pinned || new URL(location.href).searchParams.has("step");
      const together = alone ? [plot] : plots().filter((each) => each.zooms || !each.begun);
      const part = from === undefined ? {} : { from: Number(from).toFixed(1), to: Number(to).toFixed(1) };
      together.forEach((each) => look(each, part));
      if (!pinned && (!alone || plot.id === "run-chart")) page(part);
      clearTimeout(waiting);
      waiting = setTimeout(() => together.filter((each) => each.zooms).forEach(draw), 150);
    });
  }

  function look(plot, part) {
    plot.dataset.figure = asking(plot.dataset.figure, part);
    plot.closest("figure").querySelectorAll("footer a[href]").forEach((link) => { link.href = asking(link.href, part); });
  }

  function page(part) {
    history.replaceState(null, "", asking(location.href, part));
    document.querySelectorAll("[data-whole]").forEach((link) => { link.hidden = !part.from; });
  }

  function asking(address, part) {
    const url = new URL(address, location.href);
    for (const name of ["from", "to"]) {
      if (part[name] === undefined) url.searchParams.delete(name);
      else url.searchParams.set(name, part[name]);
    }
    return url.href;
  }

  // More points than this make the page slow: drawn anew, the server has thinned them.
  const MOST_POINTS = 6000;

  // Whether a sample has columns that the server has not been asked to draw yet: the first sample of a collector.
  function isNew(plot, samples) {
    const others = Object.entries(plot.others).flatMap(([key, names]) => names.map((name) => `${key.split(" ")[0]} ${name}`));
    plot.known = plot.known || new Set([...plot.data.map((trace) => trace.meta), ...others]);
    const columns = samples.flatMap((sample) => Object.keys(sample.values).map((name) => `${sample.source} ${name}`));
    const unknown = columns.filter((column) => !plot.known.has(column));
    unknown.forEach((column) => plot.known.add(column));
    return unknown.length > 0;
  }

  // Adds live samples to the traces of their source and name. Returns false when the chart must be drawn anew.
  function extend(plot, samples) {
    if (!plot.data || isNew(plot, samples)) return false;
    if (plot.data.some((trace) => (trace.x || []).length > MOST_POINTS)) return false;
    const alone = new URL(plot.dataset.figure, location.href).searchParams.get("step");
    const fresh = samples.filter((sample) => sample.seq > plot.seq && (!alone || alone === sample.step));
    if (fresh.some((sample) => (plot.steps || {})[sample.step] === undefined)) return false;
    const lines = new Map(); // trace -> its new points: Plotly draws all panels anew for each call, so there is one
    for (const each of fresh) {
      const sample = { ...each, t: each.t + plot.steps[each.step] };
      plot.data.forEach((trace, at) => {
        const value = trace.type === "scatter" ? valueOf(plot, trace.meta || "", sample) : undefined;
        if (value === undefined) return;
        if (!lines.has(at)) lines.set(at, { x: [], y: [] });
        lines.get(at).x.push(sample.t);
        lines.get(at).y.push(value);
      });
      const values = { ...sample.values, ...means(plot.means[sample.step] || {}, sample.values) };
      for (const map of plot.data.filter((trace) => trace.type === "heatmap" && trace.meta === sample.source)) {
        if (!map.y.some((name) => name in values)) continue;
        map.x.push(sample.t);
        map.z.forEach((row, place) => row.push(values[map.y[place]] ?? null));
      }
    }
    const points = [...lines.values()];
    if (lines.size) Plotly.extendTraces(plot, { x: points.map((each) => each.x), y: points.map((each) => each.y) }, [...lines.keys()]);
    else if (fresh.length && plot.data.some((trace) => trace.type === "heatmap")) Plotly.redraw(plot);
    return true;
  }

  // The value of a sample for a line, or for the area that adds up the smallest parts of a stack.
  function valueOf(plot, meta, sample) {
    if (!meta.startsWith(`${sample.source} `)) return undefined;
    const rest = plot.others[meta];
    if (!rest) return sample.values[meta.slice(sample.source.length + 1)];
    const have = rest.filter((name) => name in sample.values);
    return have.length ? have.reduce((sum, name) => sum + sample.values[name], 0) : undefined;
  }

  // Rows that the server makes of several columns, such as a node's of its cpus.
  function means(parts, values) {
    const found = {};
    for (const [name, columns] of Object.entries(parts)) {
      const have = columns.filter((column) => column in values).map((column) => values[column]);
      if (have.length) found[name] = have.reduce((sum, value) => sum + value, 0) / have.length;
    }
    return found;
  }

  // Which panels a chart shows, and of which step: this goes into the address of its figure and of the page, which can be copied.
  function choose(form) {
    const plot = address(form);
    if (plot) draw(plot);
  }

  function address(form) {
    const plot = document.getElementById(form.dataset.chooser);
    const data = new FormData(form);
    const chosen = [...data].filter(([name, value]) => ["panel", "step"].includes(name) && value);
    const here = new URL(location.href);
    // Another step has another time.
    const other = (here.searchParams.get("step") || "") !== (data.get("step") || "");
    for (const name of ["panel", "step", ...(other ? ["from", "to"] : [])]) here.searchParams.delete(name);
    chosen.forEach(([name, value]) => here.searchParams.append(name, value));
    history.replaceState(null, "", here);
    if (plot) {
      const figure = new URL(plot.dataset.figure, location.href);
      figure.search = here.search;
      plot.dataset.figure = figure.href;
      plot.closest("figure").querySelectorAll("[data-pin]").forEach((link) => { link.search = here.search; });
    }
    form.closest("details").querySelector("[data-count]").textContent = data.getAll("panel").length;
    return plot;
  }

  // Beside a chart, what its clicked point is and what can be done with it.
  function panel(plot, point) {
    const figure = plot.closest("figure");
    figure.querySelectorAll(".picked-point").forEach((old) => old.remove()); // Plotly's own markers have the class "point"
    const box = document.createElement("div");
    box.className = "picked-point";
    const text = document.createElement("p");
    const name = point.position ? `Run ${point.position}` : "Run";
    text.textContent = [name, point.levels, point.block && `block ${point.block}`, point.host].filter(Boolean).join(", ") + `: ${Number(point.y).toPrecision(6)}`;
    const open = document.createElement("a");
    Object.assign(open, { className: "button primary", textContent: "Open run" });
    open.href = plot.dataset.runs.replace("00000000-0000-0000-0000-000000000000", point.run);
    box.append(text, open);
    for (const side of ["a", "b"]) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: `Set ${side.toUpperCase()}` });
      button.addEventListener("click", () => window.provingPick(side, `run:${point.run}`, [name, point.levels].filter(Boolean).join(", ")));
      box.append(button);
    }
    figure.insertBefore(box, figure.querySelector("footer"));
    open.focus();
  }

  const plots = () => [...document.querySelectorAll("[data-figure]")];

  // A point that is one run tells its key first.
  const RUN = /^[0-9a-f-]{36}$/;

  function begin(plot) {
    plot.begun = true;
    draw(plot).then(() => {
      if (!plot.dataset.runs || !plot.on) return;
      plot.on("plotly_click", (clicked) => {
        const [run, block, position, levels, host] = clicked.points[0].customdata || [];
        if (RUN.test(run)) panel(plot, { run, block, position, levels, host, y: clicked.points[0].y });
      });
    });
  }

  // A page of many charts asks for each as it comes into view.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      near.unobserve(entry.target);
      begin(entry.target);
    }
  }, { rootMargin: "200px" });

  const watch = (plot) => ("later" in plot.dataset ? near.observe(plot) : begin(plot));
  const again = () => plots().filter((plot) => plot.begun).forEach(draw);

  document.addEventListener("theme", again);
  document.addEventListener("results", again);
  document.addEventListener("click", (event) => {
    for (const format of ["png", "svg"]) {
      const button = event.target.closest(`[data-${format}]`);
      if (button) picture(button, format);
    }
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-chooser]");
    if (form && event.target.name) choose(form);
  });

  window.provingCharts = { draw, extend, choose, address };

  // The page is parsed when a deferred script runs: the server makes the figures while the browser loads Plotly.
  const chooser = document.querySelector("form[data-chooser]");
  if (chooser && window.provingPanels) window.provingPanels.recall(chooser);
  plots().forEach(watch);

  // htmx brought new results of a campaign that runs, or a part of the page with charts of its own.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "status") document.dispatchEvent(new CustomEvent("results"));
    else event.target.querySelectorAll("[data-figure]").forEach(watch);
  });
})();
