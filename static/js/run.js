/* Keys that walk through the failed calls, a live run whose open folds stay open, and an upload with progress. */
"use strict";

const FAILED_ROWS = '[data-list] a[data-outcome="failed"]';

/* Goes to the next failed row in the page; beyond the last one, to the page that the strip of failed calls links. */
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
  else followChip(step, rows);
}

function followChip(step, rows) {
  const chips = [...document.querySelectorAll("[data-failed] [data-call]")];
  const known = new Set(rows.map((row) => row.id));
  const indexes = chips.map((chip, index) => (known.has(chip.dataset.call) ? index : -1)).filter((index) => index >= 0);
  const at = step > 0 ? Math.max(-1, ...indexes) : Math.min(chips.length, ...indexes);
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

/* A chip whose row is in the page scrolls to it instead of loading a page. */
document.addEventListener("click", (event) => {
  const chip = event.target.closest?.("[data-call]");
  const row = chip && document.getElementById(chip.dataset.call);
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(row);
});

/* An address with #c-… comes from a chip or a call: the row gets the focus, so that f and j continue from it. */
if (location.hash.startsWith("#c-")) document.getElementById(location.hash.slice(1))?.focus();
else if (location.hash === "#end") walk(-1); /* no element has this id: with one the browser would move the focus away */

/* A live run is polled: folds keep their state here, and a field being typed in is kept by hx-preserve. */
let folds = [];

/* A page, or a list, that shows the end of a live run goes on to show it; one that was scrolled away stays. */
let end = null;

function scrollerOf(target) {
  if (target.id === "history-tail") return document.documentElement;
  return target.matches("[data-steps-scroll]") ? target : target.id === "live" ? target.querySelector("[data-steps-scroll]") : null;
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const box = scrollerOf(event.detail.target);
  if (!box) {
    end = null;
    return;
  }
  /* A page that fits its window is read from its head; a list that is just full is about its end. */
  const isAtEnd = box.scrollTop + box.clientHeight > box.scrollHeight - 40;
  end = { id: event.detail.target.id, top: box.scrollTop, isShown: isAtEnd && (box.scrollTop > 0 || box !== document.documentElement) };
});

document.addEventListener("htmx:afterSwap", () => {
  const target = end && document.getElementById(end.id);
  const box = target && scrollerOf(target);
  if (box) box.scrollTop = end.isShown ? box.scrollHeight : end.top;
  end = null;
});

document.addEventListener("htmx:beforeSwap", (event) => {
  folds = [...event.detail.target.querySelectorAll("details[id]")].map((details) => [details.id, details.open]);
});

document.addEventListener("htmx:afterSwap", () => {
  for (const [id, open] of folds.splice(0)) {
    const details = document.getElementById(id);
    if (details) details.open = open;
  }
});

/* A plain form can neither send the paths within a folder nor show progress. Without script it posts the files. */
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
  const stop = (message) => {
    state.textContent = message;
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
  request.addEventListener("load", () => showResponse(request.responseText) || stop(`The server answered ${request.status}.`));
  request.addEventListener("error", () => stop("The connection broke. Nothing is lost: send it again."));
  bar.hidden = false;
  button.disabled = true;
  state.textContent = "Sending.";
  request.open("POST", form.action);
  request.send(body);
}

/* The response is a whole page, as it is without script; its main part replaces this one. */
function showResponse(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const main = page.querySelector("main");
  if (!main) return false;
  document.title = page.title;
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
