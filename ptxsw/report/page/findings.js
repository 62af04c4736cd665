// What the rules of ptxsw found, worst first.

const LEVELS = ["error", "warning", "note"];
const SIGNS = { error: "!!", warning: "!", note: "i" };

class Findings {
  constructor(box, kernels, choose) {
    this.box = box;
    this.choose = choose;
    this.all = kernels.flatMap((kernel) => (kernel.findings || []).map((finding) =>
      ({ finding, kernel, title: kernel.readable || kernel.name })));
    this.all.sort((a, b) => LEVELS.indexOf(a.finding.level) - LEVELS.indexOf(b.finding.level) ||
      b.finding.weight - a.finding.weight || a.finding.line - b.finding.line);
    this.known = kernels.some((kernel) => kernel.findings);
    this.verdicts = kernels.flatMap((kernel) => Object.entries(kernel.verdicts || {}).map(([rule, said]) =>
      ({ rule, said, kernel, title: kernel.readable || kernel.name })));
    this.byLine = new Map();
    for (const one of this.all) {
      for (const line of new Set([one.finding.line, ...one.finding.lines])) {
        if (!this.byLine.has(line)) this.byLine.set(line, []);
        this.byLine.get(line).push(one);
      }
    }
    this.draw({ kernel: "", text: "" });
  }

  at(line) {
    return this.byLine.get(line) || [];
  }

  // What stands below a line on a narrow screen: the findings whose first line it is.
  beside(found) {
    if (!found.length) return null;
    const box = node("div", { class: `beside ${found[0].finding.level}` });
    for (const { finding } of found) {
      box.append(node("details", finding === this.all[0].finding ? { open: "" } : {},
        node("summary", {}, `${SIGNS[finding.level]} ${finding.measure} (${finding.rule.replace("ptxsw-", "")})`),
        node("p", {}, ...prose(finding.what)), node("p", {}, ...prose(finding.advice)), gained(finding)));
    }
    return box;
  }

  // Is a fault found at a line that is more than a note? Without findings nobody knows.
  flags(line) {
    return this.at(line).some((one) => one.finding.level !== "note");
  }

  draw({ kernel = this.kernel, text = this.text }) {
    Object.assign(this, { kernel, text });
    const shown = this.all.filter(({ finding, kernel: its, title }) =>
      (!kernel || its.name === kernel) && [title, finding.rule, finding.measure, finding.what, finding.file,
        finding.line].join(" ").toLowerCase().includes(text.toLowerCase()));
    this.box.hidden = !this.known;
    const title = `${this.all.length ? "" : "No "}${this.all.length === 1 ? "Finding" : this.all.length ? "Findings, worst first" : "findings"}`;
    const decided = this.verdicts.filter(({ kernel: its }) => !kernel || its.name === kernel);
    this.box.replaceChildren(node("h2", {}, title), node("ol", {}, ...shown.map((one) => this.entry(one))),
      ...(decided.length ? [node("h2", {}, "Is it right?"), node("ul", {}, ...decided.map(verdictEntry))] : []));
  }

  entry({ finding, title }) {
    const where = finding.source_line ? `${finding.file}:${finding.source_line}` : `line ${finding.line}`;
    const entry = node("li", { class: finding.level, "data-line": finding.line },
      button("", () => this.choose(finding.line)));
    entry.firstChild.append(
      node("span", { class: "measure" }, `${SIGNS[finding.level]} ${finding.measure}`),
      node("span", {}, finding.rule.replace("ptxsw-", "")), node("span", { class: "where" }, `${title}, ${where}`));
    return entry;
  }

  mark(line) {
    for (const entry of this.box.querySelectorAll("li")) {
      entry.classList.toggle("chosen", Number(entry.dataset.line) === line);
    }
  }
}

// What a rule of correctness says of a kernel: a mark, and why.
const MARKS = { absent: "\u2713", found: "!!", unknown: "?" };
function verdictEntry({ rule, said, title }) {
  const why = [said.reason, said.condition && `if ${said.condition}`].filter(Boolean).join("; ");
  return node("li", { class: `verdict ${said.verdict}` },
    node("span", { class: "measure" }, `${MARKS[said.verdict]} ${said.verdict}`),
    node("span", {}, `${title}: ${rule}`), node("span", { class: "where" }, why));
}

function findingText({ finding }) {
  return node("div", { class: `finding ${finding.level}` },
    node("p", { class: "measure" }, `${SIGNS[finding.level]} ${finding.measure} (${finding.rule})`),
    node("p", {}, ...prose(finding.what)), node("p", {}, ...prose(finding.advice)), gained(finding));
}

// What mending it brings, as in the terminal; nothing where that is not known.
function gained({ gain }) {
  if (!gain) return "";
  const [least, most] = gain.map((share) => Math.round(100 * share));
  const falls = `falls by ${least === most ? least : `${least} to ${most}`} %`;
  return node("p", {}, `With a fix, the kernel's bound ${gain[1] < 0.01 ? "stays as it is" : falls}.`);
}

// A sentence with `code` in it.
function prose(text) {
  return text.split("`").map((part, number) => (number % 2 ? node("code", {}, part) : part));
}
