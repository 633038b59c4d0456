/* The plots of a comparison. Their numbers are the table's, which is there without this and stays there. */
"use strict";

const PLOT_HEIGHT = 220;

/* A canvas knows no custom properties: the colour is asked of an element that has it. */
function colour(name) {
  const probe = document.createElement("span");
  probe.className = `ink-${name}`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function readTable(section) {
  const rows = [...section.querySelectorAll("[data-bar]")];
  return {
    labels: rows.map((row) => row.querySelector("th").textContent),
    series: [...section.querySelectorAll("[data-series]")].map((head, place) => ({
      name: head.textContent,
      values: rows.map((row) => Number(row.querySelectorAll("[data-value]")[place].dataset.value)),
      links: rows.map((row) => row.querySelectorAll("[data-value]")[place].querySelector("a")),
    })),
  };
}

function seriesOf(table) {
  const inks = table.series.length > 1 ? ["baseline", "column"] : ["column"];
  return table.series.map((one, place) => {
    const ink = colour(inks[place]);
    const align = table.series.length > 1 ? (place ? 1 : -1) : 0;
    return {
      label: one.name,
      stroke: ink,
      fill: ink,
      width: 0,
      value: (_plot, calls) => (calls === null ? "" : `${calls} call${calls === 1 ? "" : "s"}`),
      points: { show: false },
      paths: uPlot.paths.bars({ size: [table.series.length > 1 ? 0.42 : 0.8, 60], align }),
    };
  });
}

function optionsOf(table, width) {
  const axis = { stroke: colour("axis"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const label = (place) => table.labels[place] ?? "";
  return {
    width,
    height: PLOT_HEIGHT,
    cursor: { drag: { x: false, y: false }, y: false },
    legend: { live: true },
    scales: { x: { time: false, range: [-0.6, table.labels.length - 0.4] }, y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.05)] } },
    axes: [
      { ...axis, label: "tokens, in steps that double", labelSize: 20, labelFont: axis.font, grid: { show: false }, values: (_plot, places) => places.map((place) => (Number.isInteger(place) ? label(place).split(" to ")[0] : "")), space: 44 },
      { ...axis, size: 56, label: "calls", labelSize: 18, labelFont: axis.font },
    ],
    series: [{ label: "tokens", value: (_plot, place) => (place === null ? "" : label(place)) }, ...seriesOf(table)],
  };
}

/* A bar leads where its number in the table leads. */
function follow(plot, table, event) {
  const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
  const place = Math.round(at);
  const side = table.series.length > 1 && at > place ? 1 : 0;
  (table.series[side].links[place] ?? table.series[1 - side]?.links[place])?.click();
}

function draw(section) {
  const area = section.querySelector("[data-plot-area]");
  const table = readTable(section);
  if (!table.labels.length) return;
  area.hidden = false;
  area.replaceChildren();
  const data = [table.labels.map((_label, place) => place), ...table.series.map((one) => one.values)];
  const plot = new uPlot(optionsOf(table, area.clientWidth), data, area);
  plot.over.addEventListener("click", (event) => follow(plot, table, event));
}

function drawAll() {
  for (const section of document.querySelectorAll("[data-plot]")) draw(section);
}

/* uPlot refuses a browser whose language is no BCP 47 tag; the tables say the same. */
if (window.uPlot) {
  for (const details of document.querySelectorAll("[data-plot-table]")) details.open = false;
  drawAll();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
