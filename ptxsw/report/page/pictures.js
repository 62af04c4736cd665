// Pictures: lanes and the bytes they touch, words wanted of each bank, which lane serves which.

const own = (access) => access.lane_stride === 0 && !access.uniform && access.sectors >= 4;

// Bytes from where lane 0's line begins for each lane, or null.
const offsets = (access) => {
  const start = access.phase || 0;
  if (access.lanes) return access.lanes.map((at) => start + at);
  if (access.lane_stride === null) return null;
  return Array.from({ length: 32 }, (_, lane) => start + lane * access.lane_stride);
};

const MOST_LINES = 8;

// Above the 32 lanes, below the 128-byte lines with their four sectors and the bytes asked for.
function lanesAndBytes(access) {
  const at = offsets(access);
  if (!at || !access.bytes || own(access)) return null;
  const shared = access.space === "shared";
  const lines = [...new Set(at.flatMap((o) =>
    [Math.floor(o / 128), Math.floor((o + access.bytes - 1) / 128)]))].sort((a, b) => a - b);
  const some = lines.slice(0, MOST_LINES);
  const svg = canvas(44 + some.length * 26 + (lines.length > MOST_LINES ? 14 : 0),
    `${at.length} lanes touch ${plural(lines.length, "line")} of 128 bytes`);
  at.forEach((offset, lane) => {
    const x = 40 + lane * 13;
    svg.append(drawn("rect", { class: "lane", x, y: 4, width: 12, height: 14, "data-lane": lane }));
    if (lane % 4 === 0) svg.append(drawn("text", { x: x + 1, y: 14 }, String(lane)));
  });
  svg.append(drawn("text", { x: 0, y: 14 }, "lane"));
  some.forEach((line, row) => {
    const y = 32 + row * 26;
    svg.append(drawn("text", { x: 0, y: y + 11 }, signed(line * 128)));
    for (let s = 0; s < 4; s++) {
      const low = line * 128 + s * 32;
      const hit = at.some((o) => o < low + 32 && o + access.bytes > low);
      svg.append(drawn("rect", { class: hit ? "touched" : "cell", x: 40 + s * 104, y, width: 104, height: 16 }));
    }
    at.forEach((offset, lane) => {
      const from = Math.max(offset, line * 128);
      const to = Math.min(offset + access.bytes, line * 128 + 128);
      if (from >= to) return;
      svg.append(drawn("rect", { class: "used", x: 40 + (from - line * 128) * 3.25 + 0.5, y: y + 4,
        width: Math.max(1, (to - from) * 3.25 - 1), height: 8, "data-lane": lane }));
    });
  });
  if (lines.length > MOST_LINES) {
    svg.append(drawn("text", { x: 40, y: 42 + MOST_LINES * 26 }, `and ${lines.length - MOST_LINES} lines more`));
  }
  const unit = shared ? "rows of 32 banks" : "lines of 128 bytes, four sectors each";
  return [node("h3", {}, `${at.length} lanes and the ${unit}`), svg, laneChooser(svg, access, at),
    node("p", { class: "hint" }, "Everything known only at run time, such as a pointer, is assumed " +
      "to be a multiple of 128 bytes.")];
}

// One lane and its bytes: by the slider (keys and touch), or by pointing at either in the picture.
function laneChooser(svg, access, at) {
  const said = node("output");
  const slider = node("input", { type: "range", min: 0, max: at.length - 1, value: 0, "aria-label": "lane" });
  const say = (lane) => {
    for (const mark of svg.querySelectorAll("[data-lane]")) {
      mark.classList.toggle("hot", Number(mark.dataset.lane) === lane);
    }
    const from = at[lane], to = from + access.bytes - 1;
    const place = access.space === "shared" ? `bank ${(((from >> 2) % 32) + 32) % 32}`
      : `sector ${Math.floor(from / 32)}`;
    said.textContent = `lane ${lane}: bytes ${signed(from)} to ${signed(to)}, ${place}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  slider.addEventListener("input", () => say(Number(slider.value)));
  const point = (event) => {
    const lane = event.target.dataset ? event.target.dataset.lane : undefined;
    if (lane === undefined) return;
    slider.value = lane;
    say(Number(lane));
  };
  svg.addEventListener("pointerover", point);
  svg.addEventListener("pointerdown", point);
  say(0);
  return node("div", { class: "chooser" }, slider, said);
}

// For each bank how many words a warp wants of it.
function bankColumns(counts, label) {
  const svg = canvas(88, `${label}: ${counts.map((n, bank) => `bank ${bank}: ${n}`).join(", ")}`);
  svg.append(drawn("text", { x: 0, y: 70 }, label));
  const most = Math.max(4, ...counts);
  counts.forEach((count, bank) => {
    const x = 40 + bank * 13;
    const height = count * 48 / most;
    svg.append(drawn("rect", { class: "cell", x, y: 24, width: 12, height: 48 }),
      drawn("rect", { class: count > 1 ? "bank busy" : "bank", x, y: 72 - height, width: 12, height }));
    if (count) svg.append(drawn("text", { x: x + 6, y: 69 - height, "text-anchor": "middle" }, String(count)));
    if (bank % 4 === 0) svg.append(drawn("text", { x: x + 6, y: 83, "text-anchor": "middle" }, String(bank)));
  });
  return svg;
}

// The words of each bank that are wanted by the lanes that are served together, where they want
// most of one: 32 lanes for 4 bytes each, 16 for 8, 8 for 16. Lanes that want one word share it,
// but in an atomic operation.
function wordsOfBanks(access) {
  const at = offsets(access);
  if (!at || !access.bytes) return null;
  const together = Math.floor(128 / Math.max(4, access.bytes));
  let worst = null;
  for (let first = 0; first < at.length; first += together) {
    const words = at.slice(first, first + together).flatMap((from) => {
      const found = [];
      for (let word = Math.floor(from / 4); word * 4 < from + access.bytes; word++) found.push(word);
      return found;
    });
    const counts = Array(32).fill(0);
    for (const word of access.kind === "atomic" ? words : new Set(words)) counts[((word % 32) + 32) % 32] += 1;
    if (!worst || Math.max(...counts) > Math.max(...worst)) worst = counts;
  }
  return worst;
}

function banks(kernel, access) {
  if (access.space !== "shared") return [];
  const title = node("h3", {}, "Words accessed in each of the 32 banks");
  const changed = (kernel.rewrites || []).filter((r) => r.rewrite === "bank-conflicts")
    .flatMap((r) => r.detail.accesses).find((a) => a.line === access.line && a.banks);
  if (changed && changed.banks.length) {
    return [title, bankColumns(changed.banks, "before"), bankColumns(changed.banks_after, "after"),
      node("p", { class: "hint" }, `${changed.wavefronts} wavefronts for a warp on average become ` +
        `${changed.wavefronts_after}. Drawn are the lanes that are served together, where they want ` +
        "most of one bank.")];
  }
  const counts = wordsOfBanks(access);
  return counts ? [title, bankColumns(counts, "words")] : [];
}

// Where lane i finds the value: the other lane, and whether it is one of this warp. What lies
// beyond the warp comes from the halo load of the lanes at its start or end, by rotation.
const finds = (part, lane) => {
  const from = part.mirror ? part.delta - lane : lane + part.delta;
  return { from, near: from >= 0 && from < 32 };
};
const server = (part) => (part.mirror ? `lane ${part.delta} \u2212 i` : part.delta ? `lane i ${part.delta > 0 ? "+" : "\u2212"} ${Math.abs(part.delta)}` : "this lane");

function servingPicture(rewrite, part) {
  const halo = rewrite.scheme === "halo";
  const svg = canvas(76, `lane i takes the value of ${server(part)}`);
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
      made.push(node("p", { class: "part" },
        `element ${number}: element ${part.element} of line ${part.source_line}, ${server(part)}`));
    }
    if (part.delta || part.mirror) made.push(servingPicture(rewrite, part));
  }
  const alone = parts.map((part) =>
    Array.from({ length: 32 }, (_, lane) => finds(part, lane)).filter((f) => !f.near).length);
  const most = Math.max(...alone);
  const copies = parts.every((part) => !part.delta && !part.mirror);
  const lanes = `${most} of 32 lanes (outlined in orange)`;
  made.push(node("p", { class: "hint" }, copies ? "Each lane copies its own register."
    : !most ? "Every lane has such a neighbour."
    : rewrite.scheme === "halo" ? `${lanes} ${most === 1 ? "takes" : "take"} a value from beyond ` +
      "the warp, which lanes at its start or end have loaded for the whole row: one full load " +
      "and one partial load."
    : `${lanes} ${most === 1 ? "has no such neighbour and loads for itself"
      : "have no such neighbour and load for themselves"}.`));
  return made;
}
