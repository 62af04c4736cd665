"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("ptx");
  const detail = document.getElementById("detail");
  const byLine = new Map();
  for (const kernel of data.report.kernels) {
    for (const access of kernel.accesses || []) {
      if (!byLine.has(access.line)) byLine.set(access.line, { kernel, access });
    }
  }

  // The listing comes in chunks that are filled when they are near what is seen.
  const diff = document.getElementById("diff");
  const chunks = data.chunks.map((chunk) => ({ ...chunk, box: document.createElement("ol") }));
  const height = (chunk) => `${18 * (chunk.lines + (diff.checked ? chunk.new : 0))}px`;
  let mates = [];
  function fill(chunk) {
    if (chunk.full) return;
    chunk.full = true;
    chunk.box.innerHTML = chunk.html;
    chunk.box.style.height = "";
    markMates();
  }
  function item(line) {
    const chunk = chunks.find((c) => line < c.first + c.lines);
    if (chunk) fill(chunk);
    return document.getElementById(`L${line}`);
  }
  function markMates() {
    for (const line of mates) {
      const mate = document.getElementById(`L${line}`);
      if (mate) mate.classList.add("mate");
    }
  }
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) fill(chunks.find((chunk) => chunk.box === entry.target));
    }
  }, { root: list, rootMargin: "800px" });
  for (const chunk of chunks) {
    chunk.box.style.height = height(chunk);
    list.append(chunk.box);
    watch.observe(chunk.box);
  }
  fill(chunks[0]);  // the first screen is there with the page
  document.querySelectorAll("details.kernel").forEach((summary, number) => {
    summary.addEventListener("toggle", () => {
      if (summary.childElementCount === 1) {
        summary.insertAdjacentHTML("beforeend", data.tables[number]);
      }
    });
  });

  const node = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes = {}, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const canvas = (height, label) =>
    drawn("svg", { viewBox: `0 0 464 ${height}`, role: "img", "aria-label": label });
  const signed = (n) => (n > 0 ? `+${n}` : String(n));
  const shown = (value) => (value === null || value === undefined ? "not known" : String(value));

  // Bytes from lane 0's address for each lane, or null.
  const offsets = (access) => {
    if (access.lanes) return access.lanes;
    if (access.lane_stride === null) return null;
    return Array.from({ length: 32 }, (_, lane) => lane * access.lane_stride);
  };

  // Above the 32 lanes, below the 128-byte lines with their four sectors and the bytes asked for.
  function memory(access) {
    const at = offsets(access);
    if (!at || !access.bytes) return null;
    const shared = access.space === "shared";
    const lines = [...new Set(at.flatMap((o) =>
      [Math.floor(o / 128), Math.floor((o + access.bytes - 1) / 128)]))].sort((a, b) => a - b);
    const some = lines.slice(0, 8);
    const svg = canvas(44 + some.length * 26 + (lines.length > 8 ? 14 : 0),
      `${lines.length} lines of 128 bytes touched by 32 lanes`);
    at.forEach((offset, lane) => {
      const x = 40 + lane * 13;
      const cell = drawn("rect", { class: "lane", x, y: 4, width: 12, height: 14, "data-lane": lane });
      cell.append(drawn("title", {}, `lane ${lane}: ${signed(offset)} bytes`));
      svg.append(cell);
      if (lane % 4 === 0) svg.append(drawn("text", { x: x + 1, y: 14 }, String(lane)));
    });
    svg.append(drawn("text", { x: 0, y: 14 }, "lane"));
    some.forEach((line, row) => {
      const y = 32 + row * 26;
      svg.append(drawn("text", { x: 0, y: y + 11 }, signed(line * 128)));
      for (let s = 0; s < 4; s++) {
        const low = line * 128 + s * 32;
        const hit = at.some((o) => o < low + 32 && o + access.bytes > low);
        svg.append(drawn("rect", { class: hit ? "touched" : "cell", x: 40 + s * 104, y, width: 104,
          height: 16 }));
      }
      at.forEach((offset, lane) => {
        const from = Math.max(offset, line * 128);
        const to = Math.min(offset + access.bytes, line * 128 + 128);
        if (from >= to) return;
        const mark = drawn("rect", { class: "used", x: 40 + (from - line * 128) * 3.25 + 0.5, y: y + 4,
          width: Math.max(1, (to - from) * 3.25 - 1), height: 8, "data-lane": lane });
        mark.append(drawn("title", {}, `lane ${lane}`));
        svg.append(mark);
      });
    });
    if (lines.length > 8) {
      svg.append(drawn("text", { x: 40, y: 42 + 8 * 26 }, `and ${lines.length - 8} lines more`));
    }
    svg.addEventListener("pointerover", (event) => {
      const lane = event.target.dataset ? event.target.dataset.lane : undefined;
      for (const mark of svg.querySelectorAll("[data-lane]")) {
        mark.classList.toggle("hot", lane !== undefined && mark.dataset.lane === lane);
      }
    });
    const unit = shared ? "rows of 32 banks" : "lines of 128 bytes, four sectors each";
    return [node("h3", {}, `32 lanes and the ${unit}`), svg,
      node("p", { class: "hint" }, "Bytes are counted from lane 0's address, taken as aligned.")];
  }

  // Which lane serves which: the source's lanes above, this load's below.
  function serving(rewrite) {
    const svg = canvas(76, `lane i takes the value of lane i${signed(rewrite.delta)}`);
    svg.append(drawn("text", { x: 0, y: 14 }, `L${rewrite.source_line}`));
    svg.append(drawn("text", { x: 0, y: 70 }, `L${rewrite.line}`));
    for (let lane = 0; lane < 32; lane++) {
      const from = lane + rewrite.delta;
      const served = from >= 0 && from < 32;
      const x = 40 + lane * 13;
      svg.append(drawn("rect", { class: "lane", x, y: 4, width: 12, height: 14 }));
      const cell = drawn("rect", { class: served ? "lane" : "lane own", x, y: 60, width: 12,
        height: 14 });
      cell.append(drawn("title", {}, served ? `lane ${lane} takes the value of lane ${from}`
        : `lane ${lane} loads for itself`));
      svg.append(cell);
      if (served) {
        svg.append(drawn("line", { class: "arrow", x1: 46 + from * 13, y1: 19, x2: x + 6, y2: 59 }));
      }
    }
    return [node("h3", {}, "Which lane serves which"), svg,
      node("p", { class: "hint" }, rewrite.delta ? `${Math.abs(rewrite.delta)} of 32 lanes (in ` +
        "orange) have no such neighbour and load for themselves." : "Each lane copies its own register.")];
  }

  function group(kernel, access) {
    const row = (kernel.rows || []).find((r) => r.name === access.row);
    if (!row || row.lines.length < 2) return [];
    const mates = node("p", { class: "mates" });
    for (const line of row.lines) {
      const entry = byLine.get(line);
      if (!entry) continue;
      const far = entry.access.offset ? ` ${signed(entry.access.offset)}` : "";
      const button = node("button", { type: "button" }, `${line}: ${row.name}${far}`);
      button.addEventListener("click", () => choose(line, true));
      mates.append(button);
    }
    return [node("h3", {}, `Row ${row.name}`), node("code", { class: "address" }, row.address), mates];
  }

  function change(line) {
    const kept = item(line);
    const after = data.after[line];
    if (!after) return [];
    return [node("h3", {}, "Before"), node("pre", { class: "before" }, kept.textContent.trim()),
      node("h3", {}, "After"), node("pre", { class: "after" }, after.join("\n").replace(/^\t/gm, ""))];
  }

  function proof(kernel, rewrite) {
    const facts = node("dl");
    const say = (name, values) => values.forEach((value) =>
      facts.append(node("dt", {}, name), node("dd", {}, value)));
    say("proof", [rewrite.proof.status]);
    say("guarded by", rewrite.proof.guards);
    say("assuming", rewrite.proof.assumptions);
    const parts = [node("h3", {}, "Why it is right"), facts];
    const stem = `${kernel.name}-${rewrite.line}-from-${rewrite.source_line}-`;
    for (const [name, text] of Object.entries(data.proofs)) {
      if (!name.startsWith(stem)) continue;
      parts.push(node("details", {}, node("summary", {}, `${name} (unsatisfiable)`),
        node("pre", { class: "smt2" }, text)));
    }
    return parts;
  }

  function facts(access) {
    const made = node("dl");
    const say = (name, value) => made.append(node("dt", {}, name), node("dd", {}, value));
    say("address", access.index || "differs by path");
    if (access.source) say("source", access.source);
    say("bytes", `${shown(access.bytes)} for each lane`);
    say("lane stride", access.uniform ? "uniform: one address for all lanes"
      : access.lane_stride !== null ? `${access.lane_stride} bytes` : access.lanes ? "irregular"
      : access.lane_step ? `${access.lane_step} bytes` : "varies");
    if (access.sectors !== null) say("sectors", `${access.sectors} for a full warp`);
    if (access.efficiency !== null) say("used", `${Math.round(access.efficiency * 100)} % of the bytes moved`);
    if (access.bank_conflicts !== null) {
      say("banks", access.bank_conflicts === 1 ? "no conflict" : `${access.bank_conflicts}-way conflict`);
    }
    for (const reuse of access.reuse) {
      say("same bytes", reuse.delta ? `line ${reuse.line}, by lane i${signed(reuse.delta)}`
        : `line ${reuse.line}, by the same thread`);
    }
    if (access.optimizer) {
      const { action, reason } = access.optimizer;
      say("optimizer", reason ? `${action}: ${reason}` : action);
    }
    return made;
  }

  function choose(line, focus) {
    const entry = byLine.get(line);
    if (!entry) return;
    const { kernel, access } = entry;
    for (const old of list.querySelectorAll(".chosen, .mate")) old.classList.remove("chosen", "mate");
    const chosen = item(line);
    chosen.classList.add("chosen");
    const row = (kernel.rows || []).find((r) => r.name === access.row);
    mates = row ? row.lines.filter((mate) => mate !== line) : [];
    markMates();
    const rewrite = (kernel.rewrites || []).find((r) => r.line === line);
    detail.replaceChildren(
      node("h2", {}, `${kernel.name}, line ${line}: ${access.opcode}`), facts(access),
      ...(memory(access) || [node("p", { class: "hint" },
        "Which bytes the lanes touch is known at run time only.")]),
      ...group(kernel, access),
      ...(rewrite ? [...serving(rewrite), ...change(line), ...proof(kernel, rewrite)] : []));
    detail.scrollTop = 0;
    if (focus) {
      chosen.scrollIntoView({ block: "center" });
      chosen.focus({ preventScroll: true });
    }
  }

  const lineOf = (target) => {
    const hit = target.closest ? target.closest(".hit") : null;
    return hit ? Number(hit.id.slice(1)) : null;
  };
  const lines = [...byLine.keys()].sort((a, b) => a - b);
  function step(by) {
    const chosen = list.querySelector(".chosen");
    const at = chosen ? lines.indexOf(Number(chosen.id.slice(1))) + by : by > 0 ? 0 : lines.length - 1;
    if (at >= 0 && at < lines.length) choose(lines[at], true);
  }
  list.addEventListener("click", (event) => choose(lineOf(event.target)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if ((event.key === "Enter" || event.key === " ") && lineOf(event.target)) {
      event.preventDefault();
      choose(lineOf(event.target));
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest ? event.target.closest('a[href^="#L"]') : null;
    if (!link) return;
    event.preventDefault();
    choose(Number(link.hash.slice(2)), true);
  });
  const show = () => {
    list.classList.toggle("diff", diff.checked);
    for (const chunk of chunks) if (!chunk.full) chunk.box.style.height = height(chunk);
  };
  diff.addEventListener("change", show);
  show();
  if (location.hash.startsWith("#L")) choose(Number(location.hash.slice(2)), true);
})();
