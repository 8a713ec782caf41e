/* view.js: the state of the page: the chosen event, the events in view, and the parts that must be drawn again. */

let data = null, trace = null, panels = [];
const view = {
    event: 0, from: 0, to: 1, liveShown: true, fitted: false, shape: "blocks", fragmentation: false, colour: "age", rows: 8, focus: -1,
    block: -1, since: -1, mapZoom: 0, mapFrom: 0, mapSpan: 1, hover: null, drag: null,
};
const dirty = { chart: false, maps: false, strip: false, waiting: false };

const shownResults = () => trace.results.filter(result => result.shown);

/* Collects the parts that the next frame must draw again. Parts that follow the pointer are drawn in every frame. */
function redraw(...parts) {
    for (const part of parts) dirty[part] = true;
    if (!dirty.waiting) requestAnimationFrame(drawFrame);
    dirty.waiting = true;
}

function drawFrame() {
    dirty.waiting = false;
    if (dirty.chart) drawChart();
    if (dirty.maps) drawMaps();
    if (dirty.chart || dirty.maps || dirty.strip) drawStrip();
    dirty.chart = dirty.maps = dirty.strip = false;
    drawChartPointer();
    drawMapPointers();
    /* For tests: the page shows all that it was asked for. */
    if (!loading) document.documentElement.dataset.ready = true;
}

function chooseEvent(event) {
    view.event = clamp(Math.round(event) || 0, 0, trace.events - 1);
    byId("slider").value = view.event;
    if (document.activeElement !== byId("number")) byId("number").value = view.event;
    const chartPlace = byId("chart");
    chartPlace.ariaValueMax = trace.events - 1;
    chartPlace.ariaValueNow = view.event;
    byId("previous").disabled = view.event === 0;
    byId("next").disabled = view.event === trace.events - 1;
    byId("about").textContent = byId("about").title = "After event " + count(view.event) + ": "
        + describeEvent(view.event);
    chartPlace.ariaValueText = byId("about").textContent;
    const width = view.to - view.from;
    if (view.event < view.from) showEvents(view.event, view.event + width);
    else if (view.event >= view.to) showEvents(view.event + 1 - width, view.event + 1);
    const block = trace.allocatedAt[view.event] >= 0 ? trace.allocatedAt[view.event] : trace.freedAt[view.event];
    byId("its-block").hidden = block < 0;
    byId("its-block").onclick = () => chooseBlock(block);
    fillDifference();
    fillSince();
    leave();
    redraw("maps");
}

/* Describes an event of the trace and its phase. */
function describeEvent(event) {
    const born = trace.allocatedAt[event], freed = trace.freedAt[event], block = born >= 0 ? born : freed;
    let text = "neither an allocation nor a free";
    if (block >= 0) text = born < 0 ? "frees " : freed < 0 ? "allocates " : "reallocates to ";
    if (block >= 0) text += bytes(trace.size[block]) + " on stream " + trace.stream[block];
    if (block >= 0 && trace.tag[block] >= 0) text += ", " + trace.raw.tags[trace.tag[block]];
    const phases = trace.marks.phases.filter(phase => phase.from <= event && event < phase.to).map(phase => phase.name);
    return phases.length ? text + " (in " + phases.join(" \u203a ") + ")" : text;
}

/* Shows a range of events in the chart. */
function showEvents(from, to) {
    const width = clamp(to - from, Math.min(4, trace.events), trace.events);
    view.from = clamp(from, 0, trace.events - width);
    view.to = view.from + width;
    byId("all-events").disabled = width === trace.events;
    redraw("chart");
}
