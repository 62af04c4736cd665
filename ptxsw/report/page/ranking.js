// The accesses of the file, worst first: searched, filtered, sorted by any column.

const MOST_RANKED = 300;  // rows, until all are asked for

const COLUMNS = [
  { name: "weight", right: true, key: (e) => -e.cost.weight, cell: (e) => grouped(e.cost.weight) },
  { name: "line", right: true, key: (e) => e.access.line, cell: (e) => String(e.access.line) },
  { name: "access", key: (e) => e.access.opcode, cell: (e) => e.access.opcode },
  { name: "sectors", right: true, key: (e) => -e.cost.sectors,
    cell: (e) => (!e.cost.sectors ? "" : e.access.sectors === null ? "\u2264 32" : String(e.cost.sectors)) },
  { name: "used", right: true, key: (e) => e.access.efficiency ?? 2,
    cell: (e) => (e.access.efficiency === null ? "" : `${Math.round(100 * e.access.efficiency)} %`) },
  { name: "wavefronts", right: true, key: (e) => -e.cost.wavefronts,
    cell: (e) => (e.cost.wavefronts ? String(e.cost.wavefronts) : "") },
  { name: "kernel", key: (e) => e.title, cell: (e) => e.title },
  { name: "source", key: (e) => e.access.source || "", cell: (e) => e.access.source || "" },
];

class Ranking {
  constructor(box, count, entries, choose) {
    Object.assign(this, { box, count, entries, choose });
    this.sorted = 0;
    this.most = MOST_RANKED;
    this.wanted = { kernel: "", text: "", space: "", wasteful: false };
    const kernels = new Set(entries.map((e) => e.title)).size;
    this.columns = COLUMNS.filter((c) => c.name === "weight" ||
      (entries.some((e) => c.cell(e)) && (c.name !== "kernel" || kernels > 1)));
    for (const entry of entries) {
      const { access } = entry;
      entry.words = [entry.title, entry.kernel.name, access.opcode, access.index, access.space,
        access.source, access.line].join(" ").toLowerCase();
    }
    this.draw();
  }

  filter(wanted) {
    Object.assign(this.wanted, wanted);
    this.draw();
  }

  matching() {
    const { kernel, text, space, wasteful } = this.wanted;
    const found = this.entries.filter((e) => (!kernel || e.kernel.name === kernel) &&
      (!space || e.access.space === space) && (!wasteful || e.wasteful) &&
      e.words.includes(text.toLowerCase()));
    if (!this.sorted) return found;  // they come worst first
    const { key } = this.columns[this.sorted];
    return found.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
  }

  draw() {
    const found = this.found = this.matching();
    const head = node("tr");
    this.columns.forEach((column, number) => {
      const cell = node("th", { scope: "col", ...(column.right ? { class: "right" } : {}),
        ...(this.sorted === number ? { "aria-sort": number ? "ascending" : "descending" } : {}) },
      button(column.name, () => { this.sorted = number; this.draw(); }));
      head.append(cell);
    });
    const rows = found.slice(0, this.most).map((entry) => this.row(entry));
    const table = node("table", {}, node("caption", {}, "Accesses, worst first"),
      node("thead", {}, head), node("tbody", {}, ...rows));
    this.box.replaceChildren(table);
    if (found.length > this.most) {
      this.box.append(button(`show all ${found.length}`, () => { this.most = Infinity; this.draw(); }));
    }
    this.count.textContent = `${grouped(found.length)} of ${grouped(this.entries.length)} accesses`;
    this.mark(this.chosen);
  }

  row(entry) {
    const { wasteful } = entry;
    const row = node("tr", { "data-line": entry.access.line, ...(wasteful ? { class: "wasteful" } : {}) });
    for (const column of this.columns) {
      const text = column.cell(entry);
      const cell = node("td", column.right ? { class: "right" } : {});
      if (column.name === "line") cell.append(button(text, () => this.choose(entry.access.line, false)));
      else if (column.name === "weight") cell.append(wasteful ? `! ${text}` : text);
      else cell.append(text);
      row.append(cell);
    }
    row.addEventListener("click", () => this.choose(entry.access.line, false));
    return row;
  }

  mark(line) {
    this.chosen = line;
    for (const row of this.box.querySelectorAll("tr[data-line]")) {
      const chosen = Number(row.dataset.line) === line;
      row.classList.toggle("chosen", chosen);
      if (chosen && this.box.clientHeight) {
        const above = row.offsetTop - 24 < this.box.scrollTop;
        const below = row.offsetTop + row.offsetHeight > this.box.scrollTop + this.box.clientHeight;
        if (above || below) this.box.scrollTop = row.offsetTop - this.box.clientHeight / 2;
      }
    }
  }

  // The line of the access after or before the chosen one, or null.
  beside(by) {
    const at = this.found.findIndex((e) => e.access.line === this.chosen);
    const next = this.found[at < 0 ? 0 : at + by];
    return next ? next.access.line : null;
  }
}
