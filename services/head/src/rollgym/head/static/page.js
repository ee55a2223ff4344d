// Keeps the page current: fetches it again and changes only what differs, so that focus, selection and scroll stay.
"use strict";
(() => {
  const POLL_MS = 2000;
  const pulse = document.getElementById("pulse");
  const text = pulse.querySelector(".pulse-text");
  let last = Date.now();
  let lost = false;
  let busy = false;
  let again = false;

  const key = (node) => (node.dataset ? node.dataset.key : undefined);

  function alike(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
  }

  function copyAttributes(from, to) {
    for (const { name } of [...to.attributes]) if (!from.hasAttribute(name)) to.removeAttribute(name);
    for (const { name, value } of from.attributes) if (to.getAttribute(name) !== value) to.setAttribute(name, value);
  }

  function merge(from, to) {
    let at = to.firstChild;
    for (const wanted of [...from.childNodes]) {
      let found = at;
      while (found && !alike(wanted, found)) found = key(wanted) === undefined ? null : found.nextSibling;
      if (!found) {
        to.insertBefore(document.importNode(wanted, true), at);
        continue;
      }
      while (at !== found) at = drop(at);
      at = found.nextSibling;
      if (found.nodeType !== Node.ELEMENT_NODE) {
        if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
      } else if (!found.isEqualNode(wanted)) {
        copyAttributes(wanted, found);
        merge(wanted, found);
      }
    }
    while (at) at = drop(at);
  }

  function drop(node) {
    const next = node.nextSibling;
    node.remove();
    return next;
  }

  function show() {
    const seconds = Math.round((Date.now() - last) / 1000);
    pulse.dataset.state = lost ? "lost" : "live";
    // Spoken only when the connection changes, never each second.
    pulse.setAttribute("aria-live", "off");
    text.textContent = lost ? `No answer from the head; as of ${seconds} s ago` : "Live";
  }

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      merge(fresh.querySelector("main"), document.querySelector("main"));
      document.title = fresh.title;
      last = Date.now();
      lost = false;
    } catch {
      lost = true;
    } finally {
      busy = false;
    }
    show();
    if (again) {
      again = false;
      refresh();
    }
  }

  if (document.body.dataset.live === "off") return;
  const events = document.body.dataset.events;
  if (events && window.EventSource) {
    const source = new EventSource(events);
    source.addEventListener("update", refresh);
    source.addEventListener("end", () => {
      source.close();
      refresh();
    });
    window.addEventListener("pagehide", () => source.close());
  }
  show();
  setInterval(() => (document.hidden ? undefined : refresh()), POLL_MS);
  document.addEventListener("visibilitychange", () => (document.hidden ? undefined : refresh()));
})();
