/* maps.js: one memory map for each strategy. */

const GUTTER = 64;
const PITCHES = { 4: 34, 8: 26, 16: 20, 32: 15, 64: 11, 128: 8 }; /* rows of the longest map: pixels from row to row */
const FIGURES = ["Reserved", "Requested", "Rounding", "Free", "Free ranges", "Largest free range",
    "External fragmentation"];

const pitch = () => PITCHES[view.rows];
const rowHeight = () => pitch() - (pitch() > 12 ? 4 : 2);

/* One panel for each strategy: title, map, figures, histogram. */
function makePanel(result) {
    const name = result.raw.strategy;
    const canvas = label => el("canvas", { role: "img", "aria-label": label + " of " + name });
    const panel = {
        result, base: canvas("Memory map"), over: el("canvas", { "aria-hidden": "true" }),
        histogram: canvas("Free bytes by size of the free range"), note: el("span", { className: "bad" }),
        values: FIGURES.map(() => el("dd")), raster: el("canvas"), pixels: new Uint32Array(0), cells: 1,
        width: 0, perRow: 1, rows: 1,
    };
    const figures = FIGURES.map((figure, i) => el("div", null, el("dt", null, figure), panel.values[i]));
    const about = "Where fragmentation sits: number of free ranges by size, heights by bytes";
    panel.node = el("section", { className: "card panel", "aria-label": name },
        el("div", { className: "row" }, el("h3", null, swatch(lineColour(result.index)), name), panel.note),
        el("div", { className: "picture" }, panel.base, panel.over),
        el("div", { className: "below" }, el("dl", { className: "numbers" }, ...figures),
            el("figure", { className: "histogram" }, el("figcaption", null, about), panel.histogram)));
    panel.base.onpointermove = pointer => hoverMap(panel, pointer);
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
    const perRow = [1, 1.25, 1.5, 1.75, 2].map(times => times * power).find(row => row * view.rows >= peak);
    const states = shown.map(panel => stateAt(panel.result, view.event)), classes = states.map(freeClasses);
    const tallest = Math.max(1, ...classes.map(each => Math.max(...each.bytes)));
    /* Widths are read before any change of the page, so that the browser computes its layout once. */
    const widths = shown.map(panel => [panel.base, panel.histogram].map(canvas => canvas.parentElement.clientWidth));
    byId("maps-about").textContent = "Regions end to end in the order of their addresses; live blocks coloured, free " +
        "ranges hatched. All maps have one scale: a row is " + bytes(perRow) +
        ". Pale is what the strategy reserves at another moment.";
    shown.forEach((panel, i) => {
        const rows = Math.max(1, Math.ceil(panel.result.mapPeak / perRow)), [width, histogramWidth] = widths[i];
        Object.assign(panel, { perRow, rows, width });
        drawMap(panel, states[i]);
        drawHistogram(panel, classes[i], tallest, classOf(peak), histogramWidth);
        fillPanel(panel, states[i]);
    });
}

function fillPanel(panel, state) {
    const { raw, end } = panel.result, notes = [];
    const unreachable = state.unused > 0 ? (100 - 100 * state.largest / state.unused).toFixed(1) + " %" : DASH;
    const texts = [bytes(state.reserved), bytes(state.requested), bytes(state.handed - state.requested),
        bytes(state.unused), count(state.ranges), bytes(state.largest), unreachable];
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
        return at => colours[alloc[at] < 0 ? steps : Math.floor(Math.log(1 + state.event - alloc[at]) * step)];
    }
    const pale = packed(theme["strong-line"]), { keys } = trace[view.colour];
    const colours = Uint32Array.from({ length: GROUP_LIMIT + 1 },
        (_, key) => view.focus < 0 || view.focus === key ? packed(groupColour(key)) : pale);
    return at => colours[keys[at]];
}

/* Paints the axis as a strip of one pixel per cell. A cell that several blocks share takes their mean colour and shows
 * the hatching in proportion to its free part, but every block stays visible. Broad blocks end in a thin seam. */
function paintStrip(pixels, result, perCell) {
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
        const at = state.block[i], from = state.position[i] / perCell, to = from + capacity[at] / perCell;
        const colour = colourOf(at), first = Math.floor(from), last = Math.floor(to);
        blend(first, Math.min(to, first + 1) - from, colour);
        if (last === first) continue;
        pixels.fill(colour, first + 1, last);
        if (to - from >= broad) pixels[last - 1] = (colour & 0xffffff | 0x60000000) >>> 0;
        if (to > last) blend(last, to - last, colour);
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
    paintStrip(panel.pixels, panel.result, perCell);
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
    fill(0, panel.result.mapPeak / perCell, theme.track);
    fill(0, state.reserved / perCell, theme.hatching);
    for (let row = 0; row < panel.rows; row++)
        ink.drawImage(panel.raster, 0, row, cells, 1, left, top(row), cells, tall);
    /* The gap between two regions is taken from the end of the first, so that positions stay exact. */
    for (let i = 1; i < state.regions; i++) {
        const at = state.regionPosition[i], next = i + 1 < state.regions ? state.regionPosition[i + 1] : state.reserved;
        if (Math.min(at - state.regionPosition[i - 1], next - at) < 6 * ratio * perCell) continue;
        fill(Math.round(at / perCell) - Math.round(1.5 * ratio), Math.round(at / perCell), theme.panel);
    }
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (let row = 0; row < panel.rows; row += Math.ceil(13 / pitch()))
        write(ink, theme.muted, "right", bytes(row * panel.perRow), GUTTER - 8, row * pitch() + rowHeight() / 2 + 0.5);
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

/* Describes the block or range under the pointer. A block under the pixel has priority over a free range, so that small
 * blocks can be found. */
function hoverMap(panel, pointer) {
    const { result } = panel, { state, address, capacity } = result, perCell = panel.perRow / panel.cells;
    const box = panel.base.getBoundingClientRect(), row = Math.floor((pointer.clientY - box.top) / pitch());
    const cell = Math.floor((pointer.clientX - box.left - GUTTER) * devicePixelRatio);
    const from = (row * panel.cells + cell) * perCell;
    if (cell < 0 || cell >= panel.cells || row < 0 || from >= state.reserved) return leave();
    const last = lastBefore(state.position, state.blocks, from + perCell - 1e-6), at = state.block[last];
    const range = lastBefore(state.rangePosition, state.ranges, from + perCell / 2);
    const region = state.region[lastBefore(state.regionPosition, state.regions, from + perCell / 2)];
    let title = "Region", rows = [];
    if (last >= 0 && state.position[last] + capacity[at] > from) {
        const id = at, started = last - lastBefore(state.position, state.blocks, from);
        title = "Live block " + count(id);
        rows.push(["address", hex(address[at])], ["size", exactly(capacity[at])],
            ["requested", exactly(trace.size[id])],
            ["tag", trace.tag[id] >= 0 ? trace.raw.tags[trace.tag[id]] : "none"],
            ...stackOf(trace.tag[id]).map((frame, i) => [i === 0 ? "called from" : "", frame]), ["stream", count(trace.stream[id])],
            ["allocated", trace.alloc[id] < 0 ? "before the window" : "at event " + count(trace.alloc[id])],
            ["freed", trace.free[id] === NEVER ? "not in the trace" : "at event " + count(trace.free[id])]);
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

/* Returns the first frames of a tag's call stack, from the innermost. */
function stackOf(tag) {
    const stack = tag >= 0 ? trace.raw.stacks[tag] : null, frames = stack ? stack.split("\n") : [], most = 12;
    return frames.length <= most ? frames : [...frames.slice(0, most), "and " + count(frames.length - most) + " more"];
}

/* Outlines the block or range under the pointer; a block in every map, at the address that each strategy chose. */
function drawMapPointers() {
    for (const panel of panels.filter(each => each.result.shown && each.result.address)) {
        const { state, capacity } = panel.result, { hover } = view;
        const ink = fit(panel.over, panel.width, panel.rows * pitch()), scale = (panel.width - GUTTER) / panel.perRow;
        let from = -1, size = 0;
        if (hover && hover.panel === panel) {
            from = state.rangePosition[hover.range];
            size = state.rangeSize[hover.range];
        }
        for (let i = 0; hover && hover.block !== undefined && i < state.blocks; i++) {
            if (state.block[i] !== hover.block) continue;
            from = state.position[i];
            size = capacity[state.block[i]];
            break;
        }
        const lastRow = from < 0 ? -1 : Math.min(panel.rows, Math.ceil((from + size) / panel.perRow)) - 1;
        for (let row = Math.floor(from / panel.perRow); row <= lastRow; row++) {
            const start = row * panel.perRow;
            const a = Math.max(0, from - start), b = Math.min(panel.perRow, from + size - start);
            const width = Math.max(4, (b - a) * scale + 3);
            for (const [colour, thick] of [[theme.panel, 3.5], [theme.ink, 1.5]]) {
                ink.strokeStyle = colour;
                ink.lineWidth = thick;
                ink.strokeRect(GUTTER + a * scale - 1.5, row * pitch() + 0.5, width, rowHeight() - 1);
            }
        }
    }
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
            redraw("maps");
        },
    }, swatch(groupColour(key)), el("span", null, name));
    byId("keys").replaceChildren(...trace[view.colour].names.map(chip).filter(Boolean));
}
