// Settings that were swept: a heat map of final values, and a small chart for each cell of the sweep.

// The background of a cell, from low (0) to high (1), and a text colour that can be read on it.
function shade(cell, share) {
  cell.style.background = `color-mix(in srgb, var(--high) ${Math.round(100 * share)}%, var(--low))`;
  cell.style.color = share > 0.5 ? "var(--paper)" : "var(--ink)";
}

// The colour of an algorithm, where it has one and the same in all cells.
function colorOf(curves) {
  const used = new Set(curves.filter((curve) => curve !== null).map((curve) => data.curves[curve].color));
  return used.size === 1 ? `var(--curve-${[...used][0]})` : null;
}

function named(cell, text, color) {
  cell.append(text);
  if (color) cell.prepend(Object.assign(document.createElement("span"), { className: "dot", style: `background: ${color}` }));
  return cell;
}

function heatTable(caption, color, columns, rows, shareOf) {
  const table = Object.assign(document.createElement("table"), { className: "heat-table" });
  if (caption) named(table.createCaption(), caption, color);
  const head = table.createTHead().insertRow();
  for (const text of columns) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: text }));
  const body = table.createTBody();
  for (const [name, curves] of rows) {
    const row = body.insertRow();
    row.append(named(Object.assign(document.createElement("th"), { scope: "row" }), name, caption ? null : colorOf(curves)));
    for (const curve of curves) heatCell(row.insertCell(), curve, shareOf);
  }
  return table;
}

function heatCell(cell, curve, shareOf) {
  const final = curve === null ? null : data.metrics[metricShown()].finals[curve];
  cell.textContent = final ? shortened(final.mean) : "–";
  if (!final) return;
  if (final.std !== null) cell.append(Object.assign(document.createElement("small"), { textContent: `± ${shortened(final.std, 2)}` }));
  shade(cell, shareOf(final.mean));
}

// Two swept settings: a table for each algorithm; otherwise one table, a row for each algorithm.
function heatTables({ keys, cells, values, names, curves }, shareOf) {
  if (keys.length !== 2) return [heatTable("", null, ["", ...cells], names.map((name, n) => [name, curves[n]]), shareOf)];
  const [down, across] = keys.map((_, k) => [...new Set(values.map((each) => each[k]))]);
  const cellAt = (row, column) => values.findIndex((each) => each[0] === row && each[1] === column);
  return names.map((name, n) => heatTable(name, colorOf(curves[n]), [`${keys[0]} ↓  ${keys[1]} →`, ...across],
    down.map((row) => [row, across.map((column) => curves[n][cellAt(row, column)] ?? null)]), shareOf));
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
  const all = sweep.curves.flat().filter((curve) => curve !== null);
  element("sweep-title").textContent = `Final ${title}${better ? "; the stronger the colour, the better" : ""}`;
  element("heat").replaceChildren(...heatTables(sweep, shareBy({ metric, log, curves: all }, finals)));
  drawCells(sweep, { metric, axis, log, together: shownCurves(metric), solid: sweep.curves.every(colorOf), small: true });
}

// A chart for each cell, with the same axis.
function drawCells({ cells, curves }, shared) {
  const places = cells.map((_, c) => element(`cell-${c}`) ?? Object.assign(document.createElement("div"), { id: `cell-${c}`, className: "chart" }));
  element("cells").replaceChildren(...places);
  for (const [c, title] of cells.entries()) {
    const own = shared.together.filter((curve) => curves.some((row) => row[c] === curve));
    drawChart(places[c], { ...shared, curves: own, title });
  }
}
