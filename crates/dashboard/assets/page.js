// The script of the page: follows the changes of a view, and the keyboard. The page works without
// it; what it adds is marked by the class `scripted`.

const main = document.getElementById("main");
const link = document.getElementById("link");
const dialog = document.getElementById("dialog");
const peek = document.getElementById("peek");
document.documentElement.classList.add("scripted");

// ---- Times ---------------------------------------------------------------------------------

/** Seconds as the command line writes an age. */
export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const m = Math.floor(s / 60);
  const h = Math.floor(m / 60);
  const d = Math.floor(h / 24);
  if (s < 120) return `${s}s`;
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (h < 3) return `${m}m`;
  if (h < 8) return m % 60 ? `${h}h${m % 60}m` : `${h}h`;
  if (h < 48) return `${h}h`;
  if (d < 8) return h % 24 ? `${d}d${h % 24}h` : `${d}d`;
  return `${d}d`;
}

function writeAges(root) {
  // What was recorded has a clock of its own.
  const now = main.dataset.now ? Date.parse(main.dataset.now) : Date.now();
  for (const time of root.querySelectorAll("time.age, time.until")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const past = time.classList.contains("age");
    const text = age((past ? now - at : at - now) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// ---- Exchange of parts ---------------------------------------------------------------------

function elementOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

/** Makes an element like another one, and touches only what differs: focus and place stay. */
export function become(now, next) {
  if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName) {
    now.replaceWith(next);
    return;
  }
  if (now.nodeType === Node.TEXT_NODE) {
    if (now.data !== next.data) now.data = next.data;
    return;
  }
  if (now.nodeType !== Node.ELEMENT_NODE) return;
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && !kept(now, name)) now.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (now.getAttribute(name) !== value && !kept(now, name)) now.setAttribute(name, value);
  }
  // What a person types is the page's own.
  if (now === document.activeElement && now.matches("input, select")) return;
  const before = [...now.childNodes];
  const after = [...next.childNodes];
  after.forEach((child, index) => {
    if (index < before.length) become(before[index], child);
    else now.append(child);
  });
  before.slice(after.length).forEach((child) => child.remove());
}

/** Whether an attribute is set by this script. */
function kept(element, name) {
  if (name === "hidden") return element.matches(".copy");
  if (name === "tabindex") return element.matches(".c");
  return name === "open";
}

function exchange({ swap, order }) {
  for (const [group, id, html] of swap) {
    const next = elementOf(html);
    if (!next) continue;
    const now = document.getElementById(id);
    if (now) {
      writeAges(next);
      const was = now.textContent;
      become(now, next);
      if (now.matches(".row") && now.textContent !== was) flash(now);
      refresh(now);
    } else {
      (document.getElementById(group) ?? main).append(next);
      refresh(next);
    }
  }
  for (const [group, ids] of order) {
    const parent = document.getElementById(group);
    if (!parent) continue;
    const wanted = new Set(ids);
    for (const child of [...parent.children]) if (!wanted.has(child.id)) child.remove();
    let at = parent.firstElementChild;
    for (const id of ids) {
      const child = document.getElementById(id);
      if (!child) continue;
      if (child === at) at = at.nextElementSibling;
      else parent.insertBefore(child, at);
    }
  }
}

function flash(row) {
  row.classList.remove("changed");
  requestAnimationFrame(() => row.classList.add("changed"));
}

/** What this script adds to parts. */
function refresh(root) {
  writeAges(root);
  for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
}

// ---- Live ----------------------------------------------------------------------------------

let source = null;
let again = 0;

function follow() {
  source?.close();
  const address = main.dataset.stream;
  if (!address) return;
  source = new EventSource(address);
  source.addEventListener("open", () => {
    link.textContent = "";
    document.body.classList.remove("lost");
  });
  source.addEventListener("exchange", (event) => {
    const change = JSON.parse(event.data);
    main.dataset.stream = main.dataset.stream.replace(/since=\d+/, "since=0");
    exchange(change);
    main.dataset.revision = change.revision;
  });
  source.addEventListener("error", () => {
    link.textContent = "Connection lost, trying again…";
    document.body.classList.add("lost");
    // A browser gives up after a refusal; the page does not.
    clearTimeout(again);
    if (source.readyState === EventSource.CLOSED) {
      main.dataset.stream = main.dataset.stream.replace(/since=\d+/, "since=0");
      again = setTimeout(follow, 2000);
    }
  });
}

/** Shows another address in place, such as that of a filter. */
let visit = 0;
async function show(address, replaces) {
  const mine = ++visit;
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  const text = await answer.text();
  if (mine !== visit) return;
  const next = new DOMParser().parseFromString(text, "text/html");
  const content = next.getElementById("main");
  if (!content) return;
  if (replaces) history.replaceState(null, "", address);
  document.title = next.title;
  become(main, document.adoptNode(content));
  refresh(main);
  follow();
}

// ---- Filters, dialogs, copies ----------------------------------------------------------------

let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-live]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => show(addressOf(form), true), 150);
});
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-live]");
  if (form) {
    event.preventDefault();
    show(addressOf(form), true);
  } else if (event.target.closest("dialog")) {
    event.preventDefault();
    send(event.target);
  }
});

function addressOf(form) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) asked.append(name, value);
  const text = asked.toString();
  return form.getAttribute("action") + (text ? `?${text}` : "");
}

async function open(address, options) {
  const answer = await fetch(address, options);
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = next.querySelector("#main > .message, #main .message");
  if (!content) {
    location.href = address;
    return;
  }
  dialog.replaceChildren(document.adoptNode(content));
  refresh(dialog);
  if (!dialog.open) dialog.showModal();
  dialog.querySelector(".first, .button")?.focus();
}

function send(form) {
  const body = new URLSearchParams(new FormData(form));
  open(form.getAttribute("action"), { method: "POST", body });
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
    return;
  }
  if (event.target.closest("[data-close]") && dialog?.open) {
    event.preventDefault();
    dialog.close();
    return;
  }
  const opens = event.target.closest("[data-dialog], .keys");
  if (opens && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    open(opens.getAttribute("href"));
  }
  if (dialog && event.target === dialog) dialog.close();
});

// ---- Pointing at a cell ----------------------------------------------------------------------

let pointed = null;
function point(cell) {
  if (!peek || cell === pointed) return;
  // The browser's own tip would stand beside it.
  if (pointed && !pointed.title) pointed.title = peek.textContent;
  pointed = cell ?? null;
  peek.hidden = !cell;
  if (!cell) return;
  peek.textContent = cell.title;
  cell.removeAttribute("title");
  const at = cell.getBoundingClientRect();
  const own = peek.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left - 12), innerWidth - own.width - 8);
  const above = at.top - own.height - 8;
  // The one style that depends on the window: set by script, which the policy permits.
  peek.style.left = `${left}px`;
  peek.style.top = `${above > 8 ? above : at.bottom + 8}px`;
}
document.addEventListener("pointerover", (event) => point(event.target.closest?.(".c")));
document.addEventListener("focusin", (event) => point(event.target.closest?.(".c")));
document.addEventListener("scroll", () => point(null), { passive: true, capture: true });

// ---- Keyboard --------------------------------------------------------------------------------

let prefix = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typed = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    point(null);
    if (typed) event.target.blur();
    return;
  }
  if (typed || dialog?.open) return;
  const went = prefix === "g" && { f: "/", p: "/policies" }[event.key];
  prefix = event.key === "g" ? "g" : "";
  if (went) {
    location.href = went;
    return;
  }
  switch (event.key) {
    case "/": {
      const search = document.querySelector("input[type=search]");
      if (!search) return;
      search.focus();
      search.select();
      break;
    }
    case "?":
      open("/keys");
      break;
    case "u":
      document.querySelector("[data-up]")?.click();
      break;
    case "j":
    case "ArrowDown":
      if (!move(1, true)) return;
      break;
    case "k":
    case "ArrowUp":
      if (!move(-1, true)) return;
      break;
    case "ArrowRight":
      if (!move(1, false)) return;
      break;
    case "ArrowLeft":
      if (!move(-1, false)) return;
      break;
    default:
      return;
  }
  event.preventDefault();
});

/** To the next row, or to the next cell: beside it, or below it. */
function move(by, vertical) {
  const now = document.activeElement;
  const cells = now?.closest?.("[data-cells]");
  if (cells && now.matches(".c")) {
    const all = [...cells.querySelectorAll(".c")];
    let to = all.indexOf(now) + by;
    if (vertical) {
      const top = now.offsetTop;
      const wide = all.filter((cell) => cell.offsetTop === top).length || 1;
      to = all.indexOf(now) + by * wide;
    }
    const next = all[Math.min(Math.max(to, 0), all.length - 1)];
    now.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    return true;
  }
  if (!vertical) return false;
  const rows = [...main.querySelectorAll(".row .name, .wait-row > p > a, .table td:first-child a, .policy a")];
  if (!rows.length) return false;
  const at = rows.indexOf(now);
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)].focus();
  return true;
}

refresh(document);
follow();
setInterval(() => document.hidden || writeAges(document), 1000);
document.addEventListener("visibilitychange", () => document.hidden || writeAges(document));
