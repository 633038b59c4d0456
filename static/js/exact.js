/* Exact texts on the page: what is recorded, without what is drawn for the eye. call.js and notes.js use it. */
"use strict";

/* The text of an element or fragment: marked characters themselves, spaces for drawn spaces, nothing for drawn arrows. */
function plainText(node) {
  const copy = node.cloneNode(true);
  for (const mark of copy.querySelectorAll(".mark[data-code]")) mark.replaceWith(String.fromCodePoint(Number(mark.dataset.code)));
  for (const space of copy.querySelectorAll(".mark-space")) space.replaceWith(space.textContent.replace(/[→↵]/g, "").replaceAll("·", " "));
  return copy.textContent;
}

/* Characters [start, end) of the elements' text in a row, counted in code points; null when not all are loaded. */
function characterRange(elements, start, end) {
  const range = new Range();
  let at = 0;
  for (const element of elements) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const isMarked = node.parentElement.matches(".mark-space");
      let offset = 0;
      for (const text of node.parentElement.closest(".mark") ? [node.data] : node.data) {
        const isOwn = !(isMarked && /[→↵]/.test(text)); /* an arrow is drawn before a tab or a newline */
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
