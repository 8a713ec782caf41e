/* blocks.js: how blocks look in every picture: colours by group, the filter, and the chosen block. */

/* A block matches if it passes every part. `tag` is a tag of holders.js, -1 for blocks without one; undefined: any. */
const filter = { text: "", least: 0, most: Infinity, stream: -1, tag: undefined, found: null };

const filterOn = () => filter.found !== null || filter.least > 0 || filter.most < Infinity || filter.stream >= 0
    || filter.tag !== undefined;

/* Returns true for the blocks that the filter and the chosen group of colours let through. */
function matches(block) {
    const size = trace.size[block];
    return size >= filter.least && size <= filter.most
        && (filter.stream < 0 || trace.stream[block] === filter.stream)
        && (filter.tag === undefined || trace.sameTag[block] === filter.tag)
        && (filter.found === null || filter.found[trace.tag[block] + 1] === 1);
}

/* Finds the tags whose text or call stack contains the text. */
function findTags() {
    const text = filter.text.trim().toLowerCase(), { tags, stacks } = trace.raw;
    const contains = other => other !== null && other !== undefined && other.toLowerCase().includes(text);
    filter.found = text === "" ? null
        : Uint8Array.from([contains("no tag"), ...tags.map((tag, i) => contains(tag) || contains(stacks[i]))]);
}

/* Ages belong to one moment: pictures of many moments colour by tag or stream. */
const groupsInUse = () => view.colour === "age" ? (trace.tags.known ? trace.tags : trace.streams) : trace[view.colour];

/* Returns a function from a block to its packed colour. Blocks that do not stand out are pale. */
function blockColours(groups) {
    const pale = packed(theme["strong-line"]), on = filterOn();
    const colours = Uint32Array.from({ length: GROUP_LIMIT + 1 },
        (_, key) => view.focus < 0 || view.colour === "age" || view.focus === key ? packed(groupColour(key)) : pale);
    return block => on && !matches(block) ? pale : colours[groups.keys[block]];
}

/* The facts of a block, for the card of the chosen block and the tooltip. */
function factsOfBlock(block) {
    return [["requested", exactly(trace.size[block])],
        ["tag", trace.tag[block] >= 0 ? trace.raw.tags[trace.tag[block]] : "none"], ["stream", count(trace.stream[block])],
        ["allocated", trace.alloc[block] < 0 ? "before the window" : "at event " + count(trace.alloc[block])],
        ["freed", trace.free[block] === NEVER ? "not in the trace" : "at event " + count(trace.free[block])]];
}

/* Returns the frames of a block's call stack, from the innermost; [] if it has none. */
function framesOf(block) {
    const tag = trace.tag[block], stack = tag >= 0 ? trace.raw.stacks[tag] : null;
    return stack ? stack.split("\n") : [];
}

/* The rows of a block for the tooltip: a long stack is cut. */
function tipOfBlock(block, most) {
    const frames = framesOf(block), cut = frames.slice(0, most);
    if (frames.length > most) cut.push("and " + count(frames.length - most) + " more: click");
    return [...factsOfBlock(block), ...cut.map((frame, i) => [i === 0 ? "called from" : "", frame])];
}

/* Chooses a block, which all pictures then outline; -1: none. */
function chooseBlock(block) {
    view.block = block;
    fillBlock();
    redraw();
}

function fillBlock() {
    const { block } = view, card = byId("block");
    card.hidden = block < 0;
    if (block < 0) return;
    const jump = (text, event) => el("button", { onclick: () => chooseEvent(event) }, text);
    const born = trace.alloc[block], freed = trace.free[block];
    byId("block-title").textContent = "Block " + count(block);
    byId("block-jumps").replaceChildren(...[
        born < 0 ? null : jump("Go to its allocation", born),
        freed === NEVER ? null : jump("Go to its free", freed),
        el("button", { onclick: () => chooseBlock(-1) }, "Close"),
    ].filter(Boolean));
    const facts = factsOfBlock(block), list = el("dl"), frames = framesOf(block);
    for (const { raw, address, capacity } of trace.results)
        if (address && address[block] >= 0) facts.push(["in " + raw.strategy, hex(address[block]) + ", " + exactly(capacity[block])]);
    for (const [name, value] of facts) list.append(el("dt", null, name), el("dd", null, value));
    byId("block-facts").replaceChildren(list,
        frames.length === 0 ? "" : el("pre", { className: "stack", tabIndex: 0, ariaLabel: "Call stack" }, frames.join("\n")));
}

/* --- the controls --- */

/* Reads "1.5 MiB", "20M", "512" as bytes; NaN if the text is no size. */
function sizeIn(text) {
    const parts = /^\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)i?b?\s*$/i.exec(text);
    return parts ? Number(parts[1]) * 1024 ** "kmgt".indexOf(parts[2].toLowerCase() || " ") * (parts[2] ? 1024 : 1) : NaN;
}

function changeFilter() {
    const size = (id, otherwise) => {
        const input = byId(id), value = input.value.trim() === "" ? otherwise : sizeIn(input.value);
        input.setAttribute("aria-invalid", Number.isNaN(value));
        return Number.isNaN(value) ? otherwise : value;
    };
    filter.text = byId("find").value;
    filter.least = size("least", 0);
    filter.most = size("most", Infinity);
    filter.stream = Number(byId("stream").value);
    findTags();
    fillFilter();
    redraw("chart", "maps");
}

function clearFilter() {
    for (const id of ["find", "least", "most"]) byId(id).value = "";
    byId("stream").value = "-1";
    Object.assign(filter, { tag: undefined });
    view.focus = -1;
    fillKeys();
    changeFilter();
}

/* Shows the blocks of one tag; the same tag again: of all tags. */
function showTag(tag) {
    filter.tag = filter.tag === tag ? undefined : tag;
    fillFilter();
    redraw("chart", "maps");
}

function fillFilter() {
    let found = 0;
    const blocks = trace.size.length, on = filterOn();
    for (let block = 0; on && block < blocks; block++) found += matches(block);
    const only = filter.tag === undefined ? "" : " of " + (filter.tag < 0 ? "no tag" : trace.raw.tags[filter.tag]);
    byId("found").textContent = on ? count(found) + " of " + plural(blocks, "block") + " match" + only : plural(blocks, "block");
    byId("clear").disabled = !on && view.focus < 0;
}

/* Fills the controls for a trace. */
function openBlocks() {
    Object.assign(filter, { text: "", least: 0, most: Infinity, stream: -1, tag: undefined, found: null });
    for (const id of ["find", "least", "most"]) byId(id).value = "";
    const streams = [...new Set(trace.stream)].sort((a, b) => a - b).slice(0, 1000);
    byId("stream").replaceChildren(el("option", { value: -1 }, "any"),
        ...streams.map(stream => el("option", { value: stream }, count(stream))));
    chooseBlock(-1);
    fillFilter();
}

function listenToBlocks() {
    for (const id of ["find", "least", "most"]) byId(id).oninput = changeFilter;
    byId("stream").onchange = changeFilter;
    byId("clear").onclick = clearFilter;
}
