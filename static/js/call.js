/* What HTML has no element for: lighting up the field that some characters came from, and the characters
   that a field became; putting marked characters back when text is copied; copying without leaving the page. */
"use strict";

const NAMES = ["pointer", "recorded", "args"];
const ANY = NAMES.map((name) => `[data-${name}]`).join(",");
const SPOKEN = { pointer: "canonical", recorded: "recorded", args: "arguments" };
let held = null;

const isText = (element) => element.matches(".linked");
const within = (pointer, ancestor) => pointer === ancestor || pointer.startsWith(`${ancestor}/`);

/* From characters to the one field: the field itself, else the nearest shown one around it.
   From a field to all characters that it, or anything in it, became. */
function partners(element) {
  const found = new Set();
  for (const name of NAMES) {
    const pointer = element.dataset[name];
    if (pointer === undefined) continue;
    const all = [...document.querySelectorAll(`#main [data-${name}]`)].filter((one) => !one.matches(".field-link"));
    if (!isText(element)) for (const one of all) if (isText(one) && within(one.dataset[name], pointer)) found.add(one);
    const field = isText(element) ? nearest(all, name, pointer) : null;
    if (field) found.add(field);
  }
  return [...found];
}

function nearest(all, name, pointer) {
  let best = null;
  for (const one of all) {
    if (isText(one) || !within(pointer, one.dataset[name])) continue;
    if (!best || one.dataset[name].length > best.dataset[name].length) best = one;
  }
  return best?.dataset[name] === "" && pointer !== "" ? null : best;
}

/* Where each character of a JSON string stands on the page: its text nodes, an escape or a mark being one character. */
function characters(field) {
  const found = [];
  const walker = document.createTreeWalker(field, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const mark = node.parentElement.closest(".mark");
    if (mark) found.push({ node, from: 0, to: node.length, text: String.fromCodePoint(Number(mark.dataset.code)) });
    else if (node.parentElement.matches(".se")) takeEscape(found, node);
    else if (!node.parentElement.matches(".p")) {
      let at = 0;
      for (const text of node.data) found.push({ node, from: at, to: (at += text.length), text });
    }
  }
  return found.slice(1); /* the opening quote */
}

function takeEscape(found, node) {
  const text = JSON.parse(`"${node.data}"`);
  const before = found[found.length - 1];
  const isPair = /^[\udc00-\udfff]$/.test(text) && /^[\ud800-\udbff]$/.test(before?.text ?? "");
  if (!isPair) found.push({ node, from: 0, to: node.length, text });
  else Object.assign(before, { text: before.text + text, end: node });
}

/* The very characters of the field that this piece of the receipt is, or null when they are not all shown. */
function exactRange(field, piece) {
  if (!piece.dataset.at || !field.matches(".jv.s2")) return null;
  const all = characters(field);
  const wanted = [...plain(piece)];
  const isAt = (start) => wanted.every((text, index) => all[start + index]?.text === text);
  let start = Number(piece.dataset.at.split("-")[0]);
  if (!isAt(start)) start = all.findIndex((_, index) => isAt(index)); /* behind the cut of a preview */
  const first = all[start];
  const last = all[start + wanted.length - 1];
  if (!first || !last) return null;
  const range = new Range();
  range.setStart(first.node, first.from);
  range.setEnd(last.end ?? last.node, last.end ? last.end.length : last.to);
  return range;
}

/* Characters [start, end) of the receipt, counted in code points as its text has them; null when not all are loaded. */
function spanRange(start, end) {
  const range = new Range();
  let at = 0;
  for (const part of document.querySelectorAll(":is([data-half=receipt], [data-half=variant]) .exact")) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const isDrawn = node.parentElement.matches(".mark-space");
      let offset = 0;
      for (const text of node.parentElement.closest(".mark") ? [node.data] : node.data) {
        const isOwn = !(isDrawn && /[→↵]/.test(text)); /* drawn before a tab or a newline, and nothing by itself */
        if (isOwn && at === start) range.setStart(node, offset);
        offset += text.length;
        at += isOwn ? 1 : 0;
        if (isOwn && at === end) {
          range.setEnd(node, offset);
          return range;
        }
      }
    }
  }
  return null;
}

function holdSpan(link) {
  release();
  const [start, end] = link.dataset.span.split("-").map(Number);
  const range = spanRange(start, end);
  const status = document.querySelector("[data-link-status]");
  status.textContent = `Characters ${start.toLocaleString("en")} to ${end.toLocaleString("en")} of the receipt`;
  if (!range) status.textContent += " stand further down: load the next part";
  status.hidden = false;
  if (!range) return;
  held = link;
  globalThis.CSS?.highlights?.set("linked", new Highlight(range));
  reveal(range, range.startContainer.parentElement);
}

function clear() {
  for (const lit of document.querySelectorAll(".is-linked, .is-around")) lit.classList.remove("is-linked", "is-held", "is-around");
  globalThis.CSS?.highlights?.delete("linked");
}

/* Lights up both ends; gives what to bring into view at the other one. */
function light(element, isHeld) {
  clear();
  const others = partners(element);
  element.classList.add("is-linked");
  element.classList.toggle("is-held", isHeld);
  let place = others[0] ?? null;
  for (const one of others) {
    const range = isText(element) && globalThis.CSS?.highlights ? exactRange(one, element) : null;
    if (range) {
      CSS.highlights.set("linked", new Highlight(range));
      one.classList.add("is-around");
      place = range;
    } else {
      one.classList.add("is-linked");
      one.classList.toggle("is-held", isHeld);
    }
  }
  say(element, others);
  return place;
}

function say(element, others) {
  const status = document.querySelector("[data-link-status]");
  if (!status) return;
  const names = NAMES.filter((name) => element.dataset[name] !== undefined);
  const field = names.map((name) => `${SPOKEN[name]} ${element.dataset[name] || "(the whole)"}`).join(", ");
  const texts = isText(element) ? [element] : others.filter(isText);
  const count = texts.reduce((sum, one) => sum + plain(one).length, 0);
  const text = document.querySelector("[data-text-name]")?.dataset.textName ?? "receipt";
  status.textContent = texts.length
    ? `${field}: ${count.toLocaleString("en")} character${count === 1 ? "" : "s"} in the ${text} shown here`
    : `${field}: nothing of it is in the ${text} shown here`;
  status.hidden = false;
}

function release() {
  held = null;
  clear();
  const status = document.querySelector("[data-link-status]");
  if (status) status.hidden = true;
}

/* Holds a link until Escape; the other end comes into view. */
function hold(element) {
  held = element;
  const place = light(element, true);
  const other = place instanceof Range ? place.startContainer.parentElement : place;
  for (let fold = other?.closest("details:not([open])"); fold; fold = fold.closest("details:not([open])")) fold.open = true;
  if (place) reveal(place, other);
  reveal(element, element);
}

/* Scrolls a half by itself, so that the other one stays where the eye is; the page only when the half is out of sight. */
function reveal(place, element) {
  const half = element.closest(".half-scroll");
  if (!half) return element.scrollIntoView({ block: "nearest" });
  const box = half.getBoundingClientRect();
  if (box.top > innerHeight - 160 || box.bottom < 160) half.scrollIntoView({ block: "nearest" });
  const { top, bottom } = half.getBoundingClientRect();
  const [upper, lower] = [Math.max(top, 56), Math.min(bottom, innerHeight - 40)]; /* below the bar, above the status */
  const at = place.getBoundingClientRect();
  if (at.top < upper || Math.min(at.bottom, at.top + 40) > lower) half.scrollTop += at.top - upper - (lower - upper) / 4;
}

/* n and p walk the pieces of the receipt, one field at a time: no tab stop for each of hundreds. */
function step(by) {
  const texts = [...document.querySelectorAll("#halves .linked")];
  const key = (one) => one.dataset.pointer ?? one.dataset.recorded ?? `args ${one.dataset.args}`;
  const heads = texts.filter((one, at) => at === 0 || key(one) !== key(texts[at - 1]));
  const now = heads.findIndex((one) => held && key(one) === key(held));
  const next = heads[now < 0 ? (by > 0 ? 0 : heads.length - 1) : now + by];
  if (next) hold(next);
  return heads.length > 0;
}

/* The text as it was: marked characters back in place, drawn spaces as spaces. */
function plain(node) {
  const copy = node.cloneNode(true);
  for (const mark of copy.querySelectorAll(".mark[data-code]")) mark.replaceWith(String.fromCodePoint(Number(mark.dataset.code)));
  for (const drawn of copy.querySelectorAll(".mark-space")) drawn.replaceWith(drawn.textContent.replace(/[→↵]/g, "").replaceAll("·", " "));
  return copy.textContent;
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
  event.clipboardData.setData("text/plain", plain(holder));
  event.preventDefault();
});

async function copyFrom(link) {
  const told = document.querySelector("[data-announcement]");
  try {
    const response = await fetch(link.href);
    if (!response.ok) throw new Error(response.statusText);
    const text = await response.text();
    await navigator.clipboard.writeText(text);
    told.textContent = `Copied ${text.length.toLocaleString("en")} characters.`;
  } catch {
    location.href = link.href; /* no clipboard here: show the text instead */
  }
}

document.addEventListener("mouseover", (event) => {
  if (held) return;
  const element = event.target.closest?.(ANY);
  if (element && element.closest("#main") && !element.matches(".jf")) light(element, false);
  else if (document.querySelector(".is-linked")) release();
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches?.(".field-link")) light(event.target, false);
});

document.addEventListener("click", (event) => {
  const copy = event.target.closest?.("[data-copy]");
  if (copy) {
    event.preventDefault();
    copyFrom(copy);
    return;
  }
  const place = event.target.closest?.("[data-span]");
  if (place) {
    event.preventDefault();
    holdSpan(place);
    return;
  }
  for (const menu of document.querySelectorAll("[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
  const element = event.target.closest?.(".linked, .jv, .field-link, .spoken");
  if (!element || !document.getSelection().isCollapsed) return;
  if (element === held) release();
  else hold(element);
});

/* The line of a template that a reason names: the cursor goes to it, and the line is marked. */
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

/* Escape lets go of a held link, closes a menu or leaves a variant before it means "up". */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input:not([type=checkbox]), textarea, select")) return;
  if (document.querySelector("dialog[open]")) return;
  const menu = document.querySelector(":is(.menu, .drop)[open]");
  const back = document.querySelector("[data-escape]");
  if (event.key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  else if (event.key === "Escape" && held) release();
  else if (event.key === "Escape" && back) back.click();
  else if (event.key === "n" && document.querySelector("#halves") && step(1)) { /* stepped */ }
  else if (event.key === "p" && document.querySelector("#halves") && step(-1)) { /* stepped */ }
  else return;
  event.preventDefault();
}, { capture: true });

/* A slider says where it stands while it moves; its form is not renewed with what it turns. */
document.addEventListener("input", (event) => {
  const said = event.target.matches?.("[type=range]") && document.querySelector(`output[for="${event.target.id}"]`);
  if (said) said.textContent = Number(event.target.value).toLocaleString("en");
});

/* What a key has opened is what the next key means: the first field or link in it. */
document.addEventListener("toggle", (event) => {
  const drop = event.target;
  if (!drop.open || !drop.matches(".source-menu") || drop.contains(document.activeElement)) return;
  drop.querySelector(":scope > .panel :is(input:not([type=hidden]), textarea, a)")?.focus();
}, { capture: true });

/* Wrapping and marking stay as they were left, from call to call. */
function restoreToggles() {
  for (const box of document.querySelectorAll("[data-toggle]")) {
    try {
      const kept = localStorage.getItem(`toggle-${box.dataset.toggle}`);
      if (kept !== null) box.checked = kept === "1";
    } catch { /* storage is refused: the boxes begin as they are written */ }
  }
}

document.addEventListener("change", (event) => {
  if (!event.target.matches?.("[data-toggle]")) return;
  try {
    localStorage.setItem(`toggle-${event.target.dataset.toggle}`, event.target.checked ? "1" : "0");
  } catch { /* storage is refused */ }
});

/* A variant opens beside what is looked at now, not what was when its link was written. */
document.addEventListener("htmx:configRequest", (event) => {
  const link = event.target.closest?.("[data-variant]");
  if (!link) return;
  const url = new URL(location.href);
  url.searchParams.delete("left");
  url.searchParams.set("right", new URL(link.href).searchParams.get("right"));
  event.detail.path = url.pathname + url.search;
});

/* Its text comes into view where the strip was pressed, and stays put where it is seen already. */
function showVariant(root) {
  const half = root.querySelector?.("[data-half=variant]");
  if (!half) return;
  const { top, bottom } = half.getBoundingClientRect();
  if (top > innerHeight - 160 || bottom < 160) half.scrollIntoView({ block: "start" });
}

/* The neighbours open in the form that is open here. */
document.addEventListener("htmx:pushedIntoHistory", () => {
  const shown = new URLSearchParams(location.search);
  for (const link of document.querySelectorAll("[data-variant]")) {
    if (shown.get("right") === `variant-${link.dataset.variant}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const link of document.querySelectorAll(".walk a[rel]")) {
    const url = new URL(link.href);
    for (const name of ["left", "right", "spaces"]) {
      if (shown.has(name)) url.searchParams.set(name, shown.get(name));
      else url.searchParams.delete(name);
    }
    link.href = url;
  }
});

document.addEventListener("htmx:afterSettle", (event) => {
  held = null;
  restoreToggles();
  showVariant(event.target);
});
restoreToggles();
