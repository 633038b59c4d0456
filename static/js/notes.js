/* A note on selected characters: e, or the button beside the selection, fills the form; N does with the linked text that
   n leads to, where a keyboard selects nothing. Links of notes show their characters in the half. The server finds the passage by its text, so the offset counted here is a proposal. */
"use strict";

const HALVES = ["receipt", "canonical", "recorded", "envelope", "args"];
const noteButton = () => document.querySelector("[data-note-selection]");

function findHalf(node) {
  const element = node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement;
  if (!element?.closest("[data-exact]")) return null;
  const half = element.closest(".half");
  const name = half?.classList.contains("args") ? "args" : half?.dataset.half;
  return HALVES.includes(name) ? { half, name } : null;
}

function selectedPassage() {
  const selection = document.getSelection();
  return selection.rangeCount && !selection.isCollapsed ? passageIn(selection.getRangeAt(0)) : null;
}

/* The text that is linked until Escape, where it is one of the receipt. */
function linkedPassage() {
  const linked = document.querySelector("[data-exact] .linked.is-pinned");
  if (!linked) return null;
  const range = document.createRange();
  range.selectNodeContents(linked);
  return passageIn(range);
}

function passageIn(range) {
  const from = findHalf(range.startContainer);
  const to = findHalf(range.endContainer) ?? from;
  if (!from || from.half !== to.half) return null;
  const before = document.createRange();
  before.setStart(from.half.querySelector("[data-exact]"), 0);
  before.setEnd(range.startContainer, range.startOffset);
  const quote = plainText(range.cloneContents());
  if (!quote.trim()) return null;
  return { half: from.name, quote, start: [...plainText(before.cloneContents())].length, range };
}

/* Copies the Markdown of a run; without a clipboard the link opens it. */
async function copyIssue(link) {
  try {
    const response = await fetch(link.href);
    if (!response.ok) throw new Error(response.statusText);
    await navigator.clipboard.writeText(await response.text());
    link.querySelector("[data-copied]").textContent = "Copied";
  } catch {
    location.href = link.href;
  }
}

let passage = null;

document.addEventListener("selectionchange", () => {
  const button = noteButton();
  if (!button) return;
  passage = selectedPassage();
  button.hidden = !passage;
  if (!passage) return;
  const box = passage.range.getBoundingClientRect();
  const top = Math.min(Math.max(box.bottom + 6, 56), innerHeight - 48);
  const left = Math.min(Math.max(box.left, 8), innerWidth - button.offsetWidth - 8);
  button.style.top = `${top}px`;
  button.style.left = `${left}px`;
});

function openForm(noted) {
  const details = document.querySelector(".note-form");
  const form = details.querySelector("form");
  if (noted) {
    form.elements.half.value = noted.half;
    form.elements.quote.value = noted.quote;
    form.elements.start.value = String(noted.start);
  }
  details.open = true;
  document.getSelection().removeAllRanges();
  /* the event of the selection comes later, and an e of the text would be taken for the key */
  noteButton()?.setAttribute("hidden", "");
  form.elements.text.focus();
}

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-note-selection]") && passage) openForm(passage);
  if (event.target.closest?.(".note-form:not([open]) > summary")) {
    event.preventDefault();
    openForm(passage ?? linkedPassage());
    return;
  }
  const issue = event.target.closest?.("[data-copy-issue]");
  if (issue) {
    event.preventDefault();
    copyIssue(issue);
    return;
  }
  const link = event.target.closest?.("[data-note-range]");
  if (link && !("noteChanged" in link.dataset) && showRange(link)) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "e" || event.ctrlKey || event.metaKey || event.altKey || noteButton()?.hidden !== false) return;
  if (isTyping(event.target)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  openForm(passage);
}, { capture: true });

/* The characters [start, end) of a half; null when they are not on the page. */
function rangeInHalf(name, start, end) {
  const half = name === "args" ? document.querySelector(".half.args") : document.querySelector(`[data-half="${name}"]`);
  /* the JSON of the arguments has the offsets, not the argument that is shown as text */
  return characterRange(half?.querySelectorAll("[data-exact]:not(.text-argument)") ?? [], start, end);
}

function showRange(link) {
  const range = rangeInHalf(link.dataset.noteHalf, ...link.dataset.noteRange.split("-").map(Number));
  if (!range) return false;
  const element = range.startContainer.parentElement;
  for (let fold = element.closest("details:not([open])"); fold; fold = fold.closest("details:not([open])")) fold.open = true;
  element.scrollIntoView({ block: "center" });
  return true;
}

function drawRanges() {
  if (!globalThis.CSS?.highlights) return;
  const links = [...document.querySelectorAll("[data-note-range]:not([data-note-changed])")];
  const ranges = links.map((link) => rangeInHalf(link.dataset.noteHalf, ...link.dataset.noteRange.split("-").map(Number)));
  CSS.highlights.set("noted", new Highlight(...ranges.filter(Boolean)));
}

drawRanges();
document.addEventListener("htmx:afterSettle", drawRanges);
