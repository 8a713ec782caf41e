/* start.js: opens a trace, fills the page and listens to its controls. */

async function openTrace(index) {
    const raw = data.traces[index], opened = await prepareTrace(raw, index);
    if (Number(byId("trace").value) !== index) return; /* another trace was chosen meanwhile */
    trace = opened;
    byId("content").hidden = false;
    document.title = "weir replay: " + raw.name;
    const facts = { trace: raw.name, file: raw.path, source: raw.source, events: count(raw.events), "peak live": bytes(raw.peak_live_bytes),
        part: partOf(raw), blocks: count(trace.size.length), streams: count(raw.streams), threads: count(raw.threads), clock: raw.clock,
        device: capacityOf(raw) > 0 ? bytes(capacityOf(raw)) : "unlimited", seed: String(data.seed), weir: data.version };
    byId("facts").replaceChildren(...Object.entries(facts).filter(([, value]) => value)
        .map(([name, value]) => el("span", null, name + " ", el("b", null, value))));
    view.colour = trace.tags.known ? "tags" : trace.streams.known > 1 ? "streams" : "age";
    Object.assign(view, { focus: -1, since: -1, mapZoom: 0, mapFrom: 0 });
    const colours = [["tags", "tag"], ["streams", "stream"], ["age", "age"]].slice(trace.tags.known ? 0 : 1);
    byId("colour").replaceChildren(...colours.map(([value, text]) =>
        el("option", { value, selected: value === view.colour }, text)));
    openBlocks();
    const kept = (raw.marks || []).length;
    byId("marks-about").textContent = raw.marks_total > kept
        ? "The page has the first " + count(kept) + " of " + count(raw.marks_total) + " marks." : "";
    byId("slider").max = byId("number").max = trace.events - 1;
    byId("last-event").textContent = "of " + count(trace.events - 1);
    byId("worst").replaceChildren(el("span", { className: "muted" }, "Worst moment of"), ...trace.results.map(result =>
        el("button", { onclick: () => chooseEvent(result.raw.worst_event) }, result.raw.strategy)));
    showEvents(raw.part ? raw.part.first_event : 0, raw.part ? raw.part.last_event + 1 : trace.events);
    chooseEvent(refusedAt(raw) ?? peakAt(raw));
    if (!restored) restoreView();
    restored = true;
    fillPage();
}

/* The event at which the recorded program was refused memory, else the first such event of a strategy; undefined: none. */
function refusedAt(raw) {
    const died = raw.results.filter(r => r.oom).map(r => r.oom.event);
    return raw.recorded_oom ? raw.recorded_oom.event : died.length ? Math.min(...died) : undefined;
}

/* The worst moment of the first strategy. */
const peakAt = raw => (raw.results.find(r => r.strategy !== "recorded") || raw.results[0] || { worst_event: 0 }).worst_event;

/* The trace that the page shows first: one whose program was refused memory, else one on which a strategy was, else the
 * first. */
function firstTrace() {
    const refused = data.traces.findIndex(raw => raw.recorded_oom), died = data.traces.findIndex(raw => refusedAt(raw) !== undefined);
    return refused >= 0 ? refused : Math.max(0, died);
}

/* --- the link --- */

let restored = false;

/* The fragment of the address restores what is shown: trace, event, events in view, strategies shown, filter. */
function linkOfView() {
    const parts = new URLSearchParams({ trace: byId("trace").value, event: view.event, from: view.from, to: view.to, since: view.since,
        shown: shownResults().map(result => result.raw.strategy).join(" ") });
    return location.href.replace(/#.*/, "") + "#" + parts;
}

function restoreView() {
    const parts = new URLSearchParams(location.hash.slice(1)), number = name => parts.has(name) ? Number(parts.get(name)) : NaN;
    if (parts.has("shown"))
        for (const result of trace.results) result.shown = parts.get("shown").split(" ").includes(result.raw.strategy);
    if (number("to") > number("from")) showEvents(Math.round(number("from")), Math.round(number("to")));
    if (number("since") >= 0) view.since = clamp(Math.round(number("since")), 0, trace.events - 1);
    if (Number.isFinite(number("event"))) chooseEvent(number("event"));
}

/* The part of the file that was replayed, in words; "" for all of it. */
function partOf({ part }) {
    if (!part) return "";
    const streams = part.streams ? ", streams " + part.streams.join(", ") : "";
    return "events " + count(part.first_event) + " to " + count(part.last_event) + streams;
}

/* Fills all parts of the page that depend on the colour scheme. */
function fillPage() {
    readTheme();
    panels = trace.results.map(makePanel);
    byId("panels").replaceChildren(...panels.map(panel => panel.node));
    fillFigures();
    fillSweep();
    fillLegend();
    fillKeys();
    redraw("chart", "maps");
}

function listen() {
    byId("trace").onchange = change => openTrace(Number(change.target.value)).catch(tellProblem);
    byId("slider").oninput = input => chooseEvent(Number(input.target.value));
    byId("number").oninput = input => { if (input.target.value !== "") chooseEvent(Number(input.target.value)); };
    byId("number").onchange = input => { input.target.value = view.event; };
    byId("previous").onclick = () => chooseEvent(view.event - 1);
    byId("next").onclick = () => chooseEvent(view.event + 1);
    byId("link").onclick = () => {
        history.replaceState(null, "", linkOfView());
        byId("link-about").textContent = "Now in the address";
    };
    byId("all-events").onclick = () => showEvents(0, trace.events);
    byId("scale").onchange = change => { view.fitted = change.target.value === "fit"; redraw("chart"); };
    byId("colour").onchange = change => {
        Object.assign(view, { colour: change.target.value, focus: -1 });
        fillKeys();
        fillFilter();
        redraw("chart", "maps");
    };
    byId("fragmentation").onchange = change => { view.fragmentation = change.target.checked; redraw("strip"); };
    byId("shape").onchange = change => { view.shape = change.target.value; redraw("chart"); };
    byId("whole-map").onclick = () => zoomMaps(-20, 0);
    byId("map-closer").onclick = () => zoomMaps(1, view.mapFrom + mapSpan() / 2);
    byId("map-wider").onclick = () => zoomMaps(-1, view.mapFrom + mapSpan() / 2);
    listenToBlocks();
    listenToSince();
    byId("detail").append(...Object.keys(PITCHES).map(rows =>
        el("option", { value: rows, selected: Number(rows) === view.rows }, rows + " rows")));
    byId("detail").onchange = change => { Object.assign(view, { rows: Number(change.target.value), mapZoom: 0, mapFrom: 0 }); redraw("maps"); };
    listenToChart();
    new ResizeObserver(() => redraw("chart", "maps")).observe(byId("legend"));
    matchMedia("(prefers-color-scheme: dark)").onchange = fillPage;
    /* A printed page is light and shows all folded parts. */
    const print = on => {
        document.documentElement.classList.toggle("printing", on);
        fillPage();
        if (on) document.querySelectorAll("details").forEach(node => { node.open = true; });
        drawFrame();
    };
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
}

function showProblem(text) {
    byId("problem").textContent = text;
    byId("problem").hidden = false;
}

const tellProblem = error => showProblem("The data of this page cannot be read: " + error.message);

function start() {
    try {
        data = JSON.parse(byId("data").textContent);
    } catch (error) {
        return tellProblem(error);
    }
    byId("data").remove();
    byId("command").textContent = data.command;
    if (!data.traces.length) return showProblem("No trace was replayed.");
    if (!self.DecompressionStream) return showProblem("This browser is too old for the page: it has no DecompressionStream.");
    byId("trace").replaceChildren(...data.traces.map((raw, index) => el("option", { value: index }, raw.name)));
    byId("trace-choice").hidden = data.traces.length < 2;
    const linked = new URLSearchParams(location.hash.slice(1)).get("trace"), first = data.traces[linked] ? Number(linked) : firstTrace();
    byId("trace").value = first;
    openTrace(first).then(listen).catch(tellProblem);
}

start();
