/* The list beside the open step follows it: the row of the step is marked and kept in view, the title leads up to that
   row, and the links of all rows open the tab and the form of the halves that are open. */
"use strict";

function openRow() {
  return document.getElementById(document.getElementById("step")?.dataset.row);
}

function keepInView(row) {
  const box = row.closest("[data-steps-scroll]");
  if (!box) return;
  const [at, frame] = [row.getBoundingClientRect(), box.getBoundingClientRect()];
  if (at.top < frame.top || at.bottom > frame.bottom) box.scrollTop += at.top - frame.top - frame.height / 3;
}

function keepTab() {
  const tab = location.pathname.match(/[a-z]+$/)?.[0];
  const query = new URLSearchParams(location.search);
  for (const link of tab ? document.querySelectorAll(".steps .call-row[id]") : []) {
    const url = new URL(link.href);
    url.pathname = url.pathname.replace(/[a-z]+$/, tab);
    for (const name of ["left", "right", "spaces"]) {
      if (query.has(name)) url.searchParams.set(name, query.get(name));
      else url.searchParams.delete(name);
    }
    link.href = url.pathname + url.search;
  }
}

function followStep() {
  if (!document.getElementById("step")) {
    const named = document.querySelector(".steps .call-row[aria-current]");
    if (named) keepInView(named);
    return true;
  }
  const [row, step] = [openRow(), document.getElementById("step").dataset];
  keepTab();
  const [up, position] = ["data-up-link", "data-position-of-step"].map((name) => document.querySelector(`.steps [${name}]`));
  if (up) up.href = step.up;
  if (position) position.textContent = Number(step.step).toLocaleString("en");
  for (const other of document.querySelectorAll(".steps .call-row[aria-current]")) other.removeAttribute("aria-current");
  if (!row) return false;
  row.setAttribute("aria-current", "true");
  keepInView(row);
  return true;
}

/* htmx has the address of a link from when it found the link. */
document.addEventListener("htmx:configRequest", (event) => {
  if (event.target.matches?.(".steps .call-row[id]")) event.detail.path = event.target.pathname + event.target.search;
});

/* Beyond the rows of the list the page is loaded anew, with the rows around the step. */
document.addEventListener("htmx:afterSettle", (event) => {
  if (!document.querySelector(".steps")) return;
  if (event.detail.elt?.id === "step-rows") keepTab();
  else if (event.detail.elt?.id === "step") {
    if (openRow()?.id === wanted) forgetWanted();
    if (!followStep()) location.reload();
  }
});

/* j and k count from the step that was last asked for, not from the one that is shown: presses that come faster than the
   answers are not lost. They are counted for a moment, and a request under way is given up for the last one (hx-sync). Beyond the rows of the list the page
   of the last step that was asked for is loaded, once no key follows. */
const GAP = 60; /* milliseconds from one request to the next */
const PAUSE = 150; /* milliseconds without a key */
let wanted = ""; /* the id of the row of the step that was asked for; a live run replaces the rows */
let beyond = 0; /* steps behind the end of the list, or before its beginning */
let timer = 0;
let sent = -Infinity; /* when the last step was asked for */

function rowsOfCalls() {
  return [...document.querySelectorAll(".steps .call-row[id]")];
}

function walkSteps(by) {
  const rows = rowsOfCalls();
  const at = rows.indexOf(document.getElementById(wanted) ?? openRow());
  const next = at < 0 || beyond ? undefined : rows[at + by];
  if (next) {
    wanted = next.id;
    clearTimeout(timer);
    const wait = sent + GAP - performance.now();
    if (wait > 0) timer = setTimeout(askForWanted, wait);
    else askForWanted();
    return true;
  }
  return at >= 0 && walkBeyond(rows[at], by);
}

function askForWanted() {
  sent = performance.now();
  document.getElementById(wanted)?.click();
}

/* Without a filter the addresses of the steps behind the list are known. */
function walkBeyond(edge, by) {
  const more = document.querySelector(by > 0 ? ".steps [data-more=later]" : ".steps [data-more=earlier]");
  if ((!more && !beyond) || new URLSearchParams(location.search).has("q")) return false;
  const last = Number(document.querySelector(".steps").dataset.total);
  const position = Math.min(last, Math.max(1, Number(edge.dataset.position) + beyond + by));
  beyond = position - Number(edge.dataset.position);
  clearTimeout(timer);
  timer = setTimeout(() => {
    const url = new URL(edge.href);
    url.pathname = url.pathname.replace(/[0-9]+(?=[/][a-z]+$)/, position);
    location.assign(url);
  }, PAUSE);
  return true;
}

document.addEventListener("keydown", (event) => {
  if ((event.key !== "j" && event.key !== "k") || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || !document.getElementById("step") || document.querySelector("dialog[open]")) return;
  if (document.querySelector("[data-list-place]")) { /* the list that the call was opened from, whose calls are of any run */
    document.getElementById(event.key === "j" ? "step-after" : "step-before")?.click();
    event.preventDefault();
  } else if (walkSteps(event.key === "j" ? 1 : -1)) event.preventDefault();
}, { capture: true });

function forgetWanted() {
  wanted = "";
}

document.addEventListener("htmx:responseError", forgetWanted);
document.addEventListener("htmx:sendError", forgetWanted);
document.addEventListener("htmx:historyRestore", () => {
  forgetWanted();
  followStep();
});
followStep();
