/* What HTML has no element for: walking the failed calls, a live run that keeps what was opened, an upload that
   shows how far it is. */
"use strict";

const FAILED_ROWS = '[data-list] a[data-outcome="failed"]';

/* The next failed row in the page; beyond it, the page that the strip of failed calls names. */
function walkFailed(step) {
  const rows = [...document.querySelectorAll(FAILED_ROWS)];
  const from = document.activeElement?.closest("[data-list] [data-item]") ?? null;
  const isAhead = (row) => {
    if (!from) return true;
    const side = from.compareDocumentPosition(row);
    return !from.contains(row) && Boolean(side & (step > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING));
  };
  const ahead = rows.filter(isAhead);
  const row = step > 0 ? ahead[0] : ahead.at(-1);
  if (row) show(row);
  else leaveFor(step, rows);
}

function leaveFor(step, rows) {
  const chips = [...document.querySelectorAll("[data-failed] [data-call]")];
  const known = new Set(rows.map((row) => row.id));
  const places = chips.map((chip, index) => (known.has(chip.dataset.call) ? index : -1)).filter((index) => index >= 0);
  const at = step > 0 ? Math.max(-1, ...places) : Math.min(chips.length, ...places);
  chips[at + step]?.click();
}

function show(row) {
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "center" });
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (event.key !== "f" && event.key !== "F") return;
  if (!document.querySelector("[data-failed]")) return;
  event.preventDefault();
  walkFailed(event.key === "f" ? 1 : -1);
});

/* A chip whose row is here needs no new page. */
document.addEventListener("click", (event) => {
  const chip = event.target.closest?.("[data-call]");
  const row = chip && document.getElementById(chip.dataset.call);
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(row);
});

/* An address with #c-… came from a chip or a call: the row takes the focus, so that f and j go on from it. */
if (location.hash.startsWith("#c-")) document.getElementById(location.hash.slice(1))?.focus();
else if (location.hash === "#end") walk(-1); /* no element has that name: the browser would take the focus from the item */

/* A live run renews itself; what was opened or folded stays so, and what is being typed is kept by hx-preserve. */
let folds = [];

document.addEventListener("htmx:beforeSwap", (event) => {
  folds = [...event.detail.target.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
});

document.addEventListener("htmx:afterSwap", () => {
  for (const [id, open] of folds.splice(0)) {
    const details = document.getElementById(id);
    if (details) details.open = open;
  }
});

/* A form alone can neither send a folder's names nor say how far it is. Without this it posts as it is. */
const BYTES_A_MEGABYTE = 1_000_000;

function megabytes(bytes) {
  return `${(bytes / BYTES_A_MEGABYTE).toFixed(1)} MB`;
}

function sendUpload(form) {
  const state = form.querySelector("[data-upload-state]");
  const bar = form.querySelector("progress");
  const button = form.querySelector("button");
  const body = new FormData();
  body.append("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  const files = [...form.querySelectorAll('input[type="file"]')].flatMap((input) => [...input.files]);
  for (const file of files) {
    body.append("files", file);
    body.append("paths", file.webkitRelativePath || file.name);
  }
  const request = new XMLHttpRequest();
  const stop = (said) => {
    state.textContent = said;
    bar.hidden = true;
    button.disabled = false;
  };
  request.upload.addEventListener("progress", (event) => {
    bar.value = event.lengthComputable ? event.loaded / event.total : 0;
    state.textContent = `${megabytes(event.loaded)} of ${megabytes(event.total)} sent`;
  });
  request.upload.addEventListener("load", () => {
    bar.removeAttribute("value");
    state.textContent = "All sent; reading it now.";
  });
  request.addEventListener("load", () => showAnswer(request.responseText) || stop(`The server answered ${request.status}.`));
  request.addEventListener("error", () => stop("The connection broke. Nothing is lost: send it again."));
  bar.hidden = false;
  button.disabled = true;
  state.textContent = "Sending.";
  request.open("POST", form.action);
  request.send(body);
}

/* The answer is a whole page, as it is without scripts; its main part takes the place of this one. */
function showAnswer(html) {
  const answer = new DOMParser().parseFromString(html, "text/html");
  const main = answer.querySelector("main");
  if (!main) return false;
  document.title = answer.title;
  document.querySelector("main").replaceWith(main);
  for (const hidden of main.querySelectorAll("[data-needs-script]")) hidden.hidden = false;
  main.tabIndex = -1;
  main.focus();
  scrollTo(0, 0);
  return true;
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-upload]")) return;
  event.preventDefault();
  sendUpload(event.target);
});
