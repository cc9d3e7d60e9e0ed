// A run's panels over time: a legend of buttons for each panel, one crosshair with the time through all of them, and
// the choice of panels, which this browser remembers.
(function () {
  "use strict";

  const STORED = "proving.panels";
  const DASHES = { solid: "solid", dash: "dashed", dashdot: "dashed", longdash: "dashed", longdashdot: "dashed", dot: "dotted" };
  const figure = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const drawnPlots = () => [...document.querySelectorAll("[data-figure]")].filter((plot) => plot.panels);

  // Before a figure is drawn: legends of buttons replace Plotly's, which the keyboard cannot reach, and lines that are
  // switched off stay off when the figure is drawn again.
  function prepare(plot, drawing) {
    plot.off = plot.off || new Set();
    drawing.layout.showlegend = false;
    drawing.layout.hovermode = "closest";
    for (const trace of drawing.data.filter((each) => each.legend)) {
      trace.hovertemplate = undefined; // the legend has the value
      trace.hoverinfo = "none";
      if (plot.off.has(trace.meta)) trace.visible = "legendonly";
    }
  }

  function drawn(plot) {
    plot.setAttribute("role", "group");
    legends(plot);
    if (plot.panels) return;
    plot.panels = true;
    plot.on("plotly_relayout", () => legends(plot));
    plot.addEventListener("mousemove", (event) => point(plot, event));
    plot.addEventListener("mouseleave", () => drawnPlots().forEach(clear));
  }

  // The legend of a panel ends where its lines begin.
  function legends(plot) {
    const focused = plot.contains(document.activeElement) ? document.activeElement.dataset.place : undefined;
    plot.querySelectorAll(".panel-legend").forEach((old) => old.remove());
    const panels = new Map();
    plot.data.forEach((trace, place) => {
      if (trace.legend) panels.set(trace.legend, [...(panels.get(trace.legend) || []), { trace, place }]);
    });
    for (const lines of panels.values()) {
      const axis = axisOf(plot, lines[0].trace.yaxis, "y");
      const legend = document.createElement("div");
      legend.className = "panel-legend";
      Object.assign(legend.style, { left: `${axisOf(plot, "x", "x")._offset}px`, bottom: `${plot.clientHeight - axis._offset + 2}px` });
      legend.append(...lines.map((line) => entry(plot, line)));
      plot.append(legend);
    }
    if (focused) plot.querySelector(`.panel-legend [data-place="${focused}"]`)?.focus();
  }

  const axisOf = (plot, name, letter) => plot._fullLayout[`${letter}axis${name.slice(1)}`];

  function entry(plot, { trace, place }) {
    const button = document.createElement("button");
    const swatch = document.createElement("span");
    const value = document.createElement("span");
    value.className = "value";
    swatch.className = trace.stackgroup ? "swatch area" : "swatch";
    Object.assign(swatch.style, { borderTopColor: trace.line.color, borderTopStyle: DASHES[trace.line.dash] || "solid" });
    Object.assign(button, { type: "button", className: "quiet" });
    Object.assign(button.dataset, { meta: trace.meta, place });
    button.setAttribute("aria-pressed", String(!plot.off.has(trace.meta)));
    button.append(swatch, trace.name, value);
    button.addEventListener("click", () => toggle(plot, trace.meta));
    return button;
  }

  // Areas of several runs that show the same column are switched together.
  async function toggle(plot, meta) {
    const off = !plot.off.has(meta);
    if (off) plot.off.add(meta);
    else plot.off.delete(meta);
    const places = [...plot.data.keys()].filter((place) => plot.data[place].meta === meta && plot.data[place].legend);
    await Plotly.restyle(plot, { visible: off ? "legendonly" : true }, places);
    legends(plot);
  }

  // The time under the pointer, in every chart of this time axis, with the value at that time beside each name.
  function point(plot, event) {
    const axis = axisOf(plot, "x", "x");
    const at = event.clientX - plot.getBoundingClientRect().left - axis._offset;
    if (at < 0 || at > axis._length) return drawnPlots().forEach(clear);
    return drawnPlots().forEach((each) => cross(each, axis.p2d(at)));
  }

  function cross(plot, t) {
    const axis = axisOf(plot, "x", "x");
    const [low, high] = axis.range;
    if (t < low || t > high) return clear(plot);
    const line = plot.querySelector(".crosshair") || plot.appendChild(Object.assign(document.createElement("div"), { className: "crosshair" }));
    const { t: top, b: bottom } = plot._fullLayout._size;
    line.dataset.t = `${t.toFixed(1)} s`;
    Object.assign(line.style, { left: `${axis._offset + axis.d2p(t)}px`, top: `${top}px`, bottom: `${bottom}px` });
    line.classList.toggle("left", axis.d2p(t) > axis._length - 70);
    return plot.querySelectorAll(".panel-legend button").forEach((button) => {
      const value = valueAt(plot.data[button.dataset.place], t);
      button.lastElementChild.textContent = value === null ? "–" : figure.format(value);
    });
  }

  function clear(plot) {
    plot.querySelector(".crosshair")?.remove();
    plot.querySelectorAll(".panel-legend .value").forEach((value) => { value.textContent = ""; });
  }

  // The nearest sample; null where none is near.
  function valueAt(trace, t) {
    const { x, y } = trace;
    let [low, high] = [0, x.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < t) low = middle + 1;
      else high = middle;
    }
    const place = low > 0 && t - x[low - 1] < x[low] - t ? low - 1 : low;
    const apart = x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) : 1;
    return Math.abs(x[place] - t) <= 2 * apart ? y[place] ?? null : null;
  }

  // Panels that are switched on or off here, by name; all others are as the server shows them.
  function storedChoices() {
    try {
      return JSON.parse(localStorage.getItem(STORED)) || {};
    } catch (error) {
      console.info("the choice of panels cannot be read", error.message);
      return {};
    }
  }

  function store(choices) {
    try {
      localStorage.setItem(STORED, JSON.stringify(choices));
    } catch (error) {
      console.info("the choice of panels is not remembered", error.message);
    }
  }

  const boxes = (form) => [...form.querySelectorAll("[name=panel]")];

  // Before the chart is drawn: an address without panels shows those that are remembered.
  function recall(form) {
    if (new URL(location.href).searchParams.has("panel")) return;
    const choices = storedChoices();
    const changed = boxes(form).filter((box) => box.value in choices && choices[box.value] !== box.checked);
    changed.forEach((box) => { box.checked = choices[box.value]; });
    if (changed.length) window.provingCharts.address(form);
  }

  function remember(box) {
    const { [box.value]: _, ...others } = storedChoices();
    store("unasked" in box.dataset === box.checked ? others : { ...others, [box.value]: box.checked });
  }

  function find(input) {
    const wanted = input.value.trim().toLowerCase();
    for (const group of input.form.querySelectorAll("fieldset")) {
      const labels = [...group.querySelectorAll("label")];
      labels.forEach((label) => { label.hidden = !`${group.firstElementChild.textContent} ${label.textContent}`.toLowerCase().includes(wanted); });
      group.hidden = labels.every((label) => label.hidden);
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-chooser] [name=panel]")) remember(event.target);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-find-panel]")) find(event.target);
  });
  document.addEventListener("click", (event) => {
    const form = event.target.closest("[data-usual-panels]")?.form;
    if (!form) return;
    store({});
    boxes(form).forEach((box) => { box.checked = "unasked" in box.dataset; });
    window.provingCharts.choose(form);
  });

  window.provingPanels = { prepare, drawn, recall };
})();
