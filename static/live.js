// A run or a campaign while it goes on: hears what is new by server-sent events, asks every second where there is no
// stream, and says how old the newest sample is and whether the server is still there.
(function () {
  "use strict";

  const POLL_MS = 1000;
  const QUIET_MS = 12000; // the server beats every 5 s
  const AGAIN_MS = 1000;
  const STREAM_AGAIN_MS = 30000;
  const REFRESH_MS = 3000;
  const DRAW_MS = 1000; // least between two drawings of a chart
  const LINES = 400;
  const LEAVING_MS = 5000;
  // As the server writes a duration: two units.
  function duration(seconds) {
    const s = Math.max(1, Math.round(seconds));
    const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
    return parts.filter(([count]) => count).slice(0, 2).map((part) => part.join(" ")).join(" ");
  }

  // As the server writes a figure: four digits, and whole numbers with thousands apart from 1 000 on.
  function readable(value) {
    return Math.abs(value) < 999.5 ? String(Number(value.toPrecision(4))) : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  }

  // The time left counts down between answers of the server.
  function countDown(element) {
    element.until = element.until || Date.now() + 1000 * Number(element.dataset.eta);
    element.textContent = duration((element.until - Date.now()) / 1000);
  }

  const LOST = "connection lost, reconnecting";

  // A reload would undo the navigation that somebody has just begun; a download begins like one, and the page stays.
  let left = 0;
  window.addEventListener("beforeunload", () => { left = Date.now(); });
  function renew() {
    setTimeout(() => location.reload(), Math.max(0, left + LEAVING_MS - Date.now()));
  }

  // Calls hear(news) with what is new after place(), lost(reason) when the server does not answer, and lost("") when it does again.
  // A hidden page hears nothing: it would keep one of the few connections that a browser has for a server.
  function follow(address, place, hear, lost, poll) {
    let source = null;
    let timer = 0;
    let ended = false;

    const later = (what, ms) => { clearTimeout(timer); timer = setTimeout(what, ms); };
    const quiet = () => later(() => { lost(LOST); open(); }, QUIET_MS);

    function close() {
      clearTimeout(timer);
      if (source) source.close();
      source = null;
    }

    function open() {
      close();
      if (document.hidden || ended) return;
      const url = new URL(address, location.href);
      url.searchParams.set("after", place());
      source = new EventSource(url);
      quiet();
      source.addEventListener("open", () => { lost(""); quiet(); });
      source.addEventListener("beat", quiet);
      source.addEventListener("again", () => { close(); later(open, Math.random() * AGAIN_MS); });
      source.addEventListener("news", (event) => { quiet(); lost(""); hear(JSON.parse(event.data)); });
      source.addEventListener("error", () => {
        // The browser tries again by itself with Last-Event-ID, unless the server has answered that there is no stream.
        if (source.readyState === EventSource.CLOSED) ask(Date.now() + STREAM_AGAIN_MS);
        else { lost(LOST); quiet(); }
      });
    }

    async function ask(until) {
      close();
      if (document.hidden || ended) return;
      try {
        await poll();
        lost("");
        later(() => (Date.now() < until ? ask(until) : open()), POLL_MS);
      } catch (error) {
        lost(LOST);
        console.info("no answer, asking again", error.message);
        later(() => ask(0), POLL_MS); // a server that was started anew has streams
      }
    }

    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    open();
    return () => { ended = true; close(); };
  }

  async function fetchJson(address) {
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  }

  // A run: its clock, its progress, its log, and further points in its chart.
  function watchRun(page) {
    const plot = document.querySelector("[data-figure]");
    const at = (name) => page.querySelector(`[data-live-${name}]`);
    const silentS = Number(page.dataset.silent);
    let after = Number(page.dataset.after);
    let heard = Date.now();
    let age = null;
    let gone = "";
    let trouble = "";
    let left = null; // seconds left of this step when the last answer came
    let note = "";
    const waiting = []; // samples that are not in the chart yet
    let skipped = false;
    let isDrawing = false;

    function eta() {
      const remaining = left === null ? "" : `about ${duration(left - (Date.now() - heard) / 1000)} of this step left`;
      at("eta").textContent = [note, remaining].filter(Boolean).join("; ");
    }

    function clock() {
      const seconds = age === null ? null : Math.round(age + (Date.now() - heard) / 1000);
      const silent = seconds !== null && seconds > silentS;
      const element = at("clock");
      element.classList.toggle("stale", Boolean(gone) || silent || seconds === null);
      const why = gone || trouble || (silent ? "the host's agent is silent" : "");
      const newest = seconds === null ? "no data yet" : `last sample ${duration(seconds)} ago`;
      element.textContent = why ? `${newest}: ${why}` : newest;
    }

    function log(lines) {
      const list = at("log");
      for (const line of lines) {
        const item = document.createElement("li");
        item.textContent = `${line.at}  ${line.kind}  ${line.text}`;
        list.append(item);
      }
      while (list.children.length > LINES) list.firstElementChild.remove();
      if (lines.length && list.closest("details").open) list.lastElementChild.scrollIntoView({ block: "nearest" });
    }

    // What the user has to change by hand before the run continues.
    function changes(left) {
      const items = left.map((each) => Object.assign(document.createElement("li"), { textContent: each }));
      at("changes").hidden = !items.length;
      at("changes").querySelector("ul").replaceChildren(...items);
      if (items.length) age = null;
    }

    function figures(samples) {
      for (const { throughput } of samples) {
        if (throughput) at("figure").textContent = `${readable(throughput.value)} ${throughput.unit}`;
      }
    }

    async function hear(news) {
      if (news.state !== page.dataset.state) { stop(); renew(); return; }
      // Another process of the server may send news that came before.
      const since = after;
      const isNew = (each) => each.seq > since;
      after = Math.max(after, news.seq);
      if (news.age_s !== null) { heard = Date.now(); age = news.age_s; }
      trouble = news.trouble;
      changes(news.changes);
      if (news.progress) {
        at("progress").value = news.progress.done;
        left = news.progress.done < 1 ? news.progress.eta_s : null;
        note = news.progress.note;
        eta();
      }
      at("step").textContent = [news.cancelling ? "cancelling:" : "", news.doing].join(" ");
      const samples = news.samples.filter(isNew);
      figures(samples);
      waiting.push(...samples);
      skipped = skipped || news.skipped;
      log(news.lines.filter(isNew));
      clock();
      chart();
    }

    // Collectors report one after the other, and each drawing takes all panels. Samples that arrive meanwhile wait for the next one.
    async function chart() {
      if (isDrawing || !plot || !waiting.length) return;
      isDrawing = true;
      const [samples, again] = [waiting.splice(0), skipped];
      skipped = false;
      const began = performance.now();
      const { draw, extend } = window.provingCharts;
      try {
        if (again || !extend(plot, samples)) await draw(plot);
      } finally {
        const took = performance.now() - began;
        setTimeout(() => { isDrawing = false; chart(); }, Math.max(DRAW_MS - took, took));
      }
    }

    const poll = async () => hear(await fetchJson(`${page.dataset.live}?after=${after}`));
    setInterval(() => { clock(); eta(); }, 1000);
    const stop = follow(page.dataset.stream, () => after, hear, (words) => { gone = words; clock(); }, poll);
  }

  // A campaign: htmx brings what has changed, soon after it did, and not all pages in the same moment.
  function watchCampaign(page) {
    let shown = null;
    let due = 0;
    let asking = false;
    let late = false;
    let heard = Date.now();
    let gone = "";

    const plan = () => { due = due || setTimeout(refresh, Math.random() * REFRESH_MS); };

    // One request after the other: htmx forgets a second one of the element that the first replaces.
    function refresh() {
      due = 0;
      late = asking;
      if (asking) return;
      asking = true;
      window.htmx.trigger("#status", "refresh");
    }

    document.body.addEventListener("htmx:afterRequest", (event) => {
      if (event.detail.requestConfig.elt.id !== "status") return;
      asking = false;
      if (late || !event.detail.successful) plan();
      late = false;
    });

    function hear(news) {
      heard = Date.now();
      if (news.seq === shown) return;
      shown = news.seq;
      plan();
      if (!news.moving) stop();
    }

    function lost(words) {
      gone = words;
      if (!words) heard = Date.now();
    }

    setInterval(() => {
      document.querySelectorAll("[data-eta]").forEach(countDown);
      page.hidden = !gone;
      page.textContent = gone ? `Last update ${duration((Date.now() - heard) / 1000)} ago: ${gone}` : "";
    }, 1000);
    const stop = follow(page.dataset.stream, () => 0, hear, lost, async () => hear(await fetchJson(page.dataset.liveCampaign)));
  }

  document.addEventListener("DOMContentLoaded", () => {
    const run = document.querySelector("[data-live]");
    const campaign = document.querySelector("[data-live-campaign]");
    if (run) watchRun(run);
    if (campaign) watchCampaign(campaign);
  });
})();
