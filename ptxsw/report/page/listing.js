// A text in lines. Thousands of lines take a browser seconds to lay out, so they stand in boxes of
// known height that are filled when they come near what is seen.

const LINE = 18;  // pixels, as in the style
const TOGETHER = 200;

class Listing {
  // Each entry has `text`; `id`; `number`, shown before it; `sign`, "+" for a line that comes and
  // "-" for one that goes; `line`, the PTX line with which it is linked. `gutter` makes the mark of
  // an entry, or null.
  // `below` makes what stands below an entry, or null.
  constructor(title, name, entries, gutter, below = () => null) {
    this.entries = entries;
    this.tokens = TOKENS[name];
    this.gutter = gutter;
    this.below = below;
    this.marked = new Set();
    this.showsNew = true;
    this.lines = node("div", { class: "lines", tabindex: 0, role: "group", "aria-label": title });
    this.box = node("section", { class: `pane ${name}`, "aria-label": title },
      node("h2", {}, title), this.lines);
    this.boxes = [];
    this.where = new Map();
    entries.forEach((entry, at) => { if (entry.id) this.where.set(entry.id, at); });
    this.watch = new IntersectionObserver((seen) => {
      for (const one of seen) if (one.isIntersecting) this.fill(this.boxes.indexOf(one.target));
    }, { root: this.lines, rootMargin: "800px" });
    for (let first = 0; first < entries.length; first += TOGETHER) {
      const box = node("div", { class: "chunk" });
      this.boxes.push(box);
      this.lines.append(box);
      this.watch.observe(box);
    }
    this.layOut();
    this.fill(0);  // the first screen is there with the page
  }

  layOut() {
    this.boxes.forEach((box, number) => {
      if (box.hasChildNodes()) return;
      const part = this.entries.slice(number * TOGETHER, (number + 1) * TOGETHER);
      const shown = this.showsNew ? part.length : part.filter((e) => e.sign !== "+").length;
      box.style.height = `${LINE * shown}px`;
    });
  }

  fill(number) {
    const box = this.boxes[number];
    if (!box || box.hasChildNodes()) return;
    const first = number * TOGETHER;
    this.entries.slice(first, first + TOGETHER).forEach((entry, i) => {
      const below = this.below(entry);
      box.append(this.row(entry, first + i), ...(below ? [below] : []));
    });
    box.style.height = "";
  }

  fillAll() {
    this.boxes.forEach((_, number) => this.fill(number));
  }

  row(entry, at) {
    const kind = entry.sign === "+" ? " new" : entry.sign === "-" ? " gone" : "";
    const row = node("div", { class: `line${kind}${this.marked.has(at) ? " linked" : ""}`, "data-at": at });
    if (entry.id) row.id = entry.id;
    const code = node("code", {}, ...coloured(entry.text, this.tokens));
    row.append(node("span", { class: "number" }, entry.number ?? ""), this.mark(entry),
      node("span", { class: "sign" }, entry.sign === "-" ? "\u2212" : entry.sign || ""), code);
    return row;
  }

  mark(entry) {
    return (this.gutter && this.gutter(entry)) || node("span", { class: "heat" });
  }

  renewMarks() {
    for (const row of this.lines.querySelectorAll(".line")) {
      const entry = this.entries[Number(row.dataset.at)];
      row.querySelector(".heat").replaceWith(this.mark(entry));
    }
  }

  element(at) {
    this.fill(Math.floor(at / TOGETHER));
    return this.lines.querySelector(`[data-at="${at}"]`);
  }

  // Mark the lines at these places, and bring the first of them into view.
  link(places, scroll) {
    for (const row of this.lines.querySelectorAll(".linked")) row.classList.remove("linked");
    this.marked = new Set(places);
    for (const at of places) {
      if (this.boxes[Math.floor(at / TOGETHER)].hasChildNodes()) this.element(at).classList.add("linked");
    }
    if (scroll && places.length && this.lines.clientHeight) this.show(Math.min(...places));
  }

  show(at) {
    const row = this.element(at);
    const middle = row.offsetTop - this.lines.clientHeight / 2;
    this.lines.scrollTop = Math.max(0, middle);
  }
}
