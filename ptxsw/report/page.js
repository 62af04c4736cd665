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

  // Bytes from where lane 0's line begins for each lane, or null.
  const offsets = (access) => {
    const start = access.phase || 0;
    if (access.lanes) return access.lanes.map((at) => start + at);
    if (access.lane_stride === null) return null;
    return Array.from({ length: 32 }, (_, lane) => start + lane * access.lane_stride);
  };
  // Each lane has a word of its own at one address of local memory.
  const own = (access) => access.lane_stride === 0 && !access.uniform && access.sectors >= 4;

  // Above the 32 lanes, below the 128-byte lines with their four sectors and the bytes asked for.
  function memory(access) {
    const at = offsets(access);
    if (!at || !access.bytes || own(access)) return null;
    const shared = access.space === "shared";
    const lines = [...new Set(at.flatMap((o) =>
      [Math.floor(o / 128), Math.floor((o + access.bytes - 1) / 128)]))].sort((a, b) => a - b);
    const some = lines.slice(0, 8);
    const svg = canvas(44 + some.length * 26 + (lines.length > 8 ? 14 : 0),
      `${lines.length} lines of 128 bytes touched by 32 lanes`);
    at.forEach((offset, lane) => {
      const x = 40 + lane * 13;
      const cell = drawn("rect", { class: "lane", x, y: 4, width: 12, height: 14, "data-lane": lane });
      cell.append(drawn("title", {}, `lane ${lane}: ${signed(offset - at[0])} bytes`));
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
      node("p", { class: "hint" }, "Pointers, and what else only the run knows, are taken to be " +
        "multiples of a line. Point at a lane to see its bytes.")];
  }

  // Where lane i finds the value: the other lane, and whether it is one of this warp. What lies
  // beyond the warp comes from the halo load of the lanes at its start or end, by rotation.
  const finds = (part, lane) => {
    const from = part.mirror ? part.delta - lane : lane + part.delta;
    return { from, near: from >= 0 && from < 32 };
  };

  function picture(rewrite, part) {
    const halo = rewrite.scheme === "halo";
    const who = part.mirror ? `lane ${part.delta}-i` : `lane i${signed(part.delta)}`;
    const svg = canvas(76, `lane i takes the value of ${who}`);
    svg.append(drawn("text", { x: 0, y: 14 }, `L${part.source_line}`));
    svg.append(drawn("text", { x: 0, y: 70 }, `L${rewrite.line}`));
    for (let lane = 0; lane < 32; lane++) {
      const { from, near } = finds(part, lane);
      const far = halo && !near;
      const x = 40 + lane * 13;
      svg.append(drawn("rect", { class: "lane", x, y: 4, width: 12, height: 14 }));
      const cell = drawn("rect", { class: near ? "lane" : far ? "lane far" : "lane own", x, y: 60,
        width: 12, height: 14 });
      cell.append(drawn("title", {}, near ? `lane ${lane} takes the value of lane ${from}`
        : far ? `lane ${lane} takes what lane ${from & 31} has loaded from beyond the warp`
        : `lane ${lane} loads for itself`));
      svg.append(cell);
      if (near || far) {
        svg.append(drawn("line", { class: near ? "arrow" : "arrow far", x1: 46 + (from & 31) * 13,
          y1: 19, x2: x + 6, y2: 59 }));
      }
    }
    return svg;
  }

  // Which lane serves which: the source's lanes above, this load's below.
  function serving(rewrite) {
    const parts = rewrite.parts || [{ source_line: rewrite.source_line, element: 0,
      delta: rewrite.delta, mirror: false }];
    const made = [node("h3", {}, "Which lane serves which")];
    for (const [number, part] of parts.entries()) {
      if (parts.length > 1) {
        const who = part.mirror ? `lane ${part.delta}-i` : part.delta ? `lane i${signed(part.delta)}`
          : "this lane";
        made.push(node("p", { class: "part" },
          `element ${number}: element ${part.element} of line ${part.source_line}, ${who}`));
      }
      if (part.delta || part.mirror) made.push(picture(rewrite, part));
    }
    const alone = parts.map((part) =>
      Array.from({ length: 32 }, (_, lane) => finds(part, lane)).filter((f) => !f.near).length);
    const most = Math.max(...alone);
    const copies = parts.every((part) => !part.delta && !part.mirror);
    const lanes = `${most} of 32 lanes (in orange)`;
    made.push(node("p", { class: "hint" }, copies ? "Each lane copies its own register."
      : !most ? "Every lane has such a neighbour."
      : rewrite.scheme === "halo" ? `${lanes} ${most === 1 ? "takes" : "take"} a value from beyond ` +
        "the warp, which lanes at its start or end have loaded for the whole row: one full load " +
        "and one partial load."
      : `${lanes} ${most === 1 ? "has no such neighbour and loads for itself"
        : "have no such neighbour and load for themselves"}.`));
    return made;
  }

  // For each bank how many words a warp wants of it, where it wants most of one.
  function column(counts, label) {
    const svg = canvas(76, `${label}: ${counts.map((n, bank) => `bank ${bank}: ${n}`).join(", ")}`);
    svg.append(drawn("text", { x: 0, y: 58 }, label));
    const most = Math.max(4, ...counts);
    counts.forEach((count, bank) => {
      const x = 40 + bank * 13;
      const height = count * 48 / most;
      const bar = drawn("rect", { class: count > 1 ? "bank busy" : "bank", x, y: 60 - height,
        width: 12, height });
      bar.append(drawn("title", {}, `bank ${bank}: ${count} ${count === 1 ? "word" : "words"}`));
      svg.append(drawn("rect", { class: "cell", x, y: 12, width: 12, height: 48 }), bar);
      if (count) svg.append(drawn("text", { x: x + 6, y: 57 - height, "text-anchor": "middle" }, String(count)));
      if (bank % 4 === 0) svg.append(drawn("text", { x: x + 6, y: 71, "text-anchor": "middle" }, String(bank)));
    });
    return svg;
  }

  function banks(kernel, line) {
    const found = (kernel.rewrites || []).filter((r) => r.rewrite === "bank-conflicts")
      .flatMap((r) => r.detail.accesses).find((a) => a.line === line && a.banks);
    if (!found || !found.banks.length) return [];
    return [node("h3", {}, "Words wanted of each of 32 banks"),
      column(found.banks, "before"), column(found.banks_after, "after"),
      node("p", { class: "hint" }, `${found.wavefronts} wavefronts for a warp on average become ` +
        `${found.wavefronts_after}. Drawn are the lanes that are served at a time, where they want ` +
        "most of one bank.")];
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
    const changed = data.changes[line];
    if (!changed || !changed.after.length) return [];
    return [node("h3", {}, "Before"), node("pre", { class: "before" }, changed.before),
      node("h3", {}, "After"), node("pre", { class: "after" }, changed.after.join("\n"))];
  }

  function proof(kernel, rewrite) {
    const facts = node("dl");
    const say = (name, values) => values.forEach((value) =>
      facts.append(node("dt", {}, name), node("dd", {}, value)));
    say("scheme", [rewrite.scheme]);
    say("form", [rewrite.form]);
    say("proof", [rewrite.proof.status]);
    say("guarded by", rewrite.proof.guards);
    say("assuming", rewrite.proof.assumptions);
    const parts = [node("h3", {}, "How it is done, and why it is right"), facts];
    const stem = `${kernel.name}-${rewrite.line}-from-${rewrite.source_line}-`;
    for (const [name, text] of Object.entries(data.proofs)) {
      if (!name.startsWith(stem)) continue;
      parts.push(node("details", {}, node("summary", {}, `${name} (unsatisfiable)`),
        node("pre", { class: "smt2" }, text)));
    }
    if (parts.length === 2 && (rewrite.delta || rewrite.parts)) {
      parts.push(node("p", { class: "hint" }, "There are too many proofs for one page: " +
        "optimize --emit-smt2 DIR writes this one, too."));
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
      : own(access) ? "each lane has a word of its own"
      : access.lane_stride !== null ? `${access.lane_stride} bytes` : access.lanes ? "irregular"
      : access.lane_step ? `${access.lane_step} bytes` : "varies");
    if (access.sectors !== null) say("sectors", `${access.sectors} for a full warp`);
    if (access.efficiency !== null) say("used", `${Math.round(access.efficiency * 100)}% of the bytes moved`);
    if (access.bank_conflicts !== null) {
      say("banks", access.bank_conflicts === 1 ? "no conflict" : `${access.bank_conflicts}-way conflict`);
    }
    if (access.contention > 1) say("contention", `${access.contention} lanes meet in one word`);
    for (const reuse of access.reuse) {
      say("same bytes", reuse.delta ? `line ${reuse.line}, by lane i${signed(reuse.delta)}`
        : `line ${reuse.line}, by the same thread`);
    }
    for (const past of access.carried) {
      const who = past.delta ? `, by lane i${signed(past.delta)}` : "";
      const when = past.turns === 1 ? "a turn" : `${past.turns} turns`;
      say("same bytes", `line ${past.line}${who}, ${when} of ${past.loop} ago`);
    }
    if (access.optimizer) {
      const { action, reason, source_line: line, delta, proof } = access.optimizer;
      const lane = delta ? ` by lane i${signed(delta)}` : "";
      say("optimizer", reason ? `${action}: ${reason}`
        : proof ? `${action} of line ${line}${lane}, ${proof}` : action);
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
    const rewrite = (kernel.rewrites || []).find((r) => r.line === line && r.source_line);
    detail.replaceChildren(
      node("h2", {}, `${kernel.readable || kernel.name}, line ${line}: ${access.opcode}`),
      facts(access),
      ...(memory(access) || (own(access) ? [] : [node("p", { class: "hint" },
        "Which bytes the lanes touch is known at run time only.")])),
      ...banks(kernel, line),
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
