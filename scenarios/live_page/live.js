"use strict";
// Asks for the next drawing, which is answered when there is one, and puts in what has changed.
(() => {
  const RETRY_MS = 2000;
  const byId = (id) => document.getElementById(id);
  let version = byId("status").dataset.version;
  let begun = performance.now();

  function clock(seconds) {
    const all = Math.max(0, Math.round(seconds));
    const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
    const two = (number) => String(number).padStart(2, "0");
    return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  }

  function tick() {
    const left = document.querySelector("[data-left]");
    if (left) left.textContent = clock(left.dataset.left - (performance.now() - begun) / 1000);
  }

  // where a reader has scrolled a wide table or figure to is kept
  function swap(old, next) {
    const places = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    old.replaceWith(next);
    next.querySelectorAll(".scroll").forEach((box, index) => { box.scrollLeft = places[index] || 0; });
  }

  function show(text) {
    const next = new DOMParser().parseFromString(text, "text/html");
    const sections = (page) => [...page.querySelectorAll("main > section")];
    const names = (page) => sections(page).map((section) => section.id).join();
    document.title = next.title;
    document.querySelector("header").replaceWith(next.querySelector("header"));
    document.querySelector("footer").replaceWith(next.querySelector("footer"));
    if (names(document) === names(next)) {
      const fresh = sections(next);
      sections(document).forEach((old, index) => {
        if (old.innerHTML !== fresh[index].innerHTML) swap(old, fresh[index]);
      });
    } else {
      document.querySelector("nav").replaceWith(next.querySelector("nav"));
      swap(document.querySelector("main"), next.querySelector("main"));
    }
    version = byId("status").dataset.version;
    begun = performance.now();
    tick();
  }

  function gone() {
    const status = byId("status");
    status.className = "status stopped";
    status.querySelector("p").textContent = status.dataset.gone;
    document.querySelectorAll("[data-left]").forEach((left) => left.parentElement.remove());
  }

  async function follow() {
    let misses = 0;
    while (byId("status").classList.contains("running") || version === "") {
      try {
        const answer = await fetch(`/?after=${version}`, { cache: "no-store" });
        if (answer.status === 200) show(await answer.text());
        else if (answer.status !== 204) throw new Error(answer.status);
        misses = 0;
      } catch {
        misses += 1;
        if (misses > 1) gone(); // one question may give way to those of other pages
        version = ""; // whatever answers next is new
        await new Promise((later) => setTimeout(later, RETRY_MS));
      }
    }
  }

  tick();
  setInterval(tick, 1000);
  follow();
})();
