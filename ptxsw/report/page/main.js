// Puts the page together: what is there, what is linked with what, what keys and clicks do.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const detail = byId("detail");

// ---------------------------------------------------------------- accesses by line

const findings = new Findings(byId("findings"), data.report.kernels, (line) => choose(line, false));
const costs = new Map(data.costs.map(([line, weight, waste, sectors, wavefronts]) =>
  [line, { weight, waste, sectors, wavefronts }]));
// Is more than a note found of an access? Where no rule has judged, the figures decide.
const isWasteful = (access, cost) => (findings.known ? findings.flags(access.line) : cost.waste > 0 &&
  (access.space === "shared" || access.efficiency === null || access.efficiency < WORST_USE));
const byLine = new Map();
for (const kernel of data.report.kernels) {
  for (const access of kernel.accesses || []) {
    if (!byLine.has(access.line)) {
      const cost = costs.get(access.line);
      byLine.set(access.line, { kernel, access, cost, wasteful: isWasteful(access, cost),
        title: kernel.readable || kernel.name });
    }
  }
}
const ranked = [...costs.keys()].map((line) => byLine.get(line));
const total = ranked.reduce((sum, entry) => sum + entry.cost.weight, 0);
const inOrder = [...byLine.keys()].sort((a, b) => a - b);

// ---------------------------------------------------------------- lines that belong together

const originOf = new Map(data.origins.map(([line, file, at]) => [line, `S${file}-${at}`]));
const linesOf = new Map();  // the PTX lines of a source line
for (const [line, place] of originOf) {
  if (!linesOf.has(place)) linesOf.set(place, []);
  linesOf.get(place).push(line);
}
const machineOf = new Map();  // the instructions of a PTX line
data.sass.forEach(([line], at) => {
  if (!machineOf.has(line)) machineOf.set(line, []);
  machineOf.get(line).push(at);
});

// ---------------------------------------------------------------- heat in the gutter

const measured = (lines) => {
  const name = byId("measure").value;
  const entries = lines.map((line) => byLine.get(line)).filter(Boolean);
  return { entries, value: entries.reduce((sum, e) => sum + e.cost[name], 0) };
};
let hottest = 1;
function findHottest() {
  hottest = Math.max(1, ...inOrder.map((line) => measured([line]).value));
}
// The colour says whether bytes or passes are wasted, and so does the "!"; the width of the bar
// says how much there is, and so does the number.
function heat(lines, pressable) {
  const { entries, value } = measured(lines);
  if (!entries.length) return foundMark(lines, pressable);
  const level = value ? 1 + Math.round(4 * Math.log1p(value) / Math.log1p(Math.max(hottest, value))) : 0;
  const bad = entries.some((e) => e.wasteful) || lines.some((line) => findings.flags(line));
  const classes = `heat level${level}${bad ? " bad" : ""}`;
  const text = `${value ? short(value) : ""}${bad ? "!" : ""}`;
  if (!pressable) return node("span", { class: classes }, text);
  const [{ access, cost }] = entries;
  const label = `${text}, line ${access.line}, ${access.opcode}: ${verdict(access, cost)}`;
  return button(text, () => choose(access.line, false), { class: classes, "aria-label": label, title: access.index || "" });
}

// The mark of a line that has findings and no access.
function foundMark(lines, pressable) {
  const found = lines.flatMap((line) => findings.at(line));
  if (!found.length) return null;
  const [{ finding }] = found;
  const classes = `heat level1${finding.level === "note" ? "" : " bad"}`;
  const sign = SIGNS[finding.level];
  if (!pressable) return node("span", { class: classes }, sign);
  const label = `${sign} line ${finding.line}: ${finding.measure}`;
  return button(sign, () => choose(lines[0], false), { class: classes, "aria-label": label });
}

// ---------------------------------------------------------------- the texts

let number = 0;
const ptx = new Listing("PTX", "ptx", data.ptx.map(([sign, text]) => {
  if (sign === "+") return { sign, text };
  number += 1;
  return { sign, text, number, line: number, id: `L${number}` };
}), (entry) => entry.line && heat([entry.line], true),
(entry) => findings.beside(findings.all.filter(({ finding }) => finding.line === entry.line)));

const sources = data.sources.map(([name, lines], file) => (lines.length ? new Listing(name, "source",
  lines.map((text, at) => ({ text, number: at + 1, id: `S${file}-${at + 1}`, place: `S${file}-${at + 1}` })),
  (entry) => heat(linesOf.get(entry.place) || [], false),
  (entry) => findings.beside(findings.all.filter(({ finding }) => originOf.get(finding.line) === entry.place))) : null));

const machineEntries = [];
const machineAt = new Map();  // where an instruction stands in the listing
const routines = new Map(data.routines);
data.sass.forEach(([line, memory, address, text], at) => {
  if (routines.has(at)) {
    const kernel = data.report.kernels.find((k) => k.name === routines.get(at));
    machineEntries.push({ text: (kernel && kernel.readable) || routines.get(at) });
  }
  machineAt.set(at, machineEntries.length);
  machineEntries.push({ text, number: address.toString(16).padStart(4, "0"), line, memory });
});
const machine = data.sass.length
  ? new Listing(`SASS for ${data.machine.arch}`, "sass", machineEntries,
    (entry) => (entry.memory ? heat([entry.line], false) : null)) : null;

const listings = [...sources.filter(Boolean), ptx, ...(machine ? [machine] : [])];
const texts = byId("texts");
for (const listing of listings) {
  listing.box.hidden = listing !== ptx;
  texts.append(listing.box);
}

// Wide windows show as many texts side by side as can be read, narrow ones one: the source first.
const toggles = new Map(listings.map((listing) => {
  const title = listing.box.getAttribute("aria-label");
  return [listing, button(title, () => toggle(listing), { "aria-pressed": "false" })];
}));
const narrow = matchMedia("(max-width: 1099px)");
function toggle(listing) {
  const shown = listing.box.hidden;
  if (narrow.matches && shown) for (const other of listings) other.box.hidden = true;
  listing.box.hidden = !shown && listings.some((l) => l !== listing && !l.box.hidden);
  showToggles();
  relink(true);
}
function showToggles() {
  for (const [listing, toggler] of toggles) toggler.setAttribute("aria-pressed", String(!listing.box.hidden));
  showSplitters();
}
const READABLE = 440;  // pixels of a text
function showAsFits() {
  const busiest = sources.filter(Boolean)
    .map((listing) => [listing.entries.filter((e) => linesOf.has(e.place)).length, listing])
    .sort((a, b) => b[0] - a[0])[0];
  const wanted = [...(busiest && busiest[0] ? [busiest[1]] : []), ptx, ...(machine ? [machine] : [])];
  const room = narrow.matches ? 1 : Math.max(1, Math.floor(texts.clientWidth / READABLE));
  for (const listing of listings) listing.box.hidden = !wanted.slice(0, room).includes(listing);
  showToggles();
}

const panesShown = () => listings.map((listing) => listing.box).filter((box) => !box.hidden);
const splitters = new Map(listings.map(({ box }) =>
  [box, splitter(box, () => panesShown()[panesShown().indexOf(box) - 1], panesShown)]));
const side = byId("side");
splitter(side, () => texts, () => [texts, side]);
function showSplitters() {
  const [first] = panesShown();
  for (const [box, made] of splitters) made.hidden = box === first;
}
if (listings.length > 1) byId("panes").append(...toggles.values());
narrow.addEventListener("change", () => { showAsFits(); relink(true); });

let linkedLines = [];
function link(lines, scroll = true) {
  linkedLines = lines;
  relink(scroll);
}
function relink(scroll) {
  ptx.link(linkedLines.map((line) => ptx.where.get(`L${line}`)).filter((at) => at !== undefined), scroll);
  const places = new Set(linkedLines.map((line) => originOf.get(line)).filter(Boolean));
  for (const listing of sources) {
    if (!listing) continue;
    listing.link([...places].map((p) => listing.where.get(p)).filter((at) => at !== undefined), scroll);
  }
  if (machine) machine.link(linkedLines.flatMap((line) => machineOf.get(line) || []).map((at) => machineAt.get(at)), scroll);
}

// ---------------------------------------------------------------- choosing

let chosen = null;
const context = { data, total, findings, choose };
function choose(line, focus) {
  const entry = byLine.get(line);
  const found = findings.at(line);
  if (!entry && !found.length) return;
  chosen = line;
  link(found.length ? [line, ...found[0].finding.lines.filter((other) => other !== line)] : [line]);
  for (const row of ptx.lines.querySelectorAll(".chosen, .mate")) row.classList.remove("chosen", "mate");
  const row = ptx.element(ptx.where.get(`L${line}`));
  row.classList.add("chosen");
  const rowOf = entry && (entry.kernel.rows || []).find((r) => r.name === entry.access.row);
  for (const mate of rowOf ? rowOf.lines : []) {
    const other = document.getElementById(`L${mate}`);
    if (mate !== line && other) other.classList.add("mate");
  }
  detail.replaceChildren(...(entry ? accessDetail(entry, context) : findingDetail(found)));
  detail.scrollTop = 0;
  ranking.mark(line);
  findings.mark(line);
  if (focus && row.querySelector("button")) row.querySelector("button").focus({ preventScroll: true });
}

function chooseKernel(name) {
  const at = data.report.kernels.findIndex((k) => k.name === name);
  if (at < 0) return;
  const kernel = data.report.kernels[at];
  detail.replaceChildren(...kernelDetail(kernel, data.tables[at]));
  detail.scrollTop = 0;
  const first = (kernel.accesses || [])[0];
  if (first) ptx.show(ptx.where.get(`L${first.line}`));
}

const ranking = new Ranking(byId("ranking"), byId("count"), ranked, choose);

for (const listing of listings) {
  listing.lines.addEventListener("click", (event) => {
    const row = event.target.closest(".line");
    if (!row || event.target.closest("button")) return;
    const entry = listing.entries[Number(row.dataset.at)];
    const lines = entry.place ? linesOf.get(entry.place) || [] : entry.line ? [entry.line] : [];
    const worst = lines.map((line) => byLine.get(line)).filter(Boolean)
      .sort((a, b) => b.cost.weight - a.cost.weight)[0];
    if (worst) choose(worst.access.line, false);
    if (lines.length > 1 || !worst) link(lines, listing !== ptx);
  });
}

// ---------------------------------------------------------------- tools and keys

for (const kernel of data.report.kernels) {
  byId("kernel").append(node("option", { value: kernel.name }, kernel.readable || kernel.name));
}
for (const space of new Set(ranked.map((e) => e.access.space))) {
  byId("space").append(node("option", { value: space }, space));
}
byId("tools").addEventListener("submit", (event) => {
  event.preventDefault();
  if (ranking.found.length) choose(ranking.found[0].access.line, true);
});
byId("kernel").addEventListener("change", (event) => {
  ranking.filter({ kernel: event.target.value });
  findings.draw({ kernel: event.target.value });
  chooseKernel(event.target.value);
});
byId("find").addEventListener("input", (event) => {
  ranking.filter({ text: event.target.value.trim() });
  findings.draw({ text: event.target.value.trim() });
});
byId("space").addEventListener("change", (event) => ranking.filter({ space: event.target.value }));
byId("wasteful").addEventListener("change", (event) => ranking.filter({ wasteful: event.target.checked }));
byId("measure").addEventListener("change", () => {
  findHottest();
  for (const listing of listings) listing.renewMarks();
});
byId("diff").addEventListener("change", (event) => {
  ptx.showsNew = event.target.checked;
  ptx.lines.classList.toggle("plain", !ptx.showsNew);
  ptx.layOut();
});

function step(by) {
  const at = chosen === null ? (by > 0 ? -1 : inOrder.length) : inOrder.indexOf(chosen);
  const line = inOrder[at + by];
  if (line !== undefined) choose(line, true);
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, select")) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "n" || event.key === "p") {
    const line = ranking.beside(event.key === "n" ? 1 : -1);
    if (line !== null) choose(line, true);
  } else if (event.key === "/") {
    event.preventDefault();
    byId("find").focus();
  }
});
document.addEventListener("click", (event) => {
  const anchor = event.target.closest ? event.target.closest('a[href^="#L"]') : null;
  if (!anchor) return;
  event.preventDefault();
  choose(Number(anchor.hash.slice(2)), true);
});
window.addEventListener("beforeprint", () => ptx.fillAll());

// ---------------------------------------------------------------- the head

const sum = (name) => data.report.kernels.reduce((all, kernel) => all + ((kernel.totals || {})[name] || 0), 0);
const [asked, moved, passes] = ["bytes", "sectors", "wavefronts"].map(sum);
const blocks = new Set(data.report.kernels.map((k) => (k.block ? k.block.join(" x ") : "")));
const assumed = new Set(data.report.kernels.flatMap((k) => (k.rewrites || []).flatMap((r) => r.proof.assumptions)));
const say = (name, value) => byId("facts").append(node("div", {}, node("dt", {}, name), node("dd", {}, value)));
say("target", `${data.report.arch || "none"}, ptxsw ${data.report.ptxsw}`);
say("block", blocks.size > 1 ? "differs by kernel" : [...blocks][0] || "rows of whole warps (--block sets another)");
say("launch", "none: a loop of unknown length counts as 16 iterations");
say("totals of a warp", `${grouped(asked)} bytes used, ${plural(moved, "sector")}` +
  `${moved ? ` (${Math.round(100 * asked / (32 * moved))} % used)` : ""}, ${plural(passes, "wavefront")} of shared memory`);
say("machine code", data.machine.note || `by ptxas for ${data.machine.arch}`);
say("assumed", ["pointers are multiples of 128 bytes", ...assumed].join(", "));

byId("about").open = !matchMedia("(max-width: 899px)").matches;
findHottest();
for (const listing of listings) listing.renewMarks();
showAsFits();
const asks = /^#L\d+$/.test(location.hash) ? Number(location.hash.slice(2)) : null;
if (asks !== null && (byLine.has(asks) || findings.at(asks).length)) choose(asks, true);
else if (findings.all.length) choose(findings.all[0].finding.line, false);
else if (ranked.length) choose(ranked[0].access.line, false);
else if (data.report.kernels.length) chooseKernel(data.report.kernels[0].name);
