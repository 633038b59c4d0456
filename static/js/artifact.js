/* A range of lines highlighted by two clicks or by keys, and its address copied: HTML has no element for either.
   Without script the box "Go to" takes the same range, and each line number is a link. */
"use strict";

const ROWS = "#window .line[id^=L], #window .cells tr[id^=L]";
const numberOf = (row) => Number(row.id.slice(1));
const visibleRows = () => [...document.querySelectorAll(ROWS)];
const rowOf = (element) => element.closest?.(".line, .cells tr");
let anchor = 0; /* the line at which a range begins */

/* A link as other tools write it: #L120-L180. A line that is not in this window is requested. */
function followFragment() {
  const range = /^#L(\d+)(?:-L?(\d+))?$/i.exec(location.hash);
  if (!range) return;
  const isHere = document.getElementById(`L${range[1]}`);
  if (isHere && !range[2]) return;
  const address = new URL(location.href);
  const lines = range[2] ? `${range[1]}-${range[2]}` : range[1];
  if (address.searchParams.get("line") === lines) return;
  for (const name of ["offset", "at", "tail", "go", "hit", "from"]) address.searchParams.delete(name);
  address.searchParams.set("line", lines);
  address.hash = `L${range[1]}`;
  location.replace(address);
}

function highlight(first, last) {
  for (const row of visibleRows()) row.toggleAttribute("data-highlighted", numberOf(row) >= first && numberOf(row) <= last);
  const lines = first === last ? `${first}` : `${first}-${last}`;
  const link = document.querySelector("[data-copy-link]");
  const address = new URL(link.href);
  for (const name of ["offset", "from"]) address.searchParams.delete(name);
  address.searchParams.set("line", lines);
  address.hash = `L${first}`;
  link.href = address.href;
  const box = document.getElementById("line");
  if (box) box.value = lines;
  history.replaceState(history.state, "", address);
  announce(first === last ? `Line ${first}` : `Lines ${first} to ${last}`);
}

function announce(text) {
  const output = document.querySelector("[data-announcement]");
  if (output) output.textContent = text;
}

function choose(row, isRange) {
  const number = numberOf(row);
  if (!isRange || !anchor) anchor = numberOf(isRange ? (document.querySelector("#window [data-highlighted]") ?? row) : row);
  highlight(Math.min(anchor, number), Math.max(anchor, number));
}

async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link.href);
    announce("Copied the link.");
  } catch {
    location.href = link.href; /* without a clipboard the address bar gets it */
  }
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey) return;
  const copyButton = event.target.closest?.("[data-copy-link]");
  const number = event.target.closest?.(".line > a, .cells th a");
  if (copyButton) copyLink(copyButton);
  else if (number && rowOf(number).matches(ROWS)) choose(rowOf(number), event.shiftKey);
  else return;
  event.preventDefault();
});

/* On a line number the arrows go to its neighbours; with Shift they extend the range. Enter is a click. */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
  const row = rowOf(document.activeElement);
  if (!row?.matches(ROWS)) return;
  const rows = visibleRows();
  const next = rows[rows.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
  if (!next) return;
  if (event.shiftKey && !anchor) choose(row, false);
  next.querySelector("a").focus();
  if (event.shiftKey) choose(next, true);
  event.preventDefault();
});

/* Removes the oldest rows of a page that has followed a file for hours. */
function trimRows() {
  const panel = document.querySelector("#window[data-max-rows]");
  const rows = panel ? [...panel.querySelectorAll(".line")] : [];
  const surplus = rows.slice(0, Math.max(0, rows.length - Number(panel?.dataset.maxRows)));
  if (!surplus.length) return;
  for (const row of surplus) row.remove();
  panel.querySelector("[data-trimmed]").hidden = false;
}

/* New rows scroll into view only for a reader who is at the end of the page. */
let wasAtEnd = false;
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id === "follow") wasAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
});
document.addEventListener("htmx:afterSettle", () => {
  if (wasAtEnd) trimRows();
  if (wasAtEnd) document.getElementById("follow")?.scrollIntoView({ block: "end" });
  wasAtEnd = false;
});

document.getElementById("follow")?.scrollIntoView({ block: "end" });
addEventListener("hashchange", followFragment);
followFragment();
