// The chosen access, finding or kernel in words and pictures.

const WORST_USE = 0.5;  // of the bytes moved, where no rule has judged

// One sentence on what an access moves.
function verdict(access, cost) {
  const loops = access.loop_depth > 1 ? ` It is in ${access.loop_depth} nested loops.`
    : access.loop_depth ? " It is in a loop." : "";
  if (access.contention > 1) {
    return `${access.contention} lanes update the same word of shared memory, one after another.${loops}`;
  }
  if (access.space === "shared" && cost.wavefronts > 1) {
    return `A ${cost.wavefronts}-way bank conflict: shared memory serves the warp in ` +
      `${cost.wavefronts} passes.${loops}`;
  }
  if (cost.sectors && access.sectors === null) {
    return `The data decides what each lane touches: a warp may need up to 32 sectors.${loops}`;
  }
  if (cost.waste > 0 && access.efficiency !== null && access.sectors !== null) {
    const best = Math.max(1, Math.ceil(access.sectors * access.efficiency));
    return `A warp moves ${plural(access.sectors, "sector")} for bytes that would fit in ${best}.${loops}`;
  }
  return `No gaps and no conflicts.${loops}`;
}

function facts(access, cost, total) {
  const made = node("dl");
  const say = (name, value) => made.append(node("dt", {}, name), node("dd", {}, value));
  say("address", access.index || "differs by path");
  if (access.source) say("source", access.source);
  say("bytes", `${known(access.bytes)} for each lane`);
  say("lane stride", access.uniform ? "uniform: one address for all lanes"
    : own(access) ? "each lane has its own word"
    : access.lane_stride !== null ? `${access.lane_stride} bytes` : access.lanes ? "irregular"
    : access.lane_step ? `${access.lane_step} bytes` : "varies");
  if (access.sectors !== null) say("sectors", `${access.sectors} for a full warp`);
  if (access.efficiency !== null) say("used", `${Math.round(access.efficiency * 100)} % of the bytes moved`);
  if (access.bank_conflicts !== null) {
    say("banks", access.bank_conflicts === 1 ? "no conflict" : `${access.bank_conflicts}-way conflict`);
  }
  if (access.contention > 1) say("contention", `${access.contention} lanes access the same word`);
  const share = 100 * cost.weight / Math.max(1, total);
  say("weight", `${grouped(cost.weight)}, ${share && share < 1 ? "less than 1" : Math.round(share)} % of the file`);
  for (const reuse of access.reuse) {
    say("same bytes", `line ${reuse.line}, by ${reuse.delta ? server(reuse) : "the same thread"}`);
  }
  for (const past of access.carried) {
    const who = past.delta ? `, by ${server(past)}` : "";
    const when = past.turns === 1 ? "an iteration" : `${past.turns} iterations`;
    say("same bytes", `line ${past.line}${who}, ${when} of ${past.loop} ago`);
  }
  if (access.over_stores) say("in its loop", access.over_stores);
  if (access.optimizer) {
    const { action, reason, source_line: line, delta, proof } = access.optimizer;
    const lane = delta ? ` by ${server({ delta })}` : "";
    say("optimizer", reason ? `${action}: ${reason}`
      : proof ? `${action} of line ${line}${lane}, ${proof}` : action);
  }
  return made;
}

function rowMates(kernel, access, choose) {
  const row = (kernel.rows || []).find((r) => r.name === access.row);
  if (!row || row.lines.length < 2) return [];
  const mates = node("p", { class: "mates" });
  for (const line of row.lines) mates.append(button(`line ${line}`, () => choose(line, true)));
  return [node("h3", {}, `Row ${row.name}: addresses that differ by a constant`),
    node("code", { class: "address" }, row.address), mates];
}

function change(changed) {
  if (!changed || !changed[1].length) return [];
  const lines = (name, sign, texts) => node("pre", { class: name, tabindex: 0 },
    texts.map((text) => `${sign} ${text}`).join("\n"));
  return [node("h3", {}, "Before"), lines("before", "\u2212", [changed[0]]),
    node("h3", {}, "After"), lines("after", "+", changed[1])];
}

function proof(kernel, rewrite, proofs) {
  const list = node("dl");
  const say = (name, values) => values.forEach((value) =>
    list.append(node("dt", {}, name), node("dd", {}, value)));
  if (rewrite.scheme) say("scheme", [rewrite.scheme]);
  if (rewrite.form) say("form", [rewrite.form]);
  say("proof", [rewrite.proof.status]);
  say(rewrite.proof.status === "guarded" ? "tested at run time" : "where", rewrite.proof.guards);
  say("assuming", rewrite.proof.assumptions);
  const parts = [node("h3", {}, "How it works, and why it is right"), list];
  const stem = `${kernel.name}-${rewrite.line}-from-${rewrite.source_line}-`;
  for (const [name, text] of Object.entries(proofs)) {
    if (!name.startsWith(stem)) continue;
    parts.push(node("details", {}, node("summary", {}, `${name} (unsatisfiable)`),
      node("pre", { class: "smt2", tabindex: 0 }, text)));
  }
  if (parts.length === 2 && (rewrite.delta || rewrite.parts)) {
    parts.push(node("p", { class: "hint" }, "There are too many proofs for one page: " +
      "optimize --emit-smt2 DIR writes this one, too."));
  }
  return parts;
}

// `context` has the file's data, the sum of all weights, its findings, and what chooses another line.
function accessDetail({ kernel, access, cost, wasteful }, context) {
  const rewrite = (kernel.rewrites || []).find((r) => r.line === access.line && r.source_line);
  const picture = lanesAndBytes(access);
  const found = context.findings.at(access.line);
  return [
    node("h2", {}, `${kernel.readable || kernel.name}, line ${access.line}: ${access.opcode}`),
    ...(found.length ? found.map(findingText)
      : [node("p", { class: wasteful ? "verdict bad" : "verdict" }, verdict(access, cost))]),
    facts(access, cost, context.total),
    ...(picture || (own(access) ? [] : [node("p", { class: "hint" },
      "Which bytes the lanes touch is known only at run time.")])),
    ...banks(kernel, access),
    ...rowMates(kernel, access, context.choose),
    ...(rewrite ? [...serving(rewrite), ...change(context.data.changes[access.line]),
      ...proof(kernel, rewrite, context.data.proofs)] : []),
  ];
}

function findingDetail(found) {
  const [{ finding, title }] = found;
  return [node("h2", {}, `${title}, line ${finding.line}`), ...found.map(findingText)];
}

function kernelDetail(kernel, { figures, reason, tables }) {
  const said = [kernel.readable && node("code", {}, kernel.name), figures, reason].filter(Boolean);
  return [node("h2", {}, kernel.readable || kernel.name), ...said.map((one) => node("p", {}, one)),
    ...tables.flatMap(kernelTable)];
}

function kernelTable([title, header, right, rows, all]) {
  const side = (at) => (right[at] ? { class: "right" } : {});
  const cell = (text, at) => node("td", side(at), ["line", "from"].includes(header[at]) && /^\d+$/.test(text)
    ? node("a", { href: `#L${text}` }, text) : text);
  const table = node("table", {},
    node("thead", {}, node("tr", {}, ...header.map((name, at) => node("th", { scope: "col", ...side(at) }, name)))),
    node("tbody", {}, ...rows.map((row) => node("tr", {}, ...row.map(cell)))));
  const more = all - rows.length;
  return [node("h3", {}, title),
    node("div", { class: "wide", tabindex: 0, role: "group", "aria-label": title }, table),
    ...(more > 0 ? [node("p", { class: "hint" }, `${grouped(more)} more are in the listing.`)] : [])];
}
