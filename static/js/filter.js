/* Completes keys, values and names in a filter box: a listbox below it, filled by a fragment of the server. */
"use strict";

const DELAY = 120; /* milliseconds after the last key */

function startCompleting(input) {
  const list = document.createElement("ul");
  list.id = `${input.id}-completions`;
  list.className = "completions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  list.hidden = true;
  input.after(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");
  let timer = 0;
  let request = null;

  const options = () => [...list.children];
  const active = () => list.querySelector("[aria-selected=true]");

  function setBusy(isBusy) {
    list.setAttribute("aria-busy", String(isBusy));
  }

  function stopLoading() {
    clearTimeout(timer);
    request?.abort();
    request = null;
    setBusy(false);
  }

  function close() {
    stopLoading();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  async function load() {
    stopLoading();
    const own = request = new AbortController();
    setBusy(true);
    const query = new URLSearchParams({ q: input.value, at: input.selectionStart });
    try {
      const response = await fetch(`${input.dataset.completions}?${query}`, { signal: own.signal });
      if (!response.ok || response.redirected) return close();
      const fragment = new DOMParser().parseFromString(await response.text(), "text/html");
      if (request !== own) return;
      list.replaceChildren(...fragment.querySelectorAll("[role=option]"));
    } catch { /* typed on, or no connection: the box works without */
      if (request === own) stopLoading();
      return;
    }
    stopLoading();
    list.hidden = !list.children.length || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
  }

  function select(option) {
    active()?.removeAttribute("aria-selected");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }

  function accept(option) {
    const at = Number(option.dataset.at);
    input.value = option.dataset.text;
    close();
    input.focus();
    input.setSelectionRange(at, at);
    input.dispatchEvent(new Event("input", { bubbles: true })); /* for listeners of the box, such as the count of a new comparison */
    stopLoading();
    if (input.value[at - 1] === ":") load();
  }

  function step(by) {
    const all = options();
    const at = all.indexOf(active());
    select(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
  }

  input.addEventListener("input", () => {
    stopLoading();
    setBusy(true); /* what is listed belongs to the text before */
    timer = setTimeout(load, DELAY);
  });
  input.addEventListener("blur", close);
  input.form?.addEventListener("submit", close);
  /* A press must not take the focus from the box, which would close the list. */
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) accept(option);
  });
  input.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const isArrow = event.key === "ArrowDown" || event.key === "ArrowUp";
    if (list.hidden) {
      if (event.key !== "ArrowDown") return;
      load();
    } else if (isArrow) step(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && active()) accept(active());
    else return;
    event.preventDefault();
  });
}

for (const input of document.querySelectorAll("input[data-completions]")) startCompleting(input);
