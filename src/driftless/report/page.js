// What a reader does: chooses what is drawn, hides curves, sorts tables. A choice outlives a renewal of the page.

const markup = new Map(); // the parts of the page as they were written, by their id
const sorting = new Map(); // table -> { column, ascending }

const metricShown = () => (state.metric in data.metrics ? state.metric : data.headline);
const axisShown = () => (state.axis in data.axes ? state.axis : "rounds");

function draw() {
  const metric = metricShown();
  element("curves-body").hidden = !metric;
  element("no-curves").hidden = !!metric;
  if (!metric) return;
  showControls(metric);
  showLegend(metric);
  const axis = axisShown();
  const chart = { metric, axis, log: state.log ?? data.metrics[metric].log, curves: shownCurves(metric) };
  const panels = data.panels.map((key) => ({ metric: key, axis, log: data.metrics[key].log, curves: shownCurves(key), small: true }));
  showBeyond([chart, ...panels]);
  drawChart(element("chart"), chart);
  drawSweep(chart);
  for (const panel of panels) drawChart(element(`panel-${panel.metric}`), panel);
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
    groups.get(metric.group).append(new Option(metric.title, key));
  }
  element("metric").replaceChildren(...groups.values());
  element("axis").replaceChildren(...Object.entries(data.axes).map(([key, { name, short }]) => {
    const label = Object.assign(document.createElement("label"), { title: name });
    label.append(Object.assign(document.createElement("input"), { type: "radio", name: "axis", value: key }), short);
    return label;
  }));
  const panels = data.panels.map((key) => element(`panel-${key}`)
    ?? Object.assign(document.createElement("div"), { id: `panel-${key}`, className: "chart" }));
  element("panels").replaceChildren(...panels);
  element("panels-section").hidden = data.panels.length === 0;
  element("bands").closest("label").hidden = data.curves.every((curve) => curve.seeds === 1);
}

function showControls(metric) {
  element("metric").value = metric;
  element("axis").querySelector(`[value="${axisShown()}"]`).checked = true;
  element("log").checked = state.log ?? data.metrics[metric].log;
  element("bands").checked = state.bands;
}

// In the order of the final values of what is shown.
function showLegend(metric) {
  const buttons = [...element("legend").querySelectorAll("[data-curve]")];
  const order = data.metrics[metric].order.map((i) => buttons.find((button) => Number(button.dataset.curve) === i));
  if (order.some((button, i) => button !== buttons[i])) element("legend").prepend(...order);
  for (const [i, button] of order.entries()) {
    const { label } = data.curves[data.metrics[metric].order[i]];
    button.setAttribute("aria-pressed", String(!state.hidden.has(label)));
  }
  element("all").hidden = state.hidden.size === 0;
}

// What the charts leave out at first is said, and can be had with a click.
function showBeyond(charts) {
  const [main, ...panels] = charts.map((chart) => beyond(chart, closeView(chart)));
  element("everything").closest("label").hidden = ![main, ...panels].some((texts) => texts.length);
  element("everything").checked = state.everything;
  element("beyond").textContent = main.length && !state.everything
    ? `Not in view: ${listed(main, 4)}. Tick “every value”, or double-click in the chart, to see all.` : "";
}

function toggle(label, alone) {
  if (alone) state.hidden = new Set(data.curves.map((curve) => curve.label).filter((other) => other !== label));
  else if (!state.hidden.delete(label)) state.hidden.add(label);
}

// Sorts by the value in the data, not by its text; what has no value stays at the end in either direction.
function sortRows(table) {
  const { column, ascending } = sorting.get(table.id);
  const header = [...table.tHead.rows[0].cells].find((cell) => cell.dataset.column === column);
  if (!header) return;
  const value = (row) => row.cells[header.cellIndex].dataset.value;
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

document.addEventListener("change", ({ target }) => {
  if (target.id === "metric") Object.assign(state, { metric: target.value, log: null });
  else if (target.name === "axis") state.axis = target.value;
  else if (target.id === "log") state.log = target.checked;
  else if (target.id === "bands" || target.id === "everything") state[target.id] = target.checked;
  else return;
  draw();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const header = button?.closest("th[data-column]");
  if (header) {
    const table = header.closest("table");
    sorting.set(table.id, { column: header.dataset.column, ascending: header.getAttribute("aria-sort") !== "ascending" });
    return sortRows(table);
  }
  if (button?.dataset.curve) toggle(data.curves[Number(button.dataset.curve)].label, event.detail === 2);
  else if (button?.id === "all") state.hidden.clear();
  else return;
  draw();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  setPrintWidth(690);
});
addEventListener("afterprint", () => setPrintWidth(null));

// A printed page has a fixed width and light colours.
function setPrintWidth(width) {
  printWidth = width;
  document.documentElement.classList.toggle("printed", width !== null);
  redraw();
}

// Takes over the numbers of a newer version of this page, and those of its parts that have changed.
function renew(newer) {
  for (const part of newer.querySelectorAll("[data-part]")) {
    const old = element(part.id);
    if (markup.get(part.id) === part.outerHTML) continue;
    markup.set(part.id, part.outerHTML);
    const open = [...old.querySelectorAll("details")].map((details) => details.open);
    part.querySelectorAll("details").forEach((details, i) => { details.open = open[i] ?? false; });
    old.replaceWith(part);
  }
  document.title = newer.title;
  read(newer);
}

function read(page) {
  data = JSON.parse(page.getElementById("data").textContent);
  fillControls();
  for (const id of sorting.keys()) sortRows(element(id));
  redraw();
}

globalThis.renew = renew; // for live.js
for (const part of document.querySelectorAll("[data-part]")) markup.set(part.id, part.outerHTML);
read(document);
