/* figures.js: the table of strategies, their problems, and the sweep. */

const swatch = colour => el("i", { className: "swatch", style: "background:" + colour });

function fillFigures() {
    const results = trace.results.map(result => result.raw), recorded = results.some(r => r.recorded);
    const widest = Math.max(1, ...results.map(r => r.peak_reserved_bytes));
    const best = Math.min(...results.filter(r => !r.oom && r.strategy !== "plan").map(r => r.peak_reserved_bytes));
    const head = (text, title) => el("th", { scope: "col", rowSpan: 2, title: title || "" }, text);
    const heads = el("thead", null, el("tr", null, head("Strategy"), head("Peak live", "Of the events that were played"),
        head("Peak reserved", "The bar shows peak live inside peak reserved, to one scale"), head("Reserved / live"),
        head("Largest free at worst", "The largest free range when the reserved bytes peaked"), head("Out of memory"),
        trace.raw.captures ? head("Graphs", `What the ${plural(trace.raw.captures, "captured graph")} need together`) : null,
        head("Device calls"), head("Device time", "Simulated"), head("Waits"), head("Hazards", "Found by the auditor"),
        el("th", { colSpan: 3, scope: "colgroup", title: "Wall time", style: "text-align:center" }, "ns per call"),
        recorded ? head("Recorded addresses", "Blocks placed at the address that the recording has") : null),
    el("tr", null, ...["p50", "p99", "p99.9"].map(text => el("th", { scope: "col" }, text))));
    const rows = results.map((r, index) => figuresOf(r, lineColour(index), widest,
        results.length > 1 && !r.oom && r.strategy !== "plan" && r.peak_reserved_bytes === best, recorded));
    byId("figures").replaceChildren(el("table", null, heads, el("tbody", null, ...rows)));
    byId("verdict").textContent = verdictText(trace.raw.verdict);
    byId("figures-about").textContent = results.length < 2 ? ""
        : "Best is the lowest peak reserved of the strategies that served the whole trace. The plan knows all lives beforehand, as no allocator can.";
    if (!trace.raw.history) byId("figures-about").textContent += " No history: the snapshot shows one moment.";
    byId("notes").replaceChildren(...results.flatMap(notesOf));
}

const verdictText = verdict => !verdict ? "" : verdict.row + ", " + (verdict.refused ? "refused at" : "peak at") + " event " +
    count(verdict.event) + ": " + verdict.text;

/* Returns the table row of one strategy. */
function figuresOf(r, colour, widest, isBest, recorded) {
    const cell = (text, small, more) => el("td", more, text, small ? el("small", null, small) : null);
    const number = value => cell(Number.isFinite(value) ? count(value) : DASH);
    const link = (event, more) => el("button", { className: "link", title: "Show this event",
        onclick: () => chooseEvent(event), ...more }, "event " + count(event));
    const share = (part, whole) => (100 * part / Math.max(1, whole)).toFixed(1) + "%";
    const split = `${theme.live} ${share(r.peak_live_bytes, r.peak_reserved_bytes)}, ${colour} 0`;
    const width = share(r.peak_reserved_bytes, widest);
    const bar = el("i", { style: `width:${width};background:linear-gradient(90deg,${split})` });
    const peak = el("td", { title: count(r.peak_reserved_bytes) + " bytes" },
        isBest ? el("span", { className: "badge" }, "best") : null,
        el("span", { className: isBest ? "best" : "" }, bytes(r.peak_reserved_bytes)),
        el("div", { className: "bar" }, bar));
    const calls = plural(r.allocs, "allocation") + ", " + plural(r.frees, "free"), times = r.ns_per_call || {};
    const fraction = (part, whole) => count(part) + " / " + count(whole), known = r.recorded;
    return el("tr", null,
        cell(el("span", { className: "name", title: calls }, swatch(colour), r.strategy)),
        cell(bytes(r.peak_live_bytes), null, { title: count(r.peak_live_bytes) + " bytes" }), peak,
        cell(r.peak_reserved_over_live > 0 ? r.peak_reserved_over_live.toFixed(3) : DASH),
        cell(r.largest_free_bytes === null ? DASH : bytes(r.largest_free_bytes), r.free_bytes === null ? null : link(r.worst_event)),
        !r.oom ? cell("no")
            : cell(link(r.oom.event, { className: "link bad", title: r.oom.why }), "asking " + bytes(r.oom.size)),
        !trace.raw.captures ? null : cell(r.capture_bytes === null ? DASH : bytes(r.capture_bytes), null,
            r.capture_bytes === null ? {} : { title: count(r.capture_bytes) + " bytes" }),
        number(r.device_calls), cell(r.device_time_ns === null ? DASH : nanoseconds(r.device_time_ns)), number(r.waits),
        cell(r.hazards === null ? DASH : count(r.hazards), null, { className: r.hazards > 0 ? "bad" : "" }),
        number(times.p50), number(times.p99), number(times.p999),
        !recorded ? null : !known ? cell(DASH) : cell(fraction(known.addresses_matched, known.addresses_total),
            known.segments_total ? "segments " + fraction(known.segments_matched, known.segments_total) : null,
            { className: known.addresses_matched < known.addresses_total ? "" : "best",
                title: known.first_mismatch || "" }));
}

/* Returns the problems of a strategy: the report of running out of memory and the auditor's findings. */
function notesOf(r) {
    const notes = [], findings = r.findings || [], bad = r.hazards > 0, unlisted = r.hazards - findings.length;
    const note = (className, open, title, content) => notes.push(el("details", { className, open },
        el("summary", null, el("b", null, r.strategy), title), content));
    if (r.oom) {
        const title = " ran out of memory at event " + count(r.oom.event) + ", asked for " + bytes(r.oom.size);
        note("note", false, title, el("pre", null, r.oom.report));
    }
    if (r.note) note("note quiet", false, ": the figures may be wrong", el("p", null, r.note));
    if (bad || findings.length) {
        const items = findings.map(text => el("li", null, text));
        if (unlisted > 0) items.push(el("li", { className: "muted" }, count(unlisted) + " more are not listed"));
        note(bad ? "note" : "note quiet", bad, bad ? ": the auditor found " + plural(r.hazards, "hazard")
            : ": remarks of the auditor", el("ul", { tabIndex: 0 }, ...items));
    }
    return notes;
}

/* Fills the table of the sweep: one column per factor, filled in proportion to the played part of the trace. */
function fillSweep() {
    const sweep = trace.raw.sweep;
    byId("sweep").hidden = !sweep;
    if (!sweep) return;
    const points = sweep.results[0].points, last = points[points.length - 1], times = factor => factor.toFixed(3);
    byId("sweep-about").textContent = `Pools limited to ${times(points[0].factor)} to ${times(last.factor)} times peak live (${
        bytes(sweep.peak_live_bytes)}), in pieces of ${bytes(sweep.granularity_bytes)}. ${sweep.every_limit ? "Every limit was replayed."
            : "Found by bisection: factors without a column were not replayed."}`;
    const head = (text, title) => el("th", { scope: "col", title: title || "" }, text);
    const colourOf = row => lineColour(trace.results.findIndex(result => result.raw.strategy === row.strategy));
    const rows = sweep.results.map(row => el("tr", null,
        el("td", null, el("span", { className: "name" }, swatch(colourOf(row)), row.strategy)),
        el("td", null, row.served_from === null ? "more than " + times(last.factor) : times(row.served_from),
            !sweep.every_limit || row.always_served_from === row.served_from ? null : el("small", null, "not at every factor above")),
        el("td", null, row.served_from === null ? DASH : bytes(row.served_from_bytes)),
        el("td", { style: "width:60%" }, stepsOf(row, colourOf(row), times))));
    byId("sweep-table").replaceChildren(el("table", null, el("thead", null, el("tr", null, head("Strategy"),
        head("Serves all from", "Times peak live"), head("Limit"),
        el("th", { scope: "col", style: "text-align:left",
            title: "Full: the whole trace; else the part before memory ran out" },
            `By factor, ${times(points[0].factor)} to ${times(last.factor)}`))), el("tbody", null, ...rows)));
}

function stepsOf(row, colour, times) {
    const about = p => times(p.factor) + " = " + bytes(p.limit_bytes) + ": " + (p.served === null ? "not replayed"
        : p.served ? "all served" : "out of memory at event " + count(p.oom.event) + ", asking " + bytes(p.oom.size));
    return el("div", { className: "steps" }, ...row.points.map(p => el("i", { title: about(p) }, el("b", {
        style: p.served === null ? "height:0" : p.served ? `height:100%;background:${colour}`
            : `height:${(80 * p.played).toFixed(0)}%` }))));
}
