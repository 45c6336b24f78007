// Draws the charts from the embedded numbers, hides and shows curves, sorts the table. No library but plotly.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  const hidden = new Set();
  const state = { metric: data.headline, axis: "rounds", log: false, bands: true };
  let printWidth = null; // set while the page is printed
  let colors = {};

  // The style sheet has the colours for light, dark and print.
  function readColors() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    colors = Object.fromEntries(["ink", "faint", "line", "paper", "card", "low", "high"].map((name) => [name, read(`--${name}`)]));
    colors.curves = data.curves.map((curve) => read(`--curve-${curve.color}`));
  }

  const faded = (hex, alpha) =>
    `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const at = (values, i) => (Array.isArray(values) ? values[i] : values);
  const shortened = (value, digits = 4) => (value === null ? "?" : Number(value.toPrecision(digits)).toString());

  function seriesOf(metric, curve, axis) {
    const series = data.series[metric][curve];
    if (!series || hidden.has(curve)) return null;
    const x = data.grids[series.grid][axis];
    return x.every((value) => value === null) ? null : { ...series, x };
  }

  // Mean plus and minus deviation as one closed outline; rounds with a single seed have no band.
  function bandTrace(series, color, log) {
    const spans = [[]];
    const lowest = Math.min(...series.mean.filter((value) => value > 0)) / 10;
    series.mean.forEach((mean, i) => {
      const std = at(series.std, i);
      const known = mean !== null && std !== null && at(series.seeds, i) > 1 && (!log || mean > 0);
      if (!known) return void (spans.at(-1).length && spans.push([]));
      const low = log ? Math.max(mean - std, lowest) : mean - std;
      spans.at(-1).push([series.x[i], low, mean + std]);
    });
    const outline = spans.filter((span) => span.length > 1).flatMap((span) => [
      ...span.map(([x, , high]) => [x, high]), ...span.toReversed().map(([x, low]) => [x, low]), [null, null],
    ]);
    return {
      x: outline.map(([x]) => x), y: outline.map(([, y]) => y), type: "scatter", mode: "lines", fill: "toself",
      fillcolor: faded(color, 0.16), line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    };
  }

  function lineTrace(series, index, metric, axis) {
    const curve = data.curves[index];
    const text = series.mean.map((mean, i) => {
      const seeds = at(series.seeds, i);
      const spread = seeds > 1 ? ` ± ${shortened(at(series.std, i), 2)}` : "";
      return `${shortened(mean)}${spread}${seeds < curve.seeds ? ` (${seeds} of ${curve.seeds} seeds)` : ""}`;
    });
    const few = series.mean.filter((value) => value !== null).length <= 12;
    return {
      x: series.x, y: series.mean, text, type: "scatter", mode: few ? "lines+markers" : "lines", name: escaped(curve.label),
      line: { color: colors.curves[index], width: 2, dash: curve.dash.length ? curve.dash.map((v) => `${v}px`).join(",") : "solid" },
      marker: { size: 5 }, hovertemplate: axis === "rounds" ? "%{text}" : `${escaped(curve.label)}: %{text}<br>%{x:.4s}, ${data.axes[axis]}<extra></extra>`, showlegend: false,
      meta: { curve: index, metric },
    };
  }

  // × at the last round of a seed: after it the mean is over fewer.
  function lossTrace(series, index) {
    const last = data.curves[index].diverged ? series.mean.length - 1 : -1;
    const lost = series.mean.flatMap((_, i) => (i === last || at(series.seeds, i + 1) < at(series.seeds, i) ? [i] : []));
    return {
      x: lost.map((i) => series.x[i]), y: lost.map((i) => series.mean[i]), type: "scatter", mode: "markers",
      marker: { symbol: "x", size: 9, color: colors.curves[index] }, hoverinfo: "skip", showlegend: false,
    };
  }

  function traces(metric, axis, log, bands) {
    const all = data.curves.map((_, i) => [seriesOf(metric, i, axis), i]).filter(([series]) => series);
    return [
      ...(bands ? all.filter(([s]) => s.std !== 0).map(([s, i]) => bandTrace(s, colors.curves[i], log)) : []),
      ...all.map(([s, i]) => lineTrace(s, i, metric, axis)),
      ...all.filter(([s, i]) => Array.isArray(s.seeds) || data.curves[i].diverged).map(([s, i]) => lossTrace(s, i)),
    ];
  }

  // The layout that all charts share.
  function frame(small) {
    const font = { color: colors.ink, family: getComputedStyle(document.body).fontFamily, size: small ? 11 : 13 };
    const axis = { gridcolor: colors.line, zerolinecolor: colors.line, linecolor: colors.line, automargin: true };
    return {
      font, paper_bgcolor: colors.paper, plot_bgcolor: colors.paper, showlegend: false, hovermode: "closest",
      margin: small ? { l: 44, r: 8, t: 30, b: 34 } : { l: 62, r: 12, t: 28, b: 48 },
      xaxis: axis, yaxis: axis, hoverlabel: { bgcolor: colors.paper, bordercolor: colors.line, font, namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.faint, activecolor: colors.ink },
      width: printWidth ? (small ? printWidth / 2 - 12 : printWidth) : undefined, autosize: !printWidth,
    };
  }

  function layout(metric, axis, log, small) {
    const base = frame(small);
    const title = data.metrics[metric].title;
    const x = { ...base.xaxis, rangemode: "tozero", showspikes: axis === "rounds", spikethickness: 1, spikecolor: colors.faint,
      spikedash: "solid", unifiedhovertitle: { text: "round %{x}" } };
    const y = { ...base.yaxis, type: log ? "log" : "linear", exponentformat: "power" };
    const hovermode = axis === "rounds" ? "x unified" : "closest";
    if (small) {
      return { ...base, hovermode, xaxis: x, yaxis: y, title: { text: title, x: 0.02, y: 0.97, yanchor: "top", font: { size: 13 } } };
    }
    const target = metric === data.headline && data.target !== null && !log;
    return {
      ...base, hovermode, xaxis: { ...x, title: { text: data.axes[axis] } }, yaxis: { ...y, title: { text: title } },
      shapes: target ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: data.target, y1: data.target,
        line: { color: colors.faint, width: 1, dash: "2px,4px" } }] : [],
      annotations: target ? [{ xref: "paper", x: 0, y: data.target, text: `target ${shortened(data.target)}`, showarrow: false,
        xanchor: "left", yanchor: "bottom", font: { color: colors.faint, size: 11 } }] : [],
    };
  }

  const config = { responsive: true, displaylogo: false,
    // Named one by one: by default plotly offers a button that uploads the chart.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: "driftless" } };
  const withoutModeBar = { ...config, displayModeBar: false };

  function drawMain() {
    if (!state.metric) return;
    const main = [state.metric, state.axis, state.log];
    Plotly.react("chart", traces(...main, state.bands), layout(...main, false), config);
  }

  function drawPanels() {
    for (const metric of data.panels) {
      const panel = [metric, state.axis, data.metrics[metric].log];
      Plotly.react(`panel-${metric}`, traces(...panel, state.bands), layout(...panel, true), withoutModeBar);
    }
  }

  function draw() {
    drawMain();
    drawPanels();
  }

  function drawPartitions() {
    for (const holder of document.querySelectorAll("[data-partition]")) {
      const counts = data.partitions[Number(holder.dataset.partition)];
      const [classes, clients] = [counts.length, counts[0].length];
      holder.style.height = `${Math.min(640, 110 + Math.max(classes * 20, 80))}px`;
      const base = frame(false);
      const bare = { showgrid: false, zeroline: false };
      Plotly.react(holder, [{
        z: counts, type: "heatmap", colorscale: [[0, colors.low], [1, colors.high]], xgap: clients > 60 ? 1 : 2, ygap: 1,
        hovertemplate: "client %{x}, class %{y}: %{z} examples<extra></extra>",
        colorbar: { title: { text: "examples", side: "right" }, thickness: 12, outlinewidth: 0, xpad: 14, tickfont: base.font },
      }], {
        ...base, xaxis: { ...base.xaxis, ...bare, title: { text: "client" } },
        yaxis: { ...base.yaxis, ...bare, title: { text: "class" }, dtick: classes <= 20 ? 1 : undefined },
      }, withoutModeBar);
    }
  }

  function redraw() {
    readColors();
    draw();
    drawPartitions();
  }

  function fillControls() {
    const groups = new Map();
    for (const [key, metric] of Object.entries(data.metrics)) {
      if (!groups.has(metric.group)) groups.set(metric.group, Object.assign(document.createElement("optgroup"), { label: metric.group }));
      groups.get(metric.group).append(new Option(metric.title, key, false, key === state.metric));
    }
    element("metric").append(...groups.values());
    element("axis").append(...Object.entries(data.axes).map(([key, name]) => new Option(name, key)));
    for (const metric of data.panels) {
      element("panels").append(Object.assign(document.createElement("div"), { id: `panel-${metric}`, className: "chart" }));
    }
    element("panels-section").hidden = data.panels.length === 0;
    element("bands").closest("label").hidden = data.curves.every((curve) => curve.seeds === 1);
  }

  function addListeners() {
    element("metric").addEventListener("change", (event) => {
      state.metric = event.target.value;
      state.log = element("log").checked = data.metrics[state.metric].log;
      drawMain();
    });
    element("axis").addEventListener("change", (event) => { state.axis = event.target.value; draw(); });
    element("log").addEventListener("change", (event) => { state.log = event.target.checked; drawMain(); });
    element("bands").addEventListener("change", (event) => { state.bands = event.target.checked; draw(); });
    element("legend").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.id === "all") hidden.clear();
      else toggle(Number(button.dataset.curve), event.detail === 2);
      showHidden();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => {
      document.querySelectorAll("details").forEach((details) => { details.open = true; });
      setPrintWidth(690);
    });
    addEventListener("afterprint", () => setPrintWidth(null));
  }

  // A printed page has a fixed width and light colours.
  function setPrintWidth(width) {
    printWidth = width;
    document.documentElement.classList.toggle("printed", width !== null);
    redraw();
  }

  function toggle(curve, alone) {
    if (alone) {
      data.curves.forEach((_, i) => (i === curve ? hidden.delete(i) : hidden.add(i)));
    } else if (!hidden.delete(curve)) {
      hidden.add(curve);
    }
  }

  function showHidden() {
    for (const button of element("legend").querySelectorAll("[data-curve]")) {
      button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.curve))));
    }
    element("all").hidden = hidden.size === 0;
    draw();
  }

  // Sorts by the value in the data, not by its text; what has no value stays at the end in either direction.
  function sortBy(table, position) {
    const header = table.tHead.rows[0].cells[position];
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    const value = (row) => row.cells[position].dataset.value;
    const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    const rows = [...table.tBodies[0].rows].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return ascending ? compare(a, b) : compare(b, a);
    });
    table.tBodies[0].append(...rows);
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  }

  const table = element("table");
  table.tHead.addEventListener("click", (event) => {
    const cell = event.target.closest("button")?.closest("th");
    if (cell) sortBy(table, cell.cellIndex);
  });
  fillControls();
  addListeners();
  if (state.metric) state.log = element("log").checked = data.metrics[state.metric].log;
  redraw();
})();
