/* The plots of a comparison, made of tables that are on the page with or without this script. */
"use strict";

const PLOT_HEIGHT = 220;

/* A canvas cannot use custom properties, so the colour is read from an element that uses them. */
function readColour(name) {
  const probe = document.createElement("span");
  probe.className = `ink-${name}`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function readTable(section) {
  const rows = [...section.querySelectorAll("[data-bar]")];
  return {
    labels: rows.map((row) => row.querySelector("th").textContent),
    series: [...section.querySelectorAll("[data-series]")].map((head, index) => ({
      name: head.textContent,
      values: rows.map((row) => Number(row.querySelectorAll("[data-value]")[index].dataset.value)),
      links: rows.map((row) => row.querySelectorAll("[data-value]")[index].querySelector("a")),
    })),
  };
}

function buildSeries(table) {
  const inks = table.series.length > 1 ? ["baseline", "column"] : ["column"];
  return table.series.map((series, index) => {
    const ink = readColour(inks[index]);
    const align = table.series.length > 1 ? (index ? 1 : -1) : 0;
    return {
      label: series.name,
      stroke: ink,
      fill: ink,
      width: 0,
      value: (_plot, calls) => (calls === null ? "" : `${calls} call${calls === 1 ? "" : "s"}`),
      points: { show: false },
      paths: uPlot.paths.bars({ size: [table.series.length > 1 ? 0.42 : 0.8, 60], align }),
    };
  });
}

function buildOptions(table, width) {
  const axis = { stroke: readColour("axis"), grid: { stroke: readColour("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const label = (index) => table.labels[index] ?? "";
  return {
    width,
    height: PLOT_HEIGHT,
    cursor: { drag: { x: false, y: false }, y: false },
    legend: { live: true },
    scales: { x: { time: false, range: [-0.6, table.labels.length - 0.4] }, y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.05)] } },
    axes: [
      { ...axis, label: "tokens, in steps that double", labelSize: 20, labelFont: axis.font, grid: { show: false }, values: (_plot, splits) => splits.map((split) => (Number.isInteger(split) ? label(split).split(" to ")[0] : "")), space: 44 },
      { ...axis, size: 56, label: "calls", labelSize: 18, labelFont: axis.font },
    ],
    series: [{ label: "tokens", value: (_plot, index) => (index === null ? "" : label(index)) }, ...buildSeries(table)],
  };
}

/* A click on a bar follows the link of its number in the table. */
function follow(plot, table, event) {
  const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
  const index = Math.round(at);
  const side = table.series.length > 1 && at > index ? 1 : 0;
  (table.series[side].links[index] ?? table.series[1 - side]?.links[index])?.click();
}

function draw(section) {
  const area = section.querySelector("[data-plot-area]");
  const table = readTable(section);
  if (!table.labels.length) return;
  area.hidden = false;
  area.replaceChildren();
  const data = [table.labels.map((_label, index) => index), ...table.series.map((series) => series.values)];
  const plot = new uPlot(buildOptions(table, area.clientWidth), data, area);
  plot.over.addEventListener("click", (event) => follow(plot, table, event));
}

function drawAll() {
  for (const section of document.querySelectorAll("[data-plot]")) draw(section);
}

/* uPlot does not load in a browser whose language is not a BCP 47 tag; the tables have the same numbers. */
if (window.uPlot) {
  for (const details of document.querySelectorAll("[data-plot-table]")) details.open = false;
  drawAll();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
