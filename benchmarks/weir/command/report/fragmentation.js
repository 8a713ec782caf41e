/* fragmentation.js: external fragmentation over time, a strip below the chart.
 *
 * The share is that of the maps: free bytes outside of the largest free range. It is computed at some events in view, a
 * few at a time, because each needs the whole state of a strategy.
 */
const strip = { base: byId("strip"), height: 96, key: "", samples: [], timer: 0 };

const STRIP_EVENTS = 240;

/* The strategies that the strip can show: their places are known. */
const stripResults = () => shownResults().filter(result => result.address);

function drawStrip() {
    strip.base.hidden = !view.fragmentation;
    if (!view.fragmentation) return;
    const key = [view.from, view.to, trace.number, ...stripResults().map(result => result.index)].join();
    if (key !== strip.key) beginStrip(key);
    const ink = fit(strip.base, chart.width, strip.height), top = 8, bottom = strip.height - 8;
    for (const share of [0, 0.5, 1]) {
        const y = Math.round(bottom - share * (bottom - top)) + 0.5;
        line(ink, theme.line, 1, chart.left, y, chart.right, y);
        write(ink, theme.muted, "right", 100 * share + " %", chart.left - 8, y);
    }
    for (const { result, events, shares } of strip.samples) {
        ink.strokeStyle = lineColour(result.index);
        ink.lineWidth = 1.6;
        ink.beginPath();
        shares.forEach((share, i) => ink.lineTo(xOf(events[i] + 0.5), bottom - share * (bottom - top)));
        ink.stroke();
    }
}

function beginStrip(key) {
    const width = view.to - view.from, points = Math.min(width, STRIP_EVENTS);
    const all = Int32Array.from({ length: points }, (_, i) => view.from + Math.floor(i * width / points));
    strip.key = key;
    strip.samples = stripResults().map(result => ({ result, events: all.filter(event => event <= result.end), shares: [] }));
    clearTimeout(strip.timer);
    strip.timer = setTimeout(continueStrip);
}

/* The states of the maps are lent for a moment: they are those of the chosen event again afterwards. */
function continueStrip() {
    const until = performance.now() + 24;
    let left = null;
    while (performance.now() < until && (left = strip.samples.find(each => each.shares.length < each.events.length))) {
        const state = stateAt(left.result, left.events[left.shares.length]);
        left.shares.push(state.unused > 0 ? 1 - state.largest / state.unused : 0);
    }
    for (const { result } of strip.samples) stateAt(result, view.event);
    if (left) strip.timer = setTimeout(continueStrip);
    redraw("strip");
}
