/* Times come in UTC, with the zone beside them. Here the title of each gets the local time too, and with the switch of
   the bar the text of a stamp has it. Runs while the page is read, before it is painted, so that nothing moves; what
   htmx puts in later is changed in the same way. */
"use strict";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MINUTE = 60_000; /* milliseconds */
const PLACE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
const times = document.getElementsByTagName("time");
const titled = new WeakSet(); /* those whose title has the local time */
let isLocal = false;
let isNamed = false; /* the zone is on the switch */
try {
  isLocal = localStorage.getItem("times") === "local";
} catch { /* storage is refused: UTC */ }

const two = (number) => String(number).padStart(2, "0");

/* Minutes ahead of UTC at that time, which may be others than today. */
const localOffset = (at) => -at.getTimezoneOffset();

/* A date whose UTC fields are those of the zone. */
const inZone = (at, offset) => new Date(at.getTime() + offset * MINUTE);

/* UTC, UTC+1, UTC+5:30. */
function nameOffset(offset) {
  if (!offset) return "UTC";
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  return `UTC${offset < 0 ? "−" : "+"}${hours}${minutes ? `:${two(minutes)}` : ""}`;
}

/* In the forms of the server's stamps: the hour if it is of today, the day if it is of this year, else the date. */
function shortTime(at, offset, hasSeconds) {
  const [shown, now] = [inZone(at, offset), inZone(new Date(), offset)];
  const [date, today] = [shown.toISOString().slice(0, 10), now.toISOString().slice(0, 10)];
  const clock = shown.toISOString().slice(11, 19);
  const zone = nameOffset(offset);
  if (date === today) return `${clock} ${zone}`;
  const isOfThisYear = date.slice(0, 4) === today.slice(0, 4);
  const day = `${date.slice(8)} ${MONTHS[shown.getUTCMonth()]}${isOfThisYear ? "" : ` ${date.slice(0, 4)}`}`;
  if (hasSeconds) return `${day} ${clock} ${zone}`;
  return isOfThisYear ? `${day} ${clock.slice(0, 5)} ${zone}` : `${day} ${zone}`;
}

function describeLocal(at) {
  const offset = localOffset(at);
  const [date, clock] = inZone(at, offset).toISOString().slice(0, 19).split("T");
  return `${date} ${clock} ${nameOffset(offset)} here (${PLACE})`;
}

function showTime(time) {
  const at = new Date(time.dateTime.replace(" ", "T"));
  if (Number.isNaN(at.getTime())) return;
  if (!titled.has(time)) {
    titled.add(time);
    time.title = [time.title, describeLocal(at)].filter(Boolean).join("\n");
  }
  const isWritten = "stamp" in time.dataset && time.firstChild; /* the text of one without comes later */
  if (!isWritten || !(isLocal || time.hasAttribute("data-local"))) return;
  const text = shortTime(at, isLocal ? localOffset(at) : 0, time.dataset.stamp === "seconds");
  time.dataset.local = "";
  if (time.textContent !== text) time.textContent = text;
}

function showTimes() {
  if (!isNamed) nameZone();
  for (const time of times) if (time.dateTime) showTime(time);
}

function nameZone() {
  const button = document.querySelector("[data-zone-switch]");
  const label = button?.querySelector("[data-zone]");
  if (!label) return; /* the page is still read */
  isNamed = true;
  const local = nameOffset(localOffset(new Date()));
  label.textContent = isLocal ? local : "UTC";
  button.title = isLocal ? `Times are in your local time, ${local}: show UTC` : `Times are in UTC: show local time, ${local}`;
  button.setAttribute("aria-pressed", String(isLocal));
  button.closest("[data-zone-item]").hidden = false;
}

function switchZone() {
  isLocal = !isLocal;
  try {
    localStorage.setItem("times", isLocal ? "local" : "utc");
  } catch { /* the choice is for this page alone */ }
  showTimes();
  nameZone();
}

/* Where the local time is UTC all year there is nothing to show and nothing to choose. */
const thisYear = new Date().getFullYear();
if ([0, 6].some((month) => localOffset(new Date(thisYear, month, 1)))) {
  new MutationObserver(showTimes).observe(document, { childList: true, subtree: true });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-zone-switch]")) switchZone();
  });
} else document.addEventListener("DOMContentLoaded", () => document.querySelector("[data-zone-item]")?.remove());
