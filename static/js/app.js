/* The theme switch, the keys of lists, hotkeys, and the dialog that lists the keys of a page. */
"use strict";

for (const hidden of document.querySelectorAll("[data-needs-script]")) hidden.hidden = false;

/* Light, dark, and back to the system's theme. */
function switchTheme() {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = isDark ? ["", "light", "dark"] : ["", "dark", "light"];
  const next = order[(order.indexOf(root.dataset.theme ?? "") + 1) % order.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  try {
    if (next) localStorage.setItem("theme", next);
    else localStorage.removeItem("theme");
  } catch { /* storage is refused: the choice is for this page alone */ }
}

/* The help lists every element with data-key="j k" data-key-help="…". A key that the page itself uses is not listed for
   the bar too: see useHotkey. */
function openHelp() {
  const dialog = document.getElementById("help");
  const list = dialog.querySelector("[data-keys]");
  list.replaceChildren();
  const own = new Set([...document.querySelectorAll("main [data-hotkey][data-key]")].flatMap(({ dataset }) => dataset.key.split(" ")));
  for (const element of document.querySelectorAll("[data-key][data-key-help]")) {
    const term = document.createElement("dt");
    for (const key of element.dataset.key.split(" ")) {
      if (own.has(key) && !element.closest("main")) continue;
      const kbd = document.createElement("kbd");
      kbd.textContent = key;
      term.append(kbd, " ");
    }
    const description = document.createElement("dd");
    description.textContent = element.dataset.keyHelp;
    list.append(term, description);
  }
  dialog.showModal();
}

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
}

/* Moves the focus to the next or previous [data-item] of the page's [data-list]; Enter opens its first link, or the
   match of a search in it. */
function walk(step) {
  const items = [...document.querySelectorAll("[data-list] [data-item]")];
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step];
  const link = next?.querySelector("a.match[href]") ?? next?.querySelector("a[href]");
  link?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return Boolean(link);
}

/* Checks or unchecks the box of the [data-item] that has the focus. */
function choose() {
  const box = document.activeElement?.closest("[data-list] [data-item]")?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

/* Closes the menu that is open and goes back to its button. */
function closeDrop() {
  const drop = document.querySelector("details.drop[open]");
  if (!drop) return false;
  drop.open = false;
  drop.querySelector("summary").focus();
  return true;
}

/* The row that was opened from a list has the focus again after Back, so that the keys go on from it. Pages are not kept
   by the browser (no-store), which loads them anew. */
const openedKey = () => `opened ${location.pathname}${location.search}`;

function rememberOpened(link) {
  try {
    sessionStorage.setItem(openedKey(), link.id || link.getAttribute("href"));
  } catch { /* storage is refused: Back leads to the list alone */ }
}

function focusOpened() {
  let opened = null;
  try {
    opened = sessionStorage.getItem(openedKey());
  } catch { /* as above */ }
  if (!opened || document.activeElement !== document.body) return;
  const links = [...document.querySelectorAll("[data-list] [data-item] a[href]")];
  const link = links.find((other) => other.id === opened || other.getAttribute("href") === opened);
  link?.focus({ preventScroll: true });
  link?.scrollIntoView({ block: "nearest" });
}

addEventListener("pageshow", (event) => {
  if (event.persisted || performance.getEntriesByType("navigation")[0]?.type === "back_forward") focusOpened();
});
document.addEventListener("htmx:historyRestore", focusOpened);

/* data-hotkey on an element with data-key: "focus" focuses it, "click" follows or presses it, "open" on the button of a
   menu opens that and focuses the first button in it. What the page has goes before what every page has in its bar: `/`
   is the page's own search, and where it has none, that of everything. */
function useHotkey(key) {
  const own = document.querySelectorAll("main [data-hotkey][data-key]");
  for (const element of [...own, ...document.querySelectorAll("body > :not(main) [data-hotkey][data-key]")]) {
    if (!element.dataset.key.split(" ").includes(key)) continue;
    if (element.dataset.hotkey === "focus") {
      element.focus();
      element.select?.();
    } else if (element.dataset.hotkey === "open") {
      element.parentElement.open = true;
      element.parentElement.querySelector("button")?.focus();
    } else element.click();
    return true;
  }
  return false;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") {
      event.preventDefault(); // a box for a search would be emptied
      event.target.blur();
    }
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  let isDone = true;
  if (event.key === "Escape" && closeDrop()) isDone = true;
  else if (event.key === "?") openHelp();
  else if (useHotkey(event.key)) isDone = true;
  else if (event.key === "j") isDone = walk(1);
  else if (event.key === "k") isDone = walk(-1);
  else if (event.key === "x") isDone = choose();
  else isDone = false;
  if (isDone) event.preventDefault();
});

/* Ctrl+Enter (Cmd+Enter) in a box of several lines submits its form. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches?.("textarea")) return;
  event.preventDefault();
  const form = event.target.form;
  form?.requestSubmit(form.querySelector("button:not([type])"));
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-list] [data-item] a[href]");
  if (link) rememberOpened(link);
}, { capture: true });

document.addEventListener("click", (event) => {
  for (const drop of document.querySelectorAll("details.drop[open]")) {
    if (!drop.contains(event.target)) drop.open = false; /* like a menu of the system */
  }
  const target = event.target.closest?.("[data-theme-switch], [data-opens]");
  if (!target) {
    if (event.target.matches?.("dialog[open]")) event.target.close(); /* the backdrop */
    return;
  }
  if (target.matches("[data-theme-switch]")) switchTheme();
  else if (target.dataset.opens === "help") openHelp();
  else document.getElementById(target.dataset.opens)?.showModal();
});

/* When the session ends while a list polls, the response is the sign-in page instead of rows. */
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  if (xhr.responseURL && new URL(xhr.responseURL).pathname.startsWith("/sign-in/")) {
    event.detail.shouldSwap = false;
    location.reload();
  }
});
