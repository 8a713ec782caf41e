/* data.js: the data of a trace, and its state after an event. */

/* The capacity that a recorded out-of-memory implies, or the one of --capacity; 0: neither. */
const capacityOf = raw => raw.recorded_oom && raw.recorded_oom.capacity_used ? raw.recorded_oom.capacity_bytes : data.capacity;

/* Reads what all strategies share: the blocks in the order of their birth, and the frees of each event. */
async function prepareTrace(raw, number) {
    const events = Math.max(1, raw.file_events), column = (name, read) => readColumn(number + "." + name, read);
    const prepared = { raw, events, number, marks: pairMarks(raw.marks || [], events) };
    const frees = await column("events", numbers => readEvents(prepared, numbers));
    await column("freed", numbers => readFrees(prepared, frees, numbers));
    const sizes = prepared.sizes = await column("sizes", numbers => new Float64Array(numbers.next()).map(() => numbers.next()));
    const blocks = prepared.alloc.length, most = sizes.reduce((most, size) => Math.max(most, size), 0);
    prepared.size = numbersUpTo(most, blocks);
    prepared.sort = new Uint32Array(blocks);
    await column("sort", numbers => {
        const { size, sort } = prepared;
        for (let block = 0, known = 0; block < blocks; block++) {
            sort[block] = (numbers.next() || ++known) - 1;
            size[block] = sizes[sort[block]];
        }
    });
    prepared.stream = await column("stream", numbers => new Uint32Array(blocks).map(() => numbers.next()));
    prepared.tag = await column("tag", numbers => new Int32Array(blocks).map(() => numbers.next() - 1));
    prepared.lifetimes = new Lifetimes(prepared.alloc, prepared.free);
    /* Tags of the same text differ in their call stacks only; colours and tables go by the text. */
    const firstOf = new Map(raw.tags.map((text, index) => [text, index]).reverse());
    const same = Int32Array.from(raw.tags, text => firstOf.get(text));
    prepared.sameTag = same.every((first, tag) => first === tag) ? prepared.tag
        : prepared.tag.map(tag => tag < 0 ? -1 : same[tag]);
    prepared.tags = groupBlocks(prepared, prepared.sameTag, index => index < 0 ? "no tag" : raw.tags[index]);
    prepared.streams = groupBlocks(prepared, prepared.stream, stream => "stream " + stream);
    prepared.results = [];
    for (const result of raw.results) prepared.results.push(await prepareResult(prepared, result, prepared.results.length));
    /* The chart shows the live bytes of the strategy that served the largest part of the trace. */
    prepared.longest = prepared.results.reduce((best, result) => best && best.end >= result.end ? best : result, null);
    if (prepared.longest) prepared.longest.live = liveOverTime(prepared, prepared.longest);
    return prepared;
}

/* Fills in when each block is allocated. Returns the events that free, and the latest block at each. */
function readEvents(prepared, numbers) {
    const blocks = numbers.next(), prior = numbers.next(), { events } = prepared;
    const alloc = new Int32Array(blocks).fill(-1), free = new Int32Array(blocks).fill(NEVER);
    const allocatedAt = new Int32Array(events).fill(-1), freedAt = new Int32Array(events).fill(-1);
    const event = new Int32Array(blocks), newest = new Int32Array(blocks);
    let at = 0, block = prior, frees = 0;
    while (numbers.at < numbers.bytes.length) {
        const run = numbers.next(), kind = run % 4, end = at + Math.floor(run / 4);
        for (; at < end; at++) {
            if (kind & 1) {
                alloc[block] = at;
                allocatedAt[at] = block++;
            }
            if (kind & 2) {
                event[frees] = at;
                newest[frees++] = block - 1;
            }
        }
    }
    Object.assign(prepared, { alloc, free, allocatedAt, freedAt });
    return { event: event.subarray(0, frees), newest };
}

/* Fills in when each block is freed. A number says how many blocks it lies before the latest one. */
function readFrees({ free, freedAt }, { event, newest }, numbers) {
    for (let i = 0; i < event.length; i++) {
        const block = newest[i] - numbers.next();
        freedAt[event[i]] = block;
        free[block] = event[i];
    }
}

/* Returns the blocks that the program holds after an event, in the order of their birth. */
const blocksAt = (prepared, event) => prepared.lifetimes.at(event);

/* Pairs the begin and end marks of phases by name, and finds a lane for each phase. A phase without an end mark lasts
 * until the next phase of its kind begins. */
function pairMarks(marks, events) {
    const phases = [], instants = [], open = [];
    for (const [event, kind, name] of marks) {
        const at = kind === "E" ? open.map(phase => phase.name).lastIndexOf(name) : -1;
        if (kind === "B") open.push(phases[phases.push({ from: event, to: events, name, lane: 0 }) - 1]);
        else if (at >= 0) open.splice(at, 1)[0].to = event;
        else if (kind === "I") instants.push({ event, name });
    }
    open.forEach((phase, i) => { phase.to = i + 1 < open.length ? open[i + 1].from : events; });
    let running = [], lanes = 0;
    for (const phase of phases) {
        running = running.filter(other => other.to > phase.from);
        while (running.some(other => other.lane === phase.lane)) phase.lane++;
        running.push(phase);
        lanes = Math.max(lanes, phase.lane + 1);
    }
    return { phases, instants, lanes: Math.min(3, lanes) };
}

/* Gives one colour each to the values that held the most memory for the longest time; all other values share one. The
 * values are small numbers, and -1. */
function groupBlocks(prepared, values, nameOf) {
    const { size, alloc, free, events } = prepared;
    const weight = new Float64Array(values.reduce((most, value) => value > most ? value : most, -1) + 2);
    for (let block = 0; block < values.length; block++)
        weight[values[block] + 1] += size[block] * (Math.min(free[block], events) - Math.max(0, alloc[block]) + 1);
    const known = [...weight.keys()].filter(at => weight[at] > 0);
    const ranked = known.map(at => at - 1).filter(value => value >= 0).sort((a, b) => weight[b + 1] - weight[a + 1]);
    const kept = ranked.slice(0, GROUP_LIMIT), keyOf = new Uint8Array(weight.length).fill(GROUP_LIMIT);
    kept.forEach((value, key) => { keyOf[value + 1] = key; });
    const names = kept.map(nameOf), others = known.length - kept.length;
    if (others > 0) names[GROUP_LIMIT] = others === 1 && weight[0] > 0 ? nameOf(-1) : plural(others, "other");
    const keys = new Uint8Array(values.length);
    for (let block = 0; block < keys.length; block++) keys[block] = keyOf[values[block] + 1];
    return { keys, names, known: ranked.length };
}

/* Prepares the result of one strategy: regions in the order of their addition, curves, and the arrays of the state. The
 * places of its blocks are read when they are shown (loadPlaces). */
async function prepareResult(prepared, raw, index) {
    const { events } = prepared, name = prepared.number + "." + index + ".";
    const series = await readColumn(name + "series", readSeries), lastSeen = series.event.length ? series.event.at(-1) : 0;
    const end = raw.oom ? clamp(Math.max(raw.oom.event, lastSeen), 0, events - 1) : events - 1;
    const result = { raw, trace: prepared, index, name, end, shown: raw.strategy !== "plan", series, address: null, capacity: null,
        ...await readColumn(name + "regions", readRegions) };
    const none = () => new Float64Array(0);
    result.regionLifetimes = new Lifetimes(result.added, result.removed);
    result.state = { event: -1, blocks: 0, block: new Uint32Array(0), position: none(), ranges: 0, rangeAddress: none(),
        rangeSize: none(), rangePosition: none(), regions: 0, region: new Uint32Array(0), regionPosition: none() };
    /* The series hold a few thousand points only. If the sum of the regions or blocks has the same peak, it replaces the
     * series, because the sum is exact at every event. */
    const { curve, peak } = reservedOverTime(result, events);
    result.mapPeak = peak;
    result.reserved = peak === raw.peak_reserved_bytes ? curve : new Curve(series.reserved, series.event);
    result.pending = new Curve(series.pending, series.event);
    result.hasPending = series.pending.some(value => value > 0);
    return result;
}

function readSeries(numbers) {
    const points = numbers.next(), event = new Int32Array(points);
    const [live, reserved, pending] = [0, 1, 2].map(() => new Float64Array(points));
    for (let i = 0; i < points; i++) {
        event[i] = numbers.next() + (i ? event[i - 1] : 0);
        for (const values of [live, reserved, pending]) values[i] = numbers.signed() + (i ? values[i - 1] : 0);
    }
    return { event, live, reserved, pending };
}

function readRegions(numbers) {
    const regions = numbers.next(), added = new Int32Array(regions), removed = new Int32Array(regions);
    const regionAddress = new Float64Array(regions), regionSize = new Float64Array(regions);
    const mapped = new Uint8Array(regions);
    for (let i = 0; i < regions; i++) {
        added[i] = numbers.next() + (i ? added[i - 1] : -1);
        const life = numbers.next();
        removed[i] = life ? added[i] + life - 1 : NEVER;
        regionAddress[i] = numbers.signed() + (i ? regionAddress[i - 1] + regionSize[i - 1] : 0);
        regionSize[i] = numbers.next();
        mapped[i] = numbers.next();
    }
    return { added, removed, regionAddress, regionSize, mapped };
}

/* Reads the places of the blocks with a strategy: address (-1: not placed) and capacity of each. */
async function loadPlaces(result) {
    const { sizes, sort } = result.trace, blocks = sort.length;
    const capacity = await readColumn(result.name + "capacity", numbers => {
        const values = numbersUpTo(numbers.next(), blocks), last = Float64Array.from(sizes);
        for (let block = 0; block <= blocks; block++) {
            for (const end = block + numbers.next(); block < end; block++) values[block] = last[sort[block]];
            if (block < blocks) values[block] = last[sort[block]] += numbers.signed();
        }
        return values;
    });
    let unit = 1;
    const address = await readColumn(result.name + "address", numbers => {
        unit = numbers.next();
        const last = new Float64Array(sizes.length), values = new Float64Array(blocks).fill(-1);
        for (let block = 0, before = 0; block < blocks; block++) {
            const value = numbers.next() - 1, kind = sort[block];
            if (value < 0) continue;
            before = last[kind] = (last[kind] || before) + signedOf(value);
            values[block] = before * unit;
        }
        return values;
    });
    result.state.event = -1;
    Object.assign(result, { capacity, address, unit });
}

/* True if the places of a strategy's blocks are known. If not, they are read, one strategy after the other, and the maps
 * are drawn again. */
function isLoaded(result) {
    if (result.address || result.asked) return result.address !== null;
    result.asked = true;
    loading++;
    queue = queue.then(() => loadPlaces(result)).then(() => redraw("maps"), tellProblem).finally(() => { loading--; });
    return false;
}
let queue = Promise.resolve(), loading = 0;

/* Returns the bytes of all regions over time, and their peak. */
function reservedOverTime({ added, removed, regionSize }, events) {
    const regions = added.length, steps = new Int32Array(2 * regions + 1), values = new Float64Array(2 * regions + 1);
    /* Removals in the order of their events: event * regions + region, a whole number that a double holds exactly. */
    const removals = Float64Array.from(removed, (event, region) => event * regions + region).sort();
    let sum = 0, add = 0, remove = 0, count = 0;
    for (; add < regions && added[add] < 0; add++) sum += regionSize[add];
    let peak = sum;
    for (let event = 0; event < events;) {
        for (; add < regions && added[add] <= event; add++) sum += regionSize[add];
        for (; remove < regions && removals[remove] < (event + 1) * regions; remove++) sum -= regionSize[removals[remove] % regions];
        steps[count] = event;
        values[count++] = sum;
        if (sum > peak) peak = sum;
        event = Math.min(add < regions ? added[add] : events, remove < regions ? Math.floor(removals[remove] / regions) : events);
    }
    return { curve: new Curve(values.slice(0, count), steps.slice(0, count)), peak };
}

/* Returns the live bytes over time. A request that ran out of memory changes nothing. */
function liveOverTime({ events, size, alloc, allocatedAt, freedAt }, { series, raw, end }) {
    const values = new Float64Array(raw.oom ? Math.max(1, end) : events);
    let sum = 0;
    for (let block = 0; block < alloc.length && alloc[block] < 0; block++) sum += size[block];
    let peak = sum;
    for (let event = 0; event < values.length; event++) {
        if (allocatedAt[event] >= 0) sum += size[allocatedAt[event]];
        if (freedAt[event] >= 0) sum -= size[freedAt[event]];
        values[event] = sum;
        if (sum > peak) peak = sum;
    }
    return peak === raw.peak_live_bytes ? new Curve(values) : new Curve(series.live, series.event);
}

/* Sorts indices by their addresses, which are multiples of `unit`. */
function inOrderOf(address, unit, indices) {
    const { length } = indices, places = 2 ** Math.ceil(Math.log2(length)), sorted = new Uint32Array(length);
    let lowest = Infinity, highest = 0;
    for (const index of indices) {
        lowest = Math.min(lowest, address[index]);
        highest = Math.max(highest, address[index]);
    }
    if (length < 100 || (highest - lowest) / unit * places > 2 ** 52) return indices.sort((a, b) => address[a] - address[b]);
    /* Numbers alone are sorted ten times as fast as with a function: each has the address, and below it the place. */
    const keys = Float64Array.from(indices, (index, place) => (address[index] - lowest) / unit * places + place).sort();
    for (let i = 0; i < length; i++) sorted[i] = indices[keys[i] - Math.floor(keys[i] / places) * places];
    return sorted;
}

/* Returns the state that a map shows after an event, by one walk over regions and blocks in address order. Positions
 * are bytes on an axis that holds the present regions end to end. A free range goes on from one mapping to the next, but
 * not from one region to the next, because a block may lie across adjacent mappings only. A strategy that ran out of
 * memory keeps its last state.
 */
function stateAt(result, event) {
    const { state, address, capacity, regionAddress, regionSize, mapped } = result, { size } = result.trace;
    const now = Math.min(event, result.end);
    if (state.event === now) return state;
    const block = inOrderOf(address, result.unit, blocksAt(result.trace, now).filter(at => address[at] >= 0));
    const region = inOrderOf(regionAddress, result.unit, result.regionLifetimes.at(now));
    const blocks = block.length, regions = region.length, numbers = length => new Float64Array(length);
    if (state.position.length < blocks || state.regionPosition.length < regions) {
        const most = 2 * (blocks + regions);
        Object.assign(state, { block: new Uint32Array(most), position: numbers(most), rangeAddress: numbers(most),
            rangeSize: numbers(most), rangePosition: numbers(most), region: new Uint32Array(most), regionPosition: numbers(most) });
    }
    let requested = 0, handed = 0, unused = 0, largest = 0, overlaps = 0, outside = 0;
    let position = 0, next = 0, reached = 0;
    state.event = now;
    state.blocks = state.ranges = state.regions = 0;
    let mappedTo = -1; /* end of the last region, if it is a mapping */
    const addRange = (from, to, at, start) => {
        const last = state.ranges - 1, before = last < 0 ? -1 : state.rangeAddress[last] + state.rangeSize[last];
        const joined = from === start && start === mappedTo && before === start;
        if (joined) state.rangeSize[last] += to - from;
        else {
            state.rangeAddress[state.ranges] = from;
            state.rangeSize[state.ranges] = to - from;
            state.rangePosition[state.ranges++] = at;
        }
        unused += to - from;
        largest = Math.max(largest, state.rangeSize[state.ranges - 1]);
    };
    for (let i = 0; i <= regions; i++) {
        const beyond = i === regions, at = region[i]; /* one more iteration, for blocks behind the last region */
        const start = beyond ? Infinity : regionAddress[at], stop = beyond ? Infinity : start + regionSize[at];
        if (!beyond && !mapped[at]) mappedTo = -1;
        let filled = Math.max(start, Math.min(reached, stop));
        for (; next < blocks && address[block[next]] < stop; next++) {
            const each = block[next], from = address[each];
            requested += size[each];
            handed += capacity[each];
            if (from < start) { outside++; continue; }
            if (from > filled) addRange(filled, from, position + filled - start, start);
            else if (from < filled) overlaps++;
            state.block[state.blocks] = each;
            state.position[state.blocks++] = position + from - start;
            filled = Math.max(filled, from + capacity[each]);
        }
        if (beyond) break;
        if (filled < stop) addRange(filled, stop, position + filled - start, start);
        mappedTo = mapped[at] ? stop : -1;
        state.region[state.regions] = at;
        state.regionPosition[state.regions++] = position;
        reached = Math.max(reached, filled); /* a block may lie across granules that were mapped one by one */
        position += stop - start;
    }
    return Object.assign(state, { reserved: position, requested, handed, overlaps, outside, unused, largest });
}
