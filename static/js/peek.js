/* Keys that open the peek of the focused row, and a peek that follows j and k. */
"use strict";

const panel = document.getElementById("peek");
const peekedId = () => new URLSearchParams(location.search).get("peek")?.replaceAll("-", "");
const isOpen = () => isLoading || Boolean(panel?.firstElementChild);
const rowOf = (element) => element?.closest?.("[data-list] [data-item]");
const titleOf = (id) => (id ? document.getElementById(`run-${id}`) : null);
let peeked = peekedId();
let isLoading = false; /* the panel is requested; a key may come before the response */
let isStep = false; /* from one peek to the next */

/* The rows are replaced when the list polls, so the mark of the peeked row is set again. */
function mark() {
  for (const link of document.querySelectorAll("[data-peek][aria-current]")) link.removeAttribute("aria-current");
  if (isOpen()) rowOf(titleOf(peeked))?.querySelector("[data-peek]")?.setAttribute("aria-current", "true");
}

function close() {
  const link = panel.querySelector("[data-close-peek]");
  if (!link) return;
  const hadFocus = panel.contains(document.activeElement) || document.activeElement === document.body;
  history.pushState({ htmx: true }, "", link.getAttribute("href"));
  panel.replaceChildren();
  mark();
  if (hadFocus) titleOf(peeked)?.focus();
}

function isKeyForPage(event) {
  if (!panel || event.ctrlKey || event.metaKey || event.altKey) return false;
  return !event.target.matches?.("input, textarea, select") && !document.querySelector("dialog[open]");
}

/* Captured before app.js walks: the walk continues from the peeked run. */
document.addEventListener("keydown", (event) => {
  if (!isKeyForPage(event) || !isOpen() || !"jk".includes(event.key)) return;
  if (!rowOf(document.activeElement)) titleOf(peeked)?.focus();
}, true);

document.addEventListener("keydown", (event) => {
  if (!isKeyForPage(event)) return;
  const link = rowOf(document.activeElement)?.querySelector("[data-peek]");
  if (event.key === "Escape" && isOpen()) close();
  else if ((event.key === "p" || event.key === " ") && link) link.click();
  else {
    if ((event.key === "j" || event.key === "k") && isOpen()) link?.click();
    return;
  }
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || !event.target.closest?.("[data-close-peek]")) return;
  event.preventDefault();
  close();
});

/* Opening the peek adds an entry to the browser's history; going on to another run replaces it. */
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target !== panel) return;
  isStep = Boolean(panel.firstElementChild);
  isLoading = true;
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.target === panel && !event.detail.successful) isLoading = false;
});

document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
  if (event.detail.target === panel && isStep) event.detail.history.type = "replace";
});

document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target === panel) {
    peeked = peekedId();
    isLoading = false;
  }
  mark();
});

mark();
