/* stack.js: active memory over time. Each live block is a shape, stacked in the order of allocation.
 *
 * The picture is painted column by column: the blocks that are live at one event of the column, one on the other. Its
 * cost follows the columns and the live blocks, not the blocks of the trace.
 */

/* owner: block + 1 of each pixel, row by row from the top; 0 = none. */
const stack = { columns: 0, rows: 0, owner: new Int32Array(0), raster: el("canvas"), mask: el("canvas") };

/* Returns one event for each column: of the events that share a column, the one with the most live bytes. */
function peakEvents(columns) {
    const events = new Int32Array(columns), per = (view.to - view.from) / columns, { allocatedAt, freedAt, size } = trace;
    let sum = 0, event = view.from;
    for (let column = 0; column < columns; column++) {
        const first = view.from + Math.floor(column * per), after = view.from + Math.floor((column + 1) * per);
        let most = -Infinity;
        events[column] = first;
        for (; event < after; event++) {
            if (event > view.from && allocatedAt[event] >= 0) sum += size[allocatedAt[event]];
            if (event > view.from && freedAt[event] >= 0) sum -= size[freedAt[event]];
            if (sum > most) [most, events[column]] = [sum, event];
        }
    }
    return events;
}

/* Calls visit(column, live, count) for each column: live[0 .. count - 1] are its blocks in the order of allocation. */
function eachColumn(columns, visit) {
    const events = peakEvents(columns), { allocatedAt, free } = trace;
    let live = blocksAt(trace, events[0]).slice(), count = live.length, last = events[0];
    for (let column = 0; column < columns; column++) {
        const now = events[column];
        if (now > last) {
            let kept = 0;
            for (let i = 0; i < count; i++) if (free[live[i]] > now) live[kept++] = live[i];
            for (let event = last + 1; event <= now; event++) {
                const block = allocatedAt[event];
                if (block < 0 || free[block] <= now) continue;
                if (kept === live.length) {
                    const wider = new Uint32Array(2 * kept + 64);
                    wider.set(live);
                    live = wider;
                }
                live[kept++] = block;
            }
            count = kept;
            last = now;
        }
        visit(column, live, count);
    }
}

function paintStack(pixels, bytesPerRow) {
    const { columns, rows, owner } = stack, { size } = trace, colourOf = blockColours(groupsInUse());
    const seam = Math.round(4 * devicePixelRatio);
    eachColumn(columns, (column, live, count) => {
        let sum = -chart.least, from = 0;
        for (let i = 0; i < count; i++) {
            sum += size[live[i]];
            const to = Math.min(rows, Math.round(sum / bytesPerRow));
            if (to <= from) continue;
            const colour = colourOf(live[i]), tall = to - from >= seam;
            for (let row = from; row < to; row++) {
                const at = (rows - 1 - row) * columns + column;
                pixels[at] = colour;
                owner[at] = live[i] + 1;
            }
            if (tall) pixels[(rows - to) * columns + column] = (colour & 0xffffff | 0x90000000) >>> 0;
            from = to;
        }
    });
}

function drawStack(ink) {
    const ratio = devicePixelRatio, width = chart.right - chart.left, height = chart.bottom - chart.top;
    stack.columns = Math.max(1, Math.round(width * ratio));
    stack.rows = Math.max(1, Math.round(height * ratio));
    const pixels = new Uint32Array(stack.columns * stack.rows);
    stack.owner = new Int32Array(pixels.length);
    paintStack(pixels, (chart.most - chart.least) / stack.rows);
    Object.assign(stack.raster, { width: stack.columns, height: stack.rows });
    stack.raster.getContext("2d")
        .putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), stack.columns, stack.rows), 0, 0);
    ink.drawImage(stack.raster, chart.left, chart.top, width, height);
}

/* The block under a point of the chart, or -1. */
function blockUnder(x, y) {
    const column = Math.floor((x - chart.left) / (chart.right - chart.left) * stack.columns);
    const row = Math.floor((y - chart.top) / (chart.bottom - chart.top) * stack.rows);
    const inside = column >= 0 && column < stack.columns && row >= 0 && row < stack.rows;
    return inside && view.liveShown && view.shape === "blocks" ? stack.owner[row * stack.columns + column] - 1 : -1;
}

/* Marks the pixels of a block. */
function drawStackBlock(ink, block, colour) {
    const { columns, rows, owner, mask } = stack, column = event => (xOf(event) - chart.left) * devicePixelRatio;
    const from = clamp(Math.floor(column(trace.alloc[block])) - 1, 0, columns);
    const to = clamp(Math.ceil(column(Math.min(trace.free[block], trace.events))) + 1, 0, columns);
    if (to <= from || owner.length === 0 || view.shape !== "blocks" || !view.liveShown) return;
    const image = new ImageData(to - from, rows), pixels = new Uint32Array(image.data.buffer), packedColour = packed(colour);
    for (let row = 0; row < rows; row++)
        for (let x = from; x < to; x++)
            if (owner[row * columns + x] === block + 1) pixels[row * (to - from) + x - from] = packedColour;
    Object.assign(mask, { width: to - from, height: rows });
    mask.getContext("2d").putImageData(image, 0, 0);
    const scale = (chart.right - chart.left) / columns;
    ink.drawImage(mask, chart.left + from * scale, chart.top, (to - from) * scale, chart.bottom - chart.top);
}
