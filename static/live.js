// A run while it goes on: asks every second what is new, and says how old the newest word is.
(function () {
  "use strict";

  const EVERY_MS = 1000;
  const STALE_S = 5;
  const LINES = 400;

  document.addEventListener("DOMContentLoaded", () => {
    const page = document.querySelector("[data-live]");
    if (!page) return;
    const plot = document.querySelector("[data-figure]");
    const at = (name) => document.querySelector(`[data-live-${name}]`);
    let after = Number(page.dataset.after);
    let heard = Date.now();
    let age = null;

    function clock() {
      const seconds = age === null ? null : age + (Date.now() - heard) / 1000;
      const element = at("clock");
      element.classList.toggle("stale", seconds === null || seconds > STALE_S);
      element.textContent = seconds === null ? "no data yet" : `newest data ${seconds.toFixed(0)} s old`;
    }

    function log(lines) {
      const list = at("log");
      for (const line of lines) {
        const item = document.createElement("li");
        item.textContent = `${line.at}  ${line.kind}  ${line.text}`;
        list.append(item);
      }
      while (list.children.length > LINES) list.firstElementChild.remove();
      if (lines.length) list.lastElementChild.scrollIntoView({ block: "nearest" });
    }

    function figures(samples) {
      for (const sample of samples) {
        for (const [name, unit] of [["tps", "TPS"], ["iops", "IOPS"], ["latency_ms", "ms"]]) {
          if (name in sample.values) at("figure").textContent = `${Math.round(sample.values[name] * 100) / 100} ${unit}`;
          if (name in sample.values && name !== "latency_ms") break;
        }
      }
    }

    const span = (s) => (s < 120 ? `${Math.ceil(s)} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`);

    async function show(news) {
      if (news.progress) {
        at("progress").value = news.progress.done;
        const left = news.progress.eta_s;
        const told = left === null ? "" : `about ${span(left)} of this step left`;
        at("eta").textContent = [news.progress.note, told].filter(Boolean).join("; ");
      }
      at("step").textContent = [news.cancelling ? "cancelling:" : "", news.doing].join(" ");
      figures(news.samples);
      log(news.lines);
      const { draw, extend } = window.provingCharts;
      if (news.samples.length && plot && (news.skipped || !extend(plot, news.samples))) await draw(plot);
    }

    async function poll() {
      try {
        const answer = await fetch(`${page.dataset.live}?after=${after}`);
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        const news = await answer.json();
        if (news.state !== page.dataset.state) { location.reload(); return; }
        heard = Date.now();
        age = news.age_s;
        after = news.seq;
        await show(news);
      } catch (error) {
        console.info("no answer, asking again", error.message);
      }
      clock();
      setTimeout(poll, EVERY_MS);
    }

    poll();
  });
})();
