/* Highlights the field that some characters came from, and the characters that a field became; restores marked
   characters when text is copied; copies without leaving the page. */
"use strict";

const NAMES = ["pointer", "recorded", "args"];
const ANY = NAMES.map((name) => `[data-${name}]`).join(",");
const HALF_NAMES = { pointer: "canonical", recorded: "recorded", args: "arguments" };
let pinned = null; /* the element whose links stay highlighted until Escape */

const isText = (element) => element.matches(".linked");
const isWithin = (pointer, ancestor) => pointer === ancestor || pointer.startsWith(`${ancestor}/`);

/* Of characters: the field they came from, else the nearest shown field around it.
   Of a field: all characters that it, or any field within it, became. */
function findPartners(element) {
  const partners = new Set();
  for (const name of NAMES) {
    const pointer = element.dataset[name];
    if (pointer === undefined) continue;
    const all = [...document.querySelectorAll(`#main [data-${name}]:not(.field-link)`)];
    if (isText(element)) {
      const field = findNearest(all, name, pointer);
      if (field) partners.add(field);
    } else {
      for (const text of all.filter(isText)) if (isWithin(text.dataset[name], pointer)) partners.add(text);
    }
  }
  return [...partners];
}

function findNearest(all, name, pointer) {
  let best = null;
  for (const field of all) {
    if (isText(field) || !isWithin(pointer, field.dataset[name])) continue;
    if (!best || field.dataset[name].length > best.dataset[name].length) best = field;
  }
  return best?.dataset[name] === "" && pointer !== "" ? null : best;
}

/* Text node and offsets of each character of a JSON string; an escape or a mark is one character. */
function listCharacters(field) {
  const characters = [];
  const walker = document.createTreeWalker(field, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const mark = node.parentElement.closest(".mark");
    if (mark) characters.push({ node, from: 0, to: node.length, text: String.fromCodePoint(Number(mark.dataset.code)) });
    else if (node.parentElement.matches(".se")) addEscape(characters, node);
    else if (!node.parentElement.matches(".p")) {
      let at = 0;
      for (const text of node.data) characters.push({ node, from: at, to: (at += text.length), text });
    }
  }
  return characters.slice(1); /* the opening quote */
}

function addEscape(characters, node) {
  const text = JSON.parse(`"${node.data}"`);
  const before = characters[characters.length - 1];
  const isPair = /^[\udc00-\udfff]$/.test(text) && /^[\ud800-\udbff]$/.test(before?.text ?? "");
  if (!isPair) characters.push({ node, from: 0, to: node.length, text });
  else Object.assign(before, { text: before.text + text, end: node });
}

/* The characters of the field that this piece of the receipt repeats; null when they are not all shown. */
function findRange(field, piece) {
  if (!piece.dataset.at || !field.matches(".jv.s2")) return null;
  const all = listCharacters(field);
  const searched = [...plainText(piece)];
  const isAt = (start) => searched.every((text, index) => all[start + index]?.text === text);
  let start = Number(piece.dataset.at.split("-")[0]);
  if (!isAt(start)) start = all.findIndex((_, index) => isAt(index)); /* after the cut of a preview the offsets differ */
  const first = all[start];
  const last = all[start + searched.length - 1];
  if (!first || !last) return null;
  const range = new Range();
  range.setStart(first.node, first.from);
  range.setEnd(last.end ?? last.node, last.end ? last.end.length : last.to);
  return range;
}

function pinSpan(link) {
  release();
  const [start, end] = link.dataset.span.split("-").map(Number);
  const range = characterRange(document.querySelectorAll(":is([data-half=receipt], [data-half=variant]) .exact"), start, end);
  const status = document.querySelector("[data-link-status]");
  status.textContent = `Characters ${start.toLocaleString("en")} to ${end.toLocaleString("en")} of the receipt`;
  if (!range) status.textContent += " are further down: load the next part";
  status.hidden = false;
  if (!range) return;
  pinned = link;
  globalThis.CSS?.highlights?.set("linked", new Highlight(range));
  reveal(range, range.startContainer.parentElement);
}

function clear() {
  for (const linked of document.querySelectorAll(".is-linked, .is-around")) linked.classList.remove("is-linked", "is-pinned", "is-around");
  globalThis.CSS?.highlights?.delete("linked");
}

/* Highlights both ends; returns the element or range to scroll to at the other end. */
function highlightLink(element, isPinned) {
  clear();
  const others = findPartners(element);
  element.classList.add("is-linked");
  element.classList.toggle("is-pinned", isPinned);
  let target = others[0] ?? null;
  for (const partner of others) {
    const range = isText(element) && globalThis.CSS?.highlights ? findRange(partner, element) : null;
    if (range) {
      CSS.highlights.set("linked", new Highlight(range));
      partner.classList.add("is-around");
      target = range;
    } else {
      partner.classList.add("is-linked");
      partner.classList.toggle("is-pinned", isPinned);
    }
  }
  showLinkStatus(element, others);
  return target;
}

function showLinkStatus(element, others) {
  const status = document.querySelector("[data-link-status]");
  if (!status) return;
  const names = NAMES.filter((name) => element.dataset[name] !== undefined);
  const field = names.map((name) => `${HALF_NAMES[name]} ${element.dataset[name] || "(the whole)"}`).join(", ");
  const texts = isText(element) ? [element] : others.filter(isText);
  const count = texts.reduce((sum, piece) => sum + plainText(piece).length, 0);
  const text = document.querySelector("[data-text-name]")?.dataset.textName ?? "receipt";
  status.textContent = texts.length
    ? `${field}: ${count.toLocaleString("en")} character${count === 1 ? "" : "s"} in the ${text} shown here`
    : `${field}: nothing of it is in the ${text} shown here`;
  status.hidden = false;
}

function release() {
  pinned = null;
  clear();
  const status = document.querySelector("[data-link-status]");
  if (status) status.hidden = true;
}

/* Keeps a link highlighted until Escape, and scrolls to its other end. */
function pin(element) {
  pinned = element;
  const target = highlightLink(element, true);
  const other = target instanceof Range ? target.startContainer.parentElement : target;
  for (let fold = other?.closest("details:not([open])"); fold; fold = fold.closest("details:not([open])")) fold.open = true;
  if (target) reveal(target, other);
  reveal(element, element);
}

/* Scrolls one half, so that the other stays where it is; scrolls the page only when the half is out of view.
   `target` is an element or a range in `element`. */
function reveal(target, element) {
  const half = element.closest(".half-scroll");
  if (!half) return element.scrollIntoView({ block: "nearest" });
  const box = half.getBoundingClientRect();
  if (box.top > innerHeight - 160 || box.bottom < 160) half.scrollIntoView({ block: "nearest" });
  const { top, bottom } = half.getBoundingClientRect();
  const [upper, lower] = [Math.max(top, 56), Math.min(bottom, innerHeight - 40)]; /* below the bar, above the status */
  const at = target.getBoundingClientRect();
  if (at.top < upper || Math.min(at.bottom, at.top + 40) > lower) half.scrollTop += at.top - upper - (lower - upper) / 4;
}

/* n and p walk through the pieces of the receipt, one field at a time; tab stops would be hundreds. */
function step(by) {
  const texts = [...document.querySelectorAll("#halves .linked")];
  const key = (piece) => piece.dataset.pointer ?? piece.dataset.recorded ?? `args ${piece.dataset.args}`;
  const heads = texts.filter((piece, at) => at === 0 || key(piece) !== key(texts[at - 1]));
  const now = heads.findIndex((piece) => pinned && key(piece) === key(pinned));
  const next = heads[now < 0 ? (by > 0 ? 0 : heads.length - 1) : now + by];
  if (next) pin(next);
  return heads.length > 0;
}

document.addEventListener("copy", (event) => {
  const selection = document.getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0);
  const around = range.commonAncestorContainer;
  const exact = (around.nodeType === Node.ELEMENT_NODE ? around : around.parentElement)?.closest("[data-exact]");
  if (!exact) return;
  const holder = document.createElement("div");
  holder.append(range.cloneContents());
  event.clipboardData.setData("text/plain", plainText(holder));
  event.preventDefault();
});

async function copyFrom(link) {
  const announcement = document.querySelector("[data-announcement]");
  try {
    const response = await fetch(link.href);
    if (!response.ok) throw new Error(response.statusText);
    const text = await response.text();
    await navigator.clipboard.writeText(text);
    announcement.textContent = `Copied ${text.length.toLocaleString("en")} characters.`;
  } catch {
    location.href = link.href; /* without a clipboard the text is shown instead */
  }
}

document.addEventListener("mouseover", (event) => {
  if (pinned) return;
  const element = event.target.closest?.(ANY);
  if (element && element.closest("#main") && !element.matches(".jf")) highlightLink(element, false);
  else if (document.querySelector(".is-linked")) release();
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches?.(".field-link")) highlightLink(event.target, false);
});

document.addEventListener("click", (event) => {
  const copy = event.target.closest?.("[data-copy]");
  if (copy) {
    event.preventDefault();
    copyFrom(copy);
    return;
  }
  const finding = event.target.closest?.("[data-span]");
  if (finding) {
    event.preventDefault();
    pinSpan(finding);
    return;
  }
  for (const menu of document.querySelectorAll("[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
  const element = event.target.closest?.(".linked, .jv, .field-link, .text-argument");
  if (!element || !document.getSelection().isCollapsed) return;
  if (element === pinned) release();
  else pin(element);
});

/* Selects the line of a template that an error names. */
function selectLine(box, number) {
  const lines = box.value.split("\n");
  const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  box.focus();
  box.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-line]");
  const box = link && document.querySelector(link.hash);
  if (!box) return;
  event.preventDefault();
  selectLine(box, Number(link.dataset.line));
});

/* Escape first closes a menu, then releases a pinned link, then leaves a variant, then closes the arguments or the
   details of the step; only then it means "up". */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input:not([type=checkbox]), textarea, select")) return;
  if (document.querySelector("dialog[open]")) return;
  const menu = document.querySelector(":is(.menu, .drop)[open]");
  const back = document.querySelector("[data-escape]");
  const fold = document.querySelector("#step :is(.step-args, .step-details)[open]");
  if (event.key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  else if (event.key === "Escape" && pinned) release();
  else if (event.key === "Escape" && back) back.click();
  else if (event.key === "Escape" && fold) fold.open = false;
  else if (event.key === "n" && document.querySelector("#halves") && step(1)) { /* stepped */ }
  else if (event.key === "p" && document.querySelector("#halves") && step(-1)) { /* stepped */ }
  else return;
  event.preventDefault();
}, { capture: true });

/* The number beside a slider follows it while it moves; its form is not replaced with the preview. */
document.addEventListener("input", (event) => {
  const output = event.target.matches?.("[type=range]") && document.querySelector(`output[for="${event.target.id}"]`);
  if (output) output.textContent = Number(event.target.value).toLocaleString("en");
});

/* When a key opens a menu, the focus moves to its first field or link. */
document.addEventListener("toggle", (event) => {
  const menu = event.target;
  if (!menu.open || !menu.matches(".source-menu") || menu.contains(document.activeElement)) return;
  menu.querySelector(":scope > .panel :is(input:not([type=hidden]), textarea, a)")?.focus();
}, { capture: true });

/* Wrapping and marking stay as the reader chose them, from call to call. */
function restoreToggles() {
  for (const box of document.querySelectorAll("[data-toggle]")) {
    try {
      const stored = localStorage.getItem(`toggle-${box.dataset.toggle}`);
      if (stored !== null) box.checked = stored === "1";
    } catch { /* storage is refused: the boxes start as the page has them */ }
  }
}

document.addEventListener("change", (event) => {
  if (!event.target.matches?.("[data-toggle]")) return;
  try {
    localStorage.setItem(`toggle-${event.target.dataset.toggle}`, event.target.checked ? "1" : "0");
  } catch { /* storage is refused */ }
});

/* A variant opens beside the halves shown now; its link was written when the page was loaded. */
document.addEventListener("htmx:configRequest", (event) => {
  const link = event.target.closest?.("[data-variant]");
  if (!link) return;
  const url = new URL(location.href);
  url.pathname = url.pathname.replace(/[a-z]+$/, "replay");
  url.searchParams.delete("left");
  url.searchParams.set("right", new URL(link.href).searchParams.get("right"));
  event.detail.path = url.pathname + url.search;
});

/* Scrolls to the variant's text when it is out of view. */
function showVariant(root) {
  const half = root.querySelector?.("[data-half=variant]");
  if (!half) return;
  const { top, bottom } = half.getBoundingClientRect();
  if (top > innerHeight - 160 || bottom < 160) half.scrollIntoView({ block: "start" });
}

/* The links to the neighbouring calls keep the halves that are shown here. */
document.addEventListener("htmx:pushedIntoHistory", () => {
  const query = new URLSearchParams(location.search);
  for (const link of document.querySelectorAll("[data-variant]")) {
    if (query.get("right") === `variant-${link.dataset.variant}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const link of document.querySelectorAll(".walk a[rel]")) {
    const url = new URL(link.href);
    for (const name of ["left", "right", "spaces"]) {
      if (query.has(name)) url.searchParams.set(name, query.get(name));
      else url.searchParams.delete(name);
    }
    link.href = url;
  }
});

document.addEventListener("htmx:afterSettle", (event) => {
  if (!pinned?.isConnected) pinned = null; /* what was replaced may be another part of the page */
  restoreToggles();
  showVariant(event.target);
});
restoreToggles();
