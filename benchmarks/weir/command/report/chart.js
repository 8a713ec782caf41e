/* chart.js: live and reserved bytes over the events. */

const LANE = 16;
const chart = {
    base: byId("chart"), over: byId("chart").nextElementSibling, width: 0, left: 74, right: 0, top: 0, bottom: 0,
    least: 0, most: 1,
};

const xOf = event => chart.left + (event - view.from) / (view.to - view.from) * (chart.right - chart.left);
const yOf = value => chart.bottom - (value - chart.least) / (chart.most - chart.least) * (chart.bottom - chart.top);
const eventAt = x => {
    const part = (x - chart.left) / (chart.right - chart.left);
    return clamp(Math.floor(view.from + part * (view.to - view.from)), view.from, view.to - 1);
};

/* Calls visit(x, end, first, low, high, last) for each event in view, or for each pixel where pixels hold several. */
function eachStep(curve, end, visit) {
    const stop = Math.min(view.to, end + 1), per = Math.max(1, (view.to - view.from) / (chart.right - chart.left));
    for (let i = 0; ; i++) {
        const first = view.from + Math.floor(i * per), after = Math.min(stop, view.from + Math.floor((i + 1) * per));
        if (first >= after) break;
        const values = curve.range(first, after);
        visit(xOf(first), xOf(after), values.first, values.low, values.high, values.last);
    }
}

function drawChart() {
    const { marks, longest } = trace, results = shownResults(), lanes = marks.lanes + (marks.instants.length ? 1 : 0);
    chart.width = chart.base.parentElement.clientWidth;
    chart.right = chart.width - 14;
    chart.top = 16 + lanes * LANE;
    chart.bottom = chart.top + clamp(Math.round(chart.width * 0.22), 240, 340);
    const ink = fit(chart.base, chart.width, chart.bottom + 38);
    const curves = results.map(result => [result.reserved, result.end]);
    if (view.liveShown && longest) curves.push([longest.live, longest.end]);

    let least = Infinity, most = 1;
    for (const [values, end] of curves) {
        eachStep(values, end, (x, to, first, low, high) => {
            least = Math.min(least, low);
            most = Math.max(most, high);
        });
    }
    const capacity = capacityOf(trace.raw), limit = capacity > 0 && capacity <= most * 1.3 ? capacity : 0;
    chart.most = Math.max(most, limit);
    chart.least = view.fitted && least < chart.most ? least - (chart.most - least) * 0.05 : 0;
    chart.most += (chart.most - chart.least) * 0.05;
    drawMarks(ink);
    drawAxes(ink);
    fillDifference();
    ink.save();
    ink.beginPath();
    ink.rect(chart.left, chart.top - 4, chart.right - chart.left, chart.bottom - chart.top + 4);
    ink.clip();
    if (view.liveShown && view.shape === "blocks") drawStack(ink);
    else if (view.liveShown && longest) drawLive(ink, longest);
    if (limit) {
        ink.setLineDash([5, 4]);
        line(ink, theme.bad, 1, chart.left, yOf(limit), chart.right, yOf(limit));
        ink.setLineDash([]);
        write(ink, theme.bad, "right", "capacity " + bytes(limit), chart.right - 4, yOf(limit) + 8);
    }
    if (results.length === 2) drawDifference(ink, ...results);
    for (const result of results.reverse()) drawReserved(ink, result);
    ink.restore();
}

/* Draws the live bytes: pale up to the highest value of each pixel, darker up to the lowest. */
function drawLive(ink, result) {
    ink.fillStyle = theme.live;
    ink.globalAlpha = 0.45;
    for (const highest of [true, false]) {
        let last = chart.left;
        ink.beginPath();
        ink.moveTo(chart.left, chart.bottom);
        eachStep(result.live, result.end, (x, to, first, low, high) => {
            const y = yOf(highest ? high : low);
            ink.lineTo(x, y);
            ink.lineTo(last = to, y);
        });
        ink.lineTo(last, chart.bottom);
        ink.fill();
    }
    ink.globalAlpha = 1;
}

/* Pending bytes are a dotted line from zero; they are part of the free bytes. */
function drawPending(ink, result, colour) {
    ink.setLineDash([2, 3]);
    ink.beginPath();
    eachStep(result.pending, result.end, (x, to, first, low, high) => { ink.lineTo(x, yOf(high)); ink.lineTo(to, yOf(high)); });
    ink.strokeStyle = colour;
    ink.stroke();
    ink.setLineDash([]);
}

/* Fills the space between the lines of two strategies with the colour of the one that reserves more. */
function drawDifference(ink, one, other) {
    ink.globalAlpha = 0.28;
    eachStep(one.reserved, Math.min(one.end, other.end), (x, to, first) => {
        const second = other.reserved.at(eventAt(x)), more = first > second ? one : other;
        ink.fillStyle = lineColour(more.index);
        ink.fillRect(x, yOf(Math.max(first, second)), to - x, yOf(Math.min(first, second)) - yOf(Math.max(first, second)));
    });
    ink.globalAlpha = 1;
}

function drawReserved(ink, result) {
    const colour = lineColour(result.index), inView = event => event >= view.from && event < view.to;
    ink.strokeStyle = colour;
    ink.lineWidth = 1.8;
    ink.lineJoin = "round";
    ink.beginPath();
    eachStep(result.reserved, result.end, (x, to, first, low, high, last) => {
        ink.lineTo(x, yOf(first));
        if (low !== high) { ink.lineTo(x, yOf(low)); ink.lineTo(x, yOf(high)); }
        ink.lineTo(to, yOf(last));
    });
    ink.stroke();
    if (result.hasPending) drawPending(ink, result, colour);
    const worst = clamp(result.raw.worst_event, 0, result.end);
    if (inView(worst)) {
        dot(ink, colour, 5, xOf(worst + 0.5), yOf(result.reserved.at(worst)));
        dot(ink, theme.panel, 3, xOf(worst + 0.5), yOf(result.reserved.at(worst)));
    }
    if (result.raw.oom && inView(result.end)) {
        const x = xOf(result.end + 0.5), y = yOf(result.reserved.at(result.end));
        line(ink, colour, 2.5, x - 5, y - 5, x + 5, y + 5);
        line(ink, colour, 2.5, x - 5, y + 5, x + 5, y - 5);
    }
}

/* The recorded time of an event, in nanoseconds since the first of the file: the page has the times of some events. Events
 * before the first of these are of other devices, and get the time of the first. */
function timeOf(event) {
    const { times } = trace.raw;
    let low = 0;
    for (let high = times.length - 1; low < high;) {
        const middle = (low + high + 1) >> 1;
        if (times[middle][0] <= event) low = middle;
        else high = middle - 1;
    }
    const [from, start] = times[low], [to, end] = times[Math.min(low + 1, times.length - 1)];
    return to > from ? start + (end - start) * Math.max(0, event - from) / (to - from) : start;
}

function drawAxes(ink) {
    const step = 2 ** Math.floor(Math.log2((chart.most - chart.least) / 4));
    for (let value = Math.ceil(chart.least / step) * step; value <= chart.most; value += step) {
        const y = Math.round(yOf(value)) + 0.5;
        line(ink, theme.line, 1, chart.left, y, chart.right, y);
        write(ink, theme.muted, "right", bytes(value), chart.left - 8, y);
    }
    const wanted = (view.to - view.from) / Math.max(2, (chart.right - chart.left) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const stride = Math.max(1, [1, 2, 5, 10].map(times => times * power).find(value => value >= wanted));
    for (let event = Math.ceil(view.from / stride) * stride; event < view.to; event += stride) {
        const x = Math.round(xOf(event + 0.5)) + 0.5;
        line(ink, theme["strong-line"], 1, x, chart.bottom, x, chart.bottom + 4);
        write(ink, theme.muted, "center", count(event), x, chart.bottom + 13);
        if (trace.raw.times.length > 0) write(ink, theme.muted, "center", nanoseconds(timeOf(event)), x, chart.bottom + 29);
    }
    write(ink, theme.muted, "left", "event", 0, chart.bottom + 13);
    if (trace.raw.times.length > 0) write(ink, theme.muted, "left", "time", 0, chart.bottom + 29);
}

/* Draws phases as bands above the plot, in up to three lanes, and single marks below. Names appear if they fit. */
function drawMarks(ink) {
    const { phases, instants, lanes } = trace.marks, drawnTo = [-1, -1, -1], turns = [0, 0, 0];
    for (const { from, to, name, lane } of phases) {
        if (lane >= lanes) continue;
        const shade = turns[lane]++ % 2 ? theme["band-other"] : theme.band, y = 8 + lane * LANE;
        const x = clamp(xOf(from), chart.left, chart.right), end = clamp(xOf(to), chart.left, chart.right);
        const wide = end - x, sharp = Math.round(x) + 0.5;
        if (wide <= 0 || end < drawnTo[lane] + 1) continue;
        drawnTo[lane] = end;
        ink.fillStyle = shade;
        ink.fillRect(x, y, Math.max(1, wide - 1), LANE - 2);
        if (lane === 0 && wide > 12) line(ink, theme["band-other"], 1, sharp, y, sharp, chart.bottom);
        if (wide < 14 || ink.measureText(name).width > wide - 6) continue;
        write(ink, theme.muted, "left", name, x + 4, y + LANE / 2 - 1);
    }
    const visible = instants.filter(mark => mark.event >= view.from && mark.event < view.to), y = 8 + lanes * LANE;
    let writtenTo = 0;
    for (const mark of visible) {
        const x = Math.round(xOf(mark.event + 0.5)) + 0.5;
        const text = mark.name.length > 24 ? mark.name.slice(0, 23) + "\u2026" : mark.name;
        line(ink, theme["strong-line"], 1, x, y + 2, x, visible.length <= 24 ? chart.bottom : y + LANE - 4);
        if (x < writtenTo || visible.length > 200 || x + ink.measureText(text).width + 4 > chart.right) continue;
        write(ink, theme.muted, "left", text, x + 4, y + LANE / 2 - 1);
        writtenTo = x + ink.measureText(text).width + 10;
    }
}

/* Draws the chosen event, the pointer and a range that is being dragged, on the canvas above the chart. */
function drawChartPointer() {
    const ink = fit(chart.over, chart.width, chart.bottom + 38), { drag, hover, event } = view;
    const upright = (at, colour, width) => {
        const x = Math.round(xOf(at + 0.5));
        line(ink, colour, width, x, chart.top - 6, x, chart.bottom);
    };
    if (drag && drag.moved && drag.pan < 0) {
        ink.globalAlpha = 0.18;
        ink.fillStyle = theme.accent;
        ink.fillRect(drag.from, chart.top, drag.to - drag.from, chart.bottom - chart.top);
        ink.globalAlpha = 1;
    }
    if (event >= view.from && event < view.to) {
        upright(event, theme.accent, 2);
        dot(ink, theme.accent, 4, Math.round(xOf(event + 0.5)), chart.top - 7);
    }
    if (view.block >= 0) drawStackBlock(ink, view.block, theme.accent);
    if (hover && hover.block >= 0 && hover.block !== view.block) drawStackBlock(ink, hover.block, theme.ink);
    if (!hover || hover.event === undefined) return;
    upright(hover.event, theme.muted, 1);
    for (const { end, index, reserved } of shownResults()) {
        if (hover.event <= end) dot(ink, lineColour(index), 3.5, xOf(hover.event + 0.5), yOf(reserved.at(hover.event)));
    }
}

function fillDifference() {
    const text = differenceAt(view.event);
    byId("difference").textContent = text ? "At event " + count(view.event) + " " + text + "." : "";
}

/* Tells which of two shown strategies reserves more after an event; "" if not two are shown, or one ran out of memory. */
function differenceAt(event) {
    const [one, other, third] = shownResults();
    if (!other || third || event > Math.min(one.end, other.end)) return "";
    const by = one.reserved.at(event) - other.reserved.at(event), [more, less] = by > 0 ? [one, other] : [other, one];
    return by === 0 ? one.raw.strategy + " and " + other.raw.strategy + " reserve the same"
        : more.raw.strategy + " reserves " + bytes(Math.abs(by)) + " more than " + less.raw.strategy;
}

function hoverChart(pointer, event) {
    const box = chart.base.getBoundingClientRect(), live = view.liveShown ? trace.longest : null;
    const block = blockUnder(pointer.clientX - box.left, pointer.clientY - box.top);
    const rows = [];
    if (live && event <= live.end) rows.push(["live", bytes(live.live.at(event)), theme.live]);
    for (const { raw, end, index, reserved, pending, hasPending } of shownResults()) {
        const text = event <= end ? bytes(reserved.at(event)) + " reserved" : "out of memory";
        rows.push([raw.strategy, text, lineColour(index)]);
        if (hasPending && event <= end) rows.push(["", bytes(pending.at(event)) + " pending"]);
    }
    const difference = differenceAt(event);
    if (difference) rows.push(["difference", difference]);
    if (block >= 0) rows.push(["block", count(block), groupColour(groupsInUse().keys[block])], ...tipOfBlock(block, 6));
    view.hover = { event, block };
    showTip(pointer, "Event " + count(event) + ": " + describeEvent(event), rows);
    redraw();
}

/* Shows fewer or more events; the event keeps its place. */
function zoomEvents(factor, event) {
    const part = (event - view.from) / (view.to - view.from), width = Math.round((view.to - view.from) * factor);
    const from = Math.round(event - part * width);
    showEvents(from, from + clamp(width, Math.min(4, trace.events), trace.events));
}

function panEvents(part) {
    const width = view.to - view.from, by = Math.sign(part) * Math.max(1, Math.round(Math.abs(part) * width));
    showEvents(view.from + by, view.to + by);
}

/* Moves the events in view with the pointer that drags them. */
function panTo({ from, to, pan }) {
    const width = view.to - view.from, first = Math.round(pan - (to - from) / (chart.right - chart.left) * width);
    showEvents(first, first + width);
}

/* The wheel alone scrolls the page. With Ctrl, or the gesture of a touchpad, it zooms; sideways or with Shift it pans. */
function wheelOnChart(wheel) {
    const across = wheel.shiftKey && wheel.deltaX === 0 ? wheel.deltaY : wheel.deltaX;
    const sideways = wheel.shiftKey || Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY);
    if (!wheel.ctrlKey && !sideways) return;
    wheel.preventDefault();
    const box = chart.base.getBoundingClientRect();
    if (wheel.ctrlKey) zoomEvents(2 ** (clamp(wheel.deltaY, -200, 200) / 200), eventAt(wheel.clientX - box.left));
    else panEvents(clamp(across, -200, 200) / 1000);
}

function keyOnChart(key) {
    const middle = view.event >= view.from && view.event < view.to ? view.event : (view.from + view.to) >> 1;
    const actions = {
        ArrowLeft: () => key.shiftKey ? panEvents(-0.2) : chooseEvent(view.event - 1),
        ArrowRight: () => key.shiftKey ? panEvents(0.2) : chooseEvent(view.event + 1),
        PageUp: () => chooseEvent(view.event - Math.ceil((view.to - view.from) / 20)),
        PageDown: () => chooseEvent(view.event + Math.ceil((view.to - view.from) / 20)),
        Home: () => chooseEvent(0), End: () => chooseEvent(trace.events - 1),
        "+": () => zoomEvents(0.5, middle), "=": () => zoomEvents(0.5, middle), "-": () => zoomEvents(2, middle),
        0: () => showEvents(0, trace.events), Escape: () => chooseBlock(-1),
        Enter: () => chooseBlock(trace.allocatedAt[view.event] >= 0 ? trace.allocatedAt[view.event] : trace.freedAt[view.event]),
    };
    if (!actions[key.key] || key.ctrlKey || key.altKey || key.metaKey) return;
    key.preventDefault();
    actions[key.key]();
}

function listenToChart() {
    const canvas = chart.base;
    const xAt = pointer => clamp(pointer.clientX - canvas.getBoundingClientRect().left, chart.left, chart.right);
    let before = 0, clicked = -1000;
    canvas.onpointerdown = pointer => {
        if (pointer.button > 1) return;
        pointer.preventDefault();
        canvas.focus({ preventScroll: true });
        canvas.setPointerCapture(pointer.pointerId);
        const pan = pointer.shiftKey || pointer.button === 1 ? view.from : -1;
        view.drag = { from: xAt(pointer), to: xAt(pointer), moved: false, pan };
    };
    canvas.onpointermove = pointer => {
        if (view.drag) view.drag.to = xAt(pointer);
        if (view.drag && Math.abs(view.drag.to - view.drag.from) > 4) view.drag.moved = true;
        if (view.drag && view.drag.pan >= 0) panTo(view.drag);
        hoverChart(pointer, eventAt(xAt(pointer)));
    };
    canvas.onpointerup = pointer => {
        const drag = view.drag;
        view.drag = null;
        if (!drag || drag.pan >= 0) return;
        if (drag.moved) {
            const ends = [eventAt(drag.from), eventAt(drag.to)];
            showEvents(Math.min(...ends), Math.max(...ends) + 1);
        } else {
            if (pointer.timeStamp - clicked > 500) before = view.event;
            clicked = pointer.timeStamp;
            const box = canvas.getBoundingClientRect(), block = blockUnder(drag.from, pointer.clientY - box.top);
            chooseEvent(eventAt(drag.from));
            if (block >= 0) chooseBlock(block);
        }
    };
    canvas.addEventListener("wheel", wheelOnChart, { passive: false });
    canvas.onkeydown = keyOnChart;
    byId("closer").onclick = () => zoomEvents(0.5, (view.from + view.to) >> 1);
    byId("wider").onclick = () => zoomEvents(2, (view.from + view.to) >> 1);
    canvas.onpointercancel = () => { view.drag = null; leave(); };
    canvas.onpointerleave = leave;
    /* The two clicks of a double click chose an event: restore the previous choice. */
    canvas.ondblclick = () => { chooseEvent(before); showEvents(0, trace.events); };
}

function fillLegend() {
    const toggle = (text, colour, shown, set) => el("button", {
        className: shown ? "chip" : "chip off", "aria-pressed": shown,
        onclick: () => { set(!shown); keepFocus(byId("legend"), fillLegend); redraw("chart", "maps"); },
    }, swatch(colour), el("span", null, text));
    const chips = trace.results.map(result =>
        toggle(result.raw.strategy, lineColour(result.index), result.shown, on => { result.shown = on; }));
    chips.unshift(toggle("live", theme.live, view.liveShown, on => { view.liveShown = on; }));
    byId("legend").replaceChildren(...chips);
}

/* Refills a group of buttons and keeps the focus on the same button. */
function keepFocus(group, fill) {
    const focused = [...group.children].indexOf(document.activeElement);
    fill();
    if (focused >= 0) group.children[focused].focus();
}
