// Draws what the server computed: an element with data-figure names the address of a Plotly figure.
(function () {
  "use strict";

  const options = { responsive: true, displaylogo: false, displayModeBar: false };

  function address(plot) {
    const url = new URL(plot.dataset.figure, location.href);
    url.searchParams.set("theme", document.documentElement.dataset.theme);
    url.searchParams.set("width", plot.clientWidth);
    return url;
  }

  // A chart that is saved as a picture says where it comes from.
  function caption(plot) {
    return { text: `${plot.dataset.title}<br><sup>${location.href}</sup>`, font: { size: 15 } };
  }

  async function draw(plot) {
    const status = plot.querySelector(".plot-status");
    try {
      const answer = await fetch(address(plot), { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const figure = await answer.json();
      if (!figure.data.some((trace) => (trace.x || []).length)) {
        if (status) status.textContent = plot.dataset.empty;
        plot.classList.toggle("vacant", Boolean(status));
        return;
      }
      if (status) status.remove();
      plot.classList.remove("vacant");
      await Plotly.react(plot, figure.data, figure.layout, options);
      plot.setAttribute("role", "img");
      plot.seq = figure.seq;
      plot.steps = figure.steps;
      if (figure.steps && !plot.zooms) follow(plot);
    } catch (error) {
      if (status) status.textContent = `The chart could not be drawn: ${error.message}. The table has the same figures.`;
      else console.warn("chart not redrawn", error);
    } finally {
      plot.dataset.drawn = "yes";
    }
  }

  async function picture(button) {
    const plot = document.getElementById(button.dataset.png);
    if (!plot.data) return;
    const margin = { ...plot.layout.margin, t: 90 };
    const layout = { ...plot.layout, title: caption(plot), margin, width: undefined };
    const url = await Plotly.toImage({ data: plot.data, layout }, { format: "png", width: 1200, height: plot.layout.height || 600, scale: 2 });
    const link = document.createElement("a");
    link.href = url;
    link.download = `${plot.id}.png`;
    link.click();
  }

  // A closer look, or the whole again: the server is asked for that part of the time in its own resolution, and the
  // address of the page, and of its other forms, says which it is.
  function follow(plot) {
    let waiting = 0;
    plot.zooms = true;
    plot.on("plotly_relayout", (change) => {
      const [from, to] = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (from === undefined && !change["xaxis.autorange"]) return;
      look(plot, from === undefined ? {} : { from: Number(from).toFixed(1), to: Number(to).toFixed(1) });
      clearTimeout(waiting);
      waiting = setTimeout(() => draw(plot), 150);
    });
  }

  function look(plot, part) {
    plot.dataset.figure = asking(plot.dataset.figure, part);
    history.replaceState(null, "", asking(location.href, part));
    plot.closest("figure").querySelectorAll("footer a[href]").forEach((link) => { link.href = asking(link.href, part); });
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

  // Live samples: each value goes to the trace of its source and name. Answers false when there is no such trace yet.
  function extend(plot, samples) {
    if (!plot.data || plot.data.some((trace) => (trace.x || []).length > MOST_POINTS)) return false;
    const alone = new URL(plot.dataset.figure, location.href).searchParams.get("step");
    for (const told of samples) {
      const begin = (plot.steps || {})[told.step];
      if (told.seq <= plot.seq || (alone && alone !== told.step)) continue;
      if (begin === undefined) return false;
      const sample = { ...told, t: told.t + begin };
      const lines = { x: [], y: [], at: [] };
      for (const [name, value] of Object.entries(sample.values)) {
        const at = plot.data.findIndex((trace) => trace.type === "scatter" && trace.meta === `${sample.source} ${name}`);
        if (at >= 0) { lines.x.push([sample.t]); lines.y.push([value]); lines.at.push(at); }
      }
      if (lines.at.length) Plotly.extendTraces(plot, { x: lines.x, y: lines.y }, lines.at);
      for (const map of plot.data.filter((trace) => trace.type === "heatmap" && trace.meta === sample.source)) {
        if (!map.y.some((name) => name in sample.values)) continue;
        map.x.push(sample.t);
        map.z.forEach((row, place) => row.push(sample.values[map.y[place]] ?? null));
      }
    }
    if (plot.data.some((trace) => trace.type === "heatmap")) Plotly.redraw(plot);
    return true;
  }

  // Which panels a chart shows, and of which step: this goes into the address of its figure and of the page, which can be copied.
  function choose(form) {
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
      draw(plot);
    }
    form.closest("details").querySelector("[data-count]").textContent = data.getAll("panel").length;
  }

  const plots = () => [...document.querySelectorAll("[data-figure]")];

  document.addEventListener("theme", () => plots().forEach(draw));
  document.addEventListener("results", () => plots().forEach(draw));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-png]");
    if (button) picture(button);
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-chooser]");
    if (form) choose(form);
  });
  document.addEventListener("DOMContentLoaded", () => {
    plots().forEach((plot) => {
      draw(plot).then(() => {
        if (!plot.dataset.runs || !plot.on) return;
        plot.on("plotly_click", (clicked) => {
          const run = (clicked.points[0].customdata || [])[0];
          if (run) location.href = plot.dataset.runs.replace("00000000-0000-0000-0000-000000000000", run);
        });
      });
    });
  });

  // htmx brought new results of a campaign that runs.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "status") document.dispatchEvent(new CustomEvent("results"));
  });

  window.provingCharts = { draw, extend };
})();
