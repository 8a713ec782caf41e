/* maps.js: one memory map for each strategy. */

const GUTTER = 64;
const PITCHES = { 4: 34, 8: 26, 16: 20, 32: 15, 64: 11, 128: 8 }; /* rows of the longest map: pixels from row to row */
const FIGURES = ["Reserved", "Requested", "Rounding", "Free", "Free ranges", "Largest free range",
    "External fragmentation", "Pending"];

const pitch = () => PITCHES[view.rows];
const rowHeight = () => pitch() - (pitch() > 12 ? 4 : 2);

/* One panel for each strategy: title, map, figures, histogram. */
function makePanel(result) {
    const name = result.raw.strategy;
    const canvas = label => el("canvas", { role: "img", "aria-label": label + " of " + name });
    const panel = {
        result, base: canvas("Memory map, keys + - 0 and arrows move and zoom,"), over: el("canvas", { "aria-hidden": "true" }),
        histogram: canvas("Free bytes by size of the free range"), note: el("span", { className: "bad" }),
        values: FIGURES.map(() => el("dd")), raster: el("canvas"), pixels: new Uint32Array(0), cells: 1,
        width: 0, perRow: 1, rows: 1, first: 0, dragged: false,
    };
    const figures = FIGURES.map((figure, i) => el("div", null, el("dt", null, figure), panel.values[i]));
    const about = "Where fragmentation sits: number of free ranges by size, heights by bytes";
    panel.node = el("section", { className: "card panel", "aria-label": name },
        el("div", { className: "row" }, el("h3", null, swatch(lineColour(result.index)), name), panel.note),
        el("div", { className: "picture" }, panel.base, panel.over),
        el("div", { className: "below" }, el("dl", { className: "numbers" }, ...figures),
            el("figure", { className: "histogram" }, el("figcaption", null, about), panel.histogram)));
    panel.base.tabIndex = 0;
    panel.base.onpointermove = pointer => hoverMap(panel, pointer);
    listenToDrag(panel);
    panel.base.onclick = pointer => {
        if (!panel.dragged) hoverMap(panel, pointer);
        if (!panel.dragged && view.hover && view.hover.block >= 0) chooseBlock(view.hover.block);
    };
    panel.base.addEventListener("wheel", wheel => wheelOnMap(panel, wheel), { passive: false });
    panel.base.onkeydown = keyOnMap;
    panel.histogram.onpointermove = pointer => hoverHistogram(panel, pointer);
    panel.base.onpointerleave = panel.histogram.onpointerleave = leave;
    return panel;
}

function drawMaps() {
    fillHolders();
    for (const panel of panels) panel.node.hidden = !panel.result.shown;
    const shown = panels.filter(panel => panel.result.shown && isLoaded(panel.result));
    const peak = Math.max(512, ...shown.map(panel => panel.result.mapPeak));
    const power = 2 ** Math.floor(Math.log2(peak / view.rows));
    const whole = [1, 1.25, 1.5, 1.75, 2].map(times => times * power).find(row => row * view.rows >= peak);
    view.mapSpan = whole * view.rows;
    const perRow = whole / 2 ** view.mapZoom, first = view.mapFrom;
    byId("whole-map").disabled = view.mapZoom === 0;
    const states = shown.map(panel => stateAt(panel.result, view.event)), classes = states.map(freeClasses);
    const tallest = Math.max(1, ...classes.map(each => Math.max(...each.bytes)));
    /* Widths are read before any change of the page, so that the browser computes its layout once. */
    const widths = shown.map(panel => [panel.base, panel.histogram].map(canvas => canvas.parentElement.clientWidth));
    byId("maps-about").textContent = "Regions end to end in the order of their addresses; live blocks coloured, free " +
        "ranges hatched. All maps have one scale: a row is " + bytes(perRow) +
        (view.mapZoom > 0 ? ", from byte " + bytes(first) + " on" : "") +
        ". Pale is what the strategy reserves at another moment.";
    shown.forEach((panel, i) => {
        const rows = clamp(Math.ceil((panel.result.mapPeak - first) / perRow), 1, view.rows), [width, histogramWidth] = widths[i];
        Object.assign(panel, { perRow, rows, width, first });
        drawMap(panel, states[i]);
        drawHistogram(panel, classes[i], tallest, classOf(peak), histogramWidth);
        fillPanel(panel, states[i]);
    });
}

function fillPanel(panel, state) {
    const { raw, end } = panel.result, notes = [];
    const unreachable = state.unused > 0 ? (100 - 100 * state.largest / state.unused).toFixed(1) + " %" : DASH;
    const texts = [bytes(state.reserved), bytes(state.requested), bytes(state.handed - state.requested),
        bytes(state.unused), count(state.ranges), bytes(state.largest), unreachable,
        raw.strategy === "recorded" ? DASH : bytes(panel.result.pending.at(Math.min(view.event, end)))];
    texts.forEach((text, i) => { panel.values[i].textContent = text; });
    if (raw.oom && view.event >= end) notes.push("Out of memory at event " + count(raw.oom.event));
    if (raw.oom && view.event > end) notes.push("the map stays at that moment");
    if (state.overlaps) notes.push(plural(state.overlaps, "block") + " overlapping another");
    if (state.outside) notes.push(plural(state.outside, "block") + " outside every region");
    panel.note.textContent = notes.join("; ");
}

/* Returns a function from a block's position in address order to its packed colour. */
function colouring(result) {
    if (view.colour === "age") {
        const steps = 63, step = steps / Math.log(1 + trace.events), { state, trace: { alloc } } = result;
        const colours = Uint32Array.from({ length: steps + 1 }, (_, age) => ageColour(age / steps));
        const pale = packed(theme["strong-line"]), on = filterOn();
        return at => on && !matches(at) ? pale
            : colours[alloc[at] < 0 ? steps : Math.floor(Math.log(1 + state.event - alloc[at]) * step)];
    }
    return blockColours(trace[view.colour]);
}

/* Paints the axis as a strip of one pixel per cell. A cell that several blocks share takes their mean colour and shows
 * the hatching in proportion to its free part, but every block stays visible. Broad blocks end in a thin seam. */
function paintStrip(pixels, result, start, perCell) {
    const { state, capacity } = result, colourOf = colouring(result), broad = 6 * devicePixelRatio;
    let cell = -1, cover = 0, red = 0, green = 0, blue = 0;
    const blend = (at, part, colour) => {
        if (at !== cell) {
            const alpha = Math.round(255 * clamp(cover, 0.45, 1));
            if (cover > 0) pixels[cell] = (alpha << 24 | blue / cover << 16 | green / cover << 8 | red / cover) >>> 0;
            cell = at;
            cover = red = green = blue = 0;
        }
        cover += part;
        red += part * (colour & 255);
        green += part * (colour >> 8 & 255);
        blue += part * (colour >> 16 & 255);
    };
    pixels.fill(0);
    for (let i = 0; i < state.blocks; i++) {
        const at = state.block[i], begin = (state.position[i] - start) / perCell, end = begin + capacity[at] / perCell;
        if (end <= 0) continue;
        if (begin >= pixels.length) break;
        const from = Math.max(0, begin), to = Math.min(end, pixels.length);
        const colour = colourOf(at), first = Math.floor(from), last = Math.floor(to);
        blend(first, Math.min(to, first + 1) - from, colour);
        if (last === first) continue;
        pixels.fill(colour, first + 1, last);
        if (to - from >= broad) pixels[last - 1] = (colour & 0xffffff | 0x60000000) >>> 0;
        if (to > last && last < pixels.length) blend(last, to - last, colour);
    }
    blend(-1, 0, 0);
}

/* Folds the strip into rows. All coordinates except those of labels are in screen pixels, so that cells stay sharp. */
function drawMap(panel, state) {
    const ratio = devicePixelRatio, ink = fit(panel.base, panel.width, panel.rows * pitch());
    const left = Math.round(GUTTER * ratio), tall = Math.round(rowHeight() * ratio);
    const cells = Math.max(1, Math.floor((panel.width - GUTTER) * ratio)), perCell = panel.perRow / cells;
    const top = row => Math.round(row * pitch() * ratio);
    if (panel.pixels.length !== cells * panel.rows) {
        panel.pixels = new Uint32Array(cells * panel.rows);
        Object.assign(panel.raster, { width: cells, height: panel.rows });
    }
    panel.cells = cells;
    paintStrip(panel.pixels, panel.result, panel.first, perCell);
    const image = new ImageData(new Uint8ClampedArray(panel.pixels.buffer), cells, panel.rows);
    panel.raster.getContext("2d").putImageData(image, 0, 0);

    const fill = (from, to, style) => {
        ink.fillStyle = style;
        for (let row = Math.max(0, Math.floor(from / cells)); row < panel.rows && row * cells < to; row++) {
            const a = Math.max(0, from - row * cells), b = Math.min(cells, to - row * cells);
            ink.fillRect(left + a, top(row), b - a, tall);
        }
    };
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.imageSmoothingEnabled = false;
    fill(0, (panel.result.mapPeak - panel.first) / perCell, theme.track);
    fill(0, (state.reserved - panel.first) / perCell, theme.hatching);
    for (let row = 0; row < panel.rows; row++)
        ink.drawImage(panel.raster, 0, row, cells, 1, left, top(row), cells, tall);
    /* The gap between two regions is taken from the end of the first, so that positions stay exact. */
    for (let i = 1; i < state.regions; i++) {
        const at = state.regionPosition[i], next = i + 1 < state.regions ? state.regionPosition[i + 1] : state.reserved;
        if (Math.min(at - state.regionPosition[i - 1], next - at) < 6 * ratio * perCell) continue;
        const end = Math.round((at - panel.first) / perCell);
        fill(end - Math.round(1.5 * ratio), end, theme.panel);
    }
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (let row = 0; row < panel.rows; row += Math.ceil(13 / pitch()))
        write(ink, theme.muted, "right", bytes(panel.first + row * panel.perRow), GUTTER - 8, row * pitch() + rowHeight() / 2 + 0.5);
}

/* The last index whose position is at or before a byte, or -1. */
function lastBefore(positions, length, value) {
    let low = 0;
    for (let high = length; low < high;) {
        const middle = (low + high) >> 1;
        if (positions[middle] <= value) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

/* The first byte of the cell under the pointer; NaN outside of the map. */
function byteUnder(panel, pointer) {
    const box = panel.base.getBoundingClientRect(), row = Math.floor((pointer.clientY - box.top) / pitch());
    const cell = Math.floor((pointer.clientX - box.left - GUTTER) * devicePixelRatio);
    const inside = cell >= 0 && cell < panel.cells && row >= 0 && row < panel.rows;
    return inside ? panel.first + (row * panel.cells + cell) * panel.perRow / panel.cells : NaN;
}

/* Describes the block or range under the pointer. A block under the pixel has priority over a free range, so that small
 * blocks can be found. */
function hoverMap(panel, pointer) {
    const { result } = panel, { state, address, capacity } = result, perCell = panel.perRow / panel.cells;
    const from = byteUnder(panel, pointer);
    if (Number.isNaN(from) || from >= state.reserved) return leave();
    const last = lastBefore(state.position, state.blocks, from + perCell - 1e-6), at = state.block[last];
    const range = lastBefore(state.rangePosition, state.ranges, from + perCell / 2);
    const region = state.region[lastBefore(state.regionPosition, state.regions, from + perCell / 2)];
    let title = "Region", rows = [];
    if (last >= 0 && state.position[last] + capacity[at] > from) {
        const id = at, started = last - lastBefore(state.position, state.blocks, from);
        title = "Live block " + count(id);
        rows.push(["address", hex(address[at])], ["size", exactly(capacity[at])], ...tipOfBlock(id, 10));
        if (started > 1) rows.push(["here", count(started) + " blocks start under this pixel"]);
        view.hover = { block: id };
    } else if (range >= 0) {
        title = "Free range";
        rows.push(["address", hex(state.rangeAddress[range])], ["size", exactly(state.rangeSize[range])]);
        view.hover = { panel, range };
    }
    rows.push(["region", hex(result.regionAddress[region]) + ", " + bytes(result.regionSize[region])]);
    showTip(pointer, title, rows);
    redraw();
}

/* Outlines the chosen block, and the block or range under the pointer; a block in every map, at the address that each
 * strategy chose. */
function drawMapPointers() {
    for (const panel of panels.filter(each => each.result.shown && each.result.address)) {
        const { state, capacity } = panel.result, { hover } = view;
        const ink = fit(panel.over, panel.width, panel.rows * pitch());
        if (hover && hover.panel === panel)
            outline(ink, panel, state.rangePosition[hover.range], state.rangeSize[hover.range], theme.ink);
        const outlined = new Map([[view.block, theme.accent]]);
        if (hover && hover.block >= 0) outlined.set(hover.block, theme.ink);
        outlined.delete(-1);
        for (let i = 0; outlined.size > 0 && i < state.blocks; i++) {
            const at = state.block[i], colour = outlined.get(at);
            if (colour !== undefined) outline(ink, panel, state.position[i], capacity[at], colour);
        }
    }
}

function outline(ink, panel, position, size, colour) {
    const scale = (panel.width - GUTTER) / panel.perRow, from = position - panel.first;
    const lastRow = Math.min(panel.rows, Math.ceil((from + size) / panel.perRow)) - 1;
    for (let row = Math.max(0, Math.floor(from / panel.perRow)); row <= lastRow; row++) {
        const start = row * panel.perRow;
        const a = Math.max(0, from - start), b = Math.min(panel.perRow, from + size - start);
        const width = Math.max(4, (b - a) * scale + 3);
        for (const [stroke, thick] of [[theme.panel, 3.5], [colour, 1.5]]) {
            ink.strokeStyle = stroke;
            ink.lineWidth = thick;
            ink.strokeRect(GUTTER + a * scale - 1.5, row * pitch() + 0.5, width, rowHeight() - 1);
        }
    }
}

/* --- the part of the address axis in view --- */

/* Zooms all maps by a power of two; the byte at `position` keeps its place. */
function zoomMaps(steps, position) {
    const zoom = clamp(view.mapZoom + steps, 0, 20), part = (position - view.mapFrom) / mapSpan();
    view.mapZoom = zoom;
    moveMaps(position - part * mapSpan());
}

function moveMaps(from) {
    const row = view.mapSpan / view.rows / 2 ** view.mapZoom;
    view.mapFrom = clamp(Math.round(from / row) * row, 0, view.mapSpan - mapSpan());
    redraw("maps");
}

const mapSpan = () => view.mapSpan / 2 ** view.mapZoom;

function wheelOnMap(panel, wheel) {
    const sideways = wheel.shiftKey || Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY);
    if (!wheel.ctrlKey && !sideways) return;
    wheel.preventDefault();
    if (wheel.ctrlKey) zoomMaps(wheel.deltaY < 0 ? 1 : -1, byteUnder(panel, wheel));
    else moveMaps(view.mapFrom + Math.sign(wheel.deltaX || wheel.deltaY) * mapSpan() / view.rows);
    leave();
}

/* A drag up or down moves zoomed maps by rows. */
function listenToDrag(panel) {
    let from = null;
    panel.base.onpointerdown = pointer => {
        panel.dragged = false;
        if (view.mapZoom === 0 || pointer.button !== 0) return;
        from = { y: pointer.clientY, first: view.mapFrom };
        panel.base.setPointerCapture(pointer.pointerId);
    };
    panel.base.addEventListener("pointermove", pointer => {
        const rows = from ? Math.round((from.y - pointer.clientY) / pitch()) : 0;
        panel.dragged = panel.dragged || (from !== null && rows !== 0);
        if (from && rows !== 0) moveMaps(from.first + rows * mapSpan() / view.rows);
    });
    panel.base.onpointerup = panel.base.onpointercancel = () => { from = null; };
}

function keyOnMap(key) {
    const row = mapSpan() / view.rows, middle = view.mapFrom + mapSpan() / 2;
    const actions = {
        ArrowUp: () => moveMaps(view.mapFrom - row), ArrowDown: () => moveMaps(view.mapFrom + row),
        PageUp: () => moveMaps(view.mapFrom - mapSpan()), PageDown: () => moveMaps(view.mapFrom + mapSpan()),
        "+": () => zoomMaps(1, middle), "=": () => zoomMaps(1, middle), "-": () => zoomMaps(-1, middle),
        0: () => zoomMaps(-20, 0), Escape: () => chooseBlock(-1),
    };
    if (!actions[key.key] || key.ctrlKey || key.altKey || key.metaKey) return;
    if (view.mapZoom === 0 && /^(Arrow|Page)/.test(key.key)) return; /* nothing to pan: the page scrolls */
    key.preventDefault();
    actions[key.key]();
}

/* Fills the legend of colours. A click shows one group alone in colour. */
function fillKeys() {
    if (view.colour === "age") {
        const text = words => el("span", { className: "muted" }, words), ramp = AGES[theme.name].join();
        byId("keys").replaceChildren(text("just allocated"),
            el("div", { className: "ramp", style: "background:linear-gradient(90deg," + ramp + ")" }),
            text("old (logarithm of the age in events)"));
        return;
    }
    const chip = (name, key) => el("button", {
        className: view.focus < 0 || view.focus === key ? "chip" : "chip off", "aria-pressed": view.focus === key,
        title: "Show only " + name + " in colour",
        onclick: () => {
            view.focus = view.focus === key ? -1 : key;
            keepFocus(byId("keys"), fillKeys);
            fillFilter();
            redraw("chart", "maps");
        },
    }, swatch(groupColour(key)), el("span", null, name));
    byId("keys").replaceChildren(...trace[view.colour].names.map(chip).filter(Boolean));
}
