/* The list beside the open step follows it: the row of the step is marked and kept in view, and the links of all rows
   open the tab and the form of the halves that are open. */
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
  const row = openRow();
  keepTab();
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
  else if (event.detail.elt?.id === "step" && !followStep()) location.reload();
});

/* The last step of a live run was drawn without a next one: what came since is in the list alone. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "j" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || document.querySelector("dialog[open], .walk [rel=next]")) return;
  const rows = [...document.querySelectorAll(".steps .call-row[id]")];
  rows[rows.indexOf(openRow()) + 1]?.click();
});
document.addEventListener("htmx:historyRestore", followStep);
followStep();
