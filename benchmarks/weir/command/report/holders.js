/* holders.js: the tags that hold the most memory at the chosen event. */

/* The blocks that the table and the tree count: those of the trace that live at the chosen event and match. */
function heldBlocks() {
    const all = blocksAt(trace, view.event);
    return filterOn() && filter.tag === undefined ? all.filter(matches) : all;
}

function treeOfHolders() {
    const root = treeNode("all");
    for (const i of heldBlocks()) addToTree(root, trace.tag[i], [trace.size[i], 1]);
    return root;
}

/* Fills the table of the tags that hold the most requested bytes after the chosen event. A tag's name shows its blocks
 * in the maps. */
function fillHolders() {
    const { tags, sameTag, size, raw } = trace, held = new Map(), most = 12, on = filterOn();
    byId("holders").hidden = tags.known === 0;
    if (tags.known === 0) return;
    let total = 0;
    for (const i of heldBlocks()) {
        const row = held.get(sameTag[i]) || { tag: sameTag[i], bytes: 0, blocks: 0 };
        held.set(sameTag[i], row);
        row.bytes += size[i];
        row.blocks++;
        total += size[i];
    }
    const rows = [...held.values()].sort((a, b) => b.bytes - a.bytes), rest = rows.splice(most);
    if (rest.length > 0) rows.push({ tag: -2, bytes: rest.reduce((sum, row) => sum + row.bytes, 0),
        blocks: rest.reduce((sum, row) => sum + row.blocks, 0) });
    const nameOf = row => row.tag >= 0 ? raw.tags[row.tag] : row.tag === -1 ? "no tag" : plural(rest.length, "other tag");
    const named = row => row.tag === -2 ? nameOf(row) : el("button", {
        className: "link", "aria-pressed": filter.tag === row.tag, title: "Show the blocks of this tag alone in colour",
        onclick: () => showTag(row.tag) }, nameOf(row));
    byId("holders-about").textContent = bytes(total) + " requested by live blocks of the trace" + (on && filter.tag === undefined ? " that match" : "")
        + ". A name shows the blocks of its tag alone in colour.";
    const head = (text, left) => el("th", { scope: "col", style: left ? "text-align:left" : "" }, text);
    byId("holders-table").replaceChildren(el("table", null,
        el("thead", null, el("tr", null, head("Tag", true), head("Requested"), head("Share"), head("Blocks"))),
        el("tbody", null, ...rows.map(row => el("tr", null, el("td", null, named(row)), el("td", null, bytes(row.bytes)),
            el("td", null, (100 * row.bytes / Math.max(1, total)).toFixed(1) + " %"), el("td", null, count(row.blocks)))))));
    fillTree("holders-tree", treeOfHolders, ([held]) => held, ([held, blocks]) =>
        `${bytes(held)}, ${(100 * held / Math.max(1, total)).toFixed(1)} %, ${plural(blocks, "block")}`);
}
