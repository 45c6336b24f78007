// The charts: the numbers of the page in, traces and layouts for plotly out.

let data; // the embedded numbers; read again when the page is renewed
let colors = {};
let printWidth = null; // set while the page is printed
// null: as the numbers suggest. `hidden` are labels, which outlive a renewal.
const state = { metric: null, axis: "rounds", log: null, bands: true, everything: false, hidden: new Set() };

const element = (id) => document.getElementById(id);
const faded = (hex, alpha) =>
  `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const at = (values, i) => (Array.isArray(values) ? values[i] : values);
function shortened(value, digits = 4) {
  if (value === null) return "?";
  const near = Number(value.toPrecision(digits));
  return Math.abs(near) < 1e7 ? near.toString() : near.toExponential();
}
const extremes = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];

// The style sheet has the colours for light, dark and print.
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  colors = Object.fromEntries(["ink", "faint", "line", "paper", "card", "low", "high"].map((name) => [name, read(`--${name}`)]));
  colors.curves = data.curves.map((curve) => read(`--curve-${curve.color}`));
}

// The curves that are not hidden, the best first.
const shownCurves = (metric) => data.metrics[metric].order.filter((i) => !state.hidden.has(data.curves[i].label));

function seriesOf(metric, curve, axis) {
  const series = data.series[metric][curve];
  const x = series && data.grids[series.grid][axis];
  return !x || x.every((value) => value === null) ? null : { ...series, x };
}

// Mean plus and minus deviation as one closed outline; rounds with a single seed have no band.
function bandTrace(series, color, log) {
  const spans = [[]];
  const lowest = extremes(series.mean.filter((value) => value > 0))[0] / 10;
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

function lineTrace(series, index, metric, axis, solid) {
  const curve = data.curves[index];
  const text = series.mean.map((mean, i) => {
    const seeds = at(series.seeds, i);
    const spread = seeds > 1 ? ` ± ${shortened(at(series.std, i), 2)}` : "";
    return `${shortened(mean)}${spread}${seeds < curve.seeds ? ` (${seeds} of ${curve.seeds} seeds)` : ""}`;
  });
  const few = series.mean.filter((value) => value !== null).length <= 12;
  const dash = !solid && curve.dash.length ? curve.dash.map((v) => `${v}px`).join(",") : "solid";
  return {
    x: series.x, y: series.mean, text, type: "scatter", mode: few ? "lines+markers" : "lines", name: escaped(curve.label),
    line: { color: colors.curves[index], width: 2, dash }, marker: { size: 5 }, showlegend: false, meta: { curve: index, metric },
    hovertemplate: axis === "rounds" ? "%{text}" : `${escaped(curve.label)}: %{text}<br>%{x:.4s}, ${data.axes[axis].name}<extra></extra>`,
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

function traces({ metric, axis, log, curves, solid }) {
  const all = curves.map((i) => [seriesOf(metric, i, axis), i]).filter(([series]) => series);
  return [
    ...(state.bands ? all.filter(([s]) => s.std !== 0).map(([s, i]) => bandTrace(s, colors.curves[i], log)) : []),
    ...all.map(([s, i]) => lineTrace(s, i, metric, axis, solid)),
    ...all.filter(([s, i]) => Array.isArray(s.seeds) || data.curves[i].diverged).map(([s, i]) => lossTrace(s, i)),
  ];
}

// Where the curves are: the values between which the axis begins and ends at first; null for all values.
// Charts that share an axis name each other's curves in `together`.
function closeView({ metric, log, curves, together }) {
  const all = (together ?? curves).map((i) => data.series[metric][i]).filter((series) => series?.range);
  const near = all.filter((series) => !series.far);
  if (!all.length) return null;
  const ends = extremes((near.length ? near : all).flatMap((series) => series.range));
  if (log && ends[0] <= 0) return null;
  const [low, high] = log ? ends.map(Math.log10) : ends;
  const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  return log ? [10 ** (low - room), 10 ** (high + room)] : [low - room, high + room];
}

// What lies beyond that, in words, a text for each curve.
function beyond(chart, view) {
  if (!view) return [];
  return chart.curves.flatMap((i) => {
    const [low, high] = extremes((data.series[chart.metric][i]?.mean ?? []).filter((value) => value !== null && (!chart.log || value > 0)));
    const parts = [low < view[0] && `down to ${shortened(low, 2)}`, high > view[1] && `up to ${shortened(high, 2)}`].filter(Boolean);
    return parts.length ? [`${data.curves[i].label} (${parts.join(" and ")})`] : [];
  });
}

const listed = (texts, most) =>
  texts.slice(0, most).join(", ") + (texts.length > most ? ` and ${texts.length - most} more` : "");

// The layout that all charts share.
function frame(small) {
  const font = { color: colors.ink, family: getComputedStyle(document.body).fontFamily, size: small ? 11 : 13 };
  const axis = { gridcolor: colors.line, zerolinecolor: colors.line, linecolor: colors.line, automargin: true };
  return {
    font, paper_bgcolor: colors.paper, plot_bgcolor: colors.paper, showlegend: false, hovermode: "closest",
    margin: small ? { l: 44, r: 8, t: 40, b: 34 } : { l: 62, r: 12, t: 28, b: 48 },
    xaxis: axis, yaxis: axis, hoverlabel: { bgcolor: colors.paper, bordercolor: colors.line, font, namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.faint, activecolor: colors.ink },
    width: printWidth ? (small ? printWidth / 2 - 12 : printWidth) : undefined, autosize: !printWidth,
  };
}

function layout(chart) {
  const { metric, axis, log, small } = chart;
  const base = frame(small);
  const view = state.everything ? null : closeView(chart);
  const range = view && (log ? view.map(Math.log10) : view);
  const x = { ...base.xaxis, rangemode: "tozero", showspikes: axis === "rounds", spikethickness: 1, spikecolor: colors.faint,
    spikedash: "solid", unifiedhovertitle: { text: "round %{x}" } };
  const y = { ...base.yaxis, type: log ? "log" : "linear", exponentformat: "power", ...(range ? { range } : { autorange: true }) };
  const shared = { ...base, hovermode: axis === "rounds" ? "x unified" : "closest",
    // What a reader zoomed stays as long as these stay.
    uirevision: [metric, axis, log, state.everything].join() };
  const title = chart.title ?? data.metrics[metric].title;
  if (small) {
    const left = listed(beyond(chart, view), 1);
    return {
      ...shared, xaxis: x, yaxis: y, title: { text: escaped(title), x: 0.02, y: 0.97, yanchor: "top", font: { size: 13 } },
      annotations: left ? [{ text: escaped(`not in view: ${left}`), xref: "paper", x: 0, xanchor: "left", yref: "paper", y: 1,
        yanchor: "bottom", showarrow: false, font: { color: colors.faint, size: 10 } }] : [],
    };
  }
  const target = metric === data.headline && data.target !== null && !log;
  return {
    ...shared, xaxis: { ...x, title: { text: data.axes[axis].name } }, yaxis: { ...y, title: { text: escaped(title) } },
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

const given = new WeakMap(); // chart -> the range that its axis began with

// A reader's zoom outlives new numbers: plotly keeps it as long as the range that we give stays the same.
function drawChart(holder, chart) {
  const wanted = layout(chart);
  const before = given.get(holder);
  const zoomed = before && holder.layout.uirevision === wanted.uirevision && String(holder.layout.yaxis.range) !== String(before);
  if (zoomed) wanted.yaxis = { ...wanted.yaxis, autorange: false, range: before };
  given.set(holder, wanted.yaxis.range && [...wanted.yaxis.range]);
  wanted.yaxis.range &&= [...wanted.yaxis.range];
  Plotly.react(holder, traces(chart), wanted, chart.small ? withoutModeBar : config);
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
