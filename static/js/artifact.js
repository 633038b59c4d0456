/* What HTML has no element for: a range of lines set off by two clicks or by keys, and its address copied.
   Without script the box "Go to" takes the same range, and each line number is a link. */
"use strict";

const ROWS = "#window .line[id^=L], #window .cells tr[id^=L]";
const numberOf = (row) => Number(row.id.slice(1));
const rowsShown = () => [...document.querySelectorAll(ROWS)];
const rowOf = (element) => element.closest?.(".line, .cells tr");
let anchor = 0; /* the line that a range is drawn from */

/* A link as other tools write it: #L120-L180. What is not in this window is asked for. */
function followFragment() {
  const found = /^#L(\d+)(?:-L?(\d+))?$/i.exec(location.hash);
  if (!found) return;
  const isHere = document.getElementById(`L${found[1]}`);
  if (isHere && !found[2]) return;
  const address = new URL(location.href);
  const lines = found[2] ? `${found[1]}-${found[2]}` : found[1];
  if (address.searchParams.get("line") === lines) return;
  for (const name of ["offset", "at", "tail", "go", "hit"]) address.searchParams.delete(name);
  address.searchParams.set("line", lines);
  address.hash = `L${found[1]}`;
  location.replace(address);
}

function setOff(first, last) {
  for (const row of rowsShown()) row.toggleAttribute("data-asked", numberOf(row) >= first && numberOf(row) <= last);
  const lines = first === last ? `${first}` : `${first}-${last}`;
  const address = new URL(document.querySelector("[data-copy-link]").href);
  address.searchParams.delete("offset");
  address.searchParams.set("line", lines);
  address.hash = `L${first}`;
  document.querySelector("[data-copy-link]").href = address.href;
  const box = document.getElementById("line");
  if (box) box.value = lines;
  history.replaceState(history.state, "", address);
  tell(first === last ? `Line ${first}` : `Lines ${first} to ${last}`);
}

function tell(text) {
  const told = document.querySelector("[data-announcement]");
  if (told) told.textContent = text;
}

function choose(row, isRange) {
  const number = numberOf(row);
  if (!isRange || !anchor) anchor = numberOf(isRange ? (document.querySelector("#window [data-asked]") ?? row) : row);
  setOff(Math.min(anchor, number), Math.max(anchor, number));
}

async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link.href);
    tell("Copied the link.");
  } catch {
    location.href = link.href; /* no clipboard here: the address bar has it then */
  }
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey) return;
  const copied = event.target.closest?.("[data-copy-link]");
  const number = event.target.closest?.(".line > a, .cells th a");
  if (copied) copyLink(copied);
  else if (number && rowOf(number).matches(ROWS)) choose(rowOf(number), event.shiftKey);
  else return;
  event.preventDefault();
});

/* On a line number the arrows go to its neighbours; with Shift they draw the range. Enter is a click. */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
  const row = rowOf(document.activeElement);
  if (!row?.matches(ROWS)) return;
  const rows = rowsShown();
  const next = rows[rows.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
  if (!next) return;
  if (event.shiftKey && !anchor) choose(row, false);
  next.querySelector("a").focus();
  if (event.shiftKey) choose(next, true);
  event.preventDefault();
});

/* A page that is followed for hours would hold all that was written meanwhile. */
function letGo() {
  const panel = document.querySelector("#window[data-most]");
  const rows = panel ? [...panel.querySelectorAll(".line")] : [];
  const surplus = rows.slice(0, Math.max(0, rows.length - Number(panel?.dataset.most)));
  if (!surplus.length) return;
  for (const row of surplus) row.remove();
  panel.querySelector("[data-trimmed]").hidden = false;
}

/* What is followed stays in sight for who stands at its end, and only then. */
let wasAtEnd = false;
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id === "follow") wasAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
});
document.addEventListener("htmx:afterSettle", () => {
  if (wasAtEnd) letGo();
  if (wasAtEnd) document.getElementById("follow")?.scrollIntoView({ block: "end" });
  wasAtEnd = false;
});

document.getElementById("follow")?.scrollIntoView({ block: "end" });
addEventListener("hashchange", followFragment);
followFragment();
