// Settings that were swept: a heat map of final values, and a small chart for each cell of the sweep.

// The background of a cell, from low (0) to high (1), and a text colour that can be read on it.
function shade(cell, share) {
  cell.style.background = `color-mix(in srgb, var(--high) ${Math.round(100 * share)}%, var(--low))`;
  cell.style.color = share > 0.5 ? "var(--paper)" : "var(--ink)";
}

function heatTable(caption, columns, rows, shareOf) {
  const table = Object.assign(document.createElement("table"), { className: "heat-table" });
  if (caption) table.createCaption().textContent = caption;
  const head = table.createTHead().insertRow();
  for (const text of columns) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: text }));
  const body = table.createTBody();
  for (const [name, curves] of rows) {
    const row = body.insertRow();
    row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: name }));
    for (const curve of curves) heatCell(row.insertCell(), curve, shareOf);
  }
  return table;
}

function heatCell(cell, curve, shareOf) {
  const final = curve === null ? null : data.metrics[metricShown()].finals[curve];
  cell.textContent = final ? shortened(final.mean) : "–";
  if (!final) return;
  cell.append(Object.assign(document.createElement("small"), { textContent: final.std === null ? "" : `± ${shortened(final.std, 2)}` }));
  shade(cell, shareOf(final.mean));
}

// Two swept settings: a table for each algorithm; otherwise one table, a row for each algorithm.
function heatTables(sweep, shareOf) {
  const { keys, cells, variants, curves } = sweep;
  if (keys.length !== 2) {
    const rows = variants.map((variant, v) => [variant, curves[v]]);
    return [heatTable("", [keys.length === 1 ? keys[0] : "", ...cells.map((cell) => cell.title)], rows, shareOf)];
  }
  const [down, across] = keys.map((_, k) => [...new Set(cells.map((cell) => cell.values[k]))]);
  return variants.map((variant, v) => heatTable(variant, [`${keys[0]} \\ ${keys[1]}`, ...across], down.map((row) => [
    row, across.map((column) => curves[v][cells.findIndex((cell) => cell.values[0] === row && cell.values[1] === column)] ?? null),
  ]), shareOf));
}

// From a value to its share of the colours. A loss that diverged does not use them up.
function shareBy(chart, finals) {
  const view = closeView(chart);
  const scale = chart.log ? Math.log10 : (value) => value;
  const known = finals.flatMap((final) => (final && (!view || (final.mean >= view[0] && final.mean <= view[1])) ? [scale(final.mean)] : []));
  const [low, high] = extremes(known);
  const share = (value) => Math.min(1, Math.max(0, (scale(value) - low) / (high - low || 1)));
  return data.metrics[chart.metric].better === "low" ? (value) => 1 - share(value) : share;
}

function drawSweep({ metric, axis, log }) {
  const { sweep } = data;
  element("sweep-section").hidden = !sweep;
  if (!sweep) return;
  const { finals, title, better } = data.metrics[metric];
  element("sweep-title").textContent = `Final ${title}${better ? "; darker is better" : ""}`;
  element("heat").replaceChildren(...heatTables(sweep, shareBy({ metric, log, curves: sweep.curves.flat() }, finals)));
  drawCells(sweep, metric, axis, log);
}

// A chart for each cell, with the same axis.
function drawCells({ cells, curves }, metric, axis, log) {
  const places = cells.map((_, c) => element(`cell-${c}`) ?? Object.assign(document.createElement("div"), { id: `cell-${c}`, className: "chart" }));
  element("cells").replaceChildren(...places);
  const shown = new Set(shownCurves(metric));
  const all = curves.flat().filter((curve) => shown.has(curve));
  for (const [c, cell] of cells.entries()) {
    const own = curves.map((row) => row[c]).filter((curve) => shown.has(curve));
    drawChart(places[c], { metric, axis, log, curves: own, together: all, title: cell.title, small: true, solid: true });
  }
}
