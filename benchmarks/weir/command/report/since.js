/* since.js: what came and what went between two moments: the event A, which a button keeps, and the chosen event B. */

/* The blocks that live at one of the two events only: those that came, and those that went. Both lists are in the order
 * of birth. */
function changedBlocks(a, b) {
    const missing = (all, from) => {
        let at = 0;
        return all.filter(block => {
            while (at < from.length && from[at] < block) at++;
            return from[at] !== block;
        });
    };
    const before = blocksAt(trace, a), after = blocksAt(trace, b);
    return { came: missing(after, before), went: missing(before, after) };
}

/* The changes by tag, the largest first. */
function changesBetween(a, b) {
    const { sameTag, size } = trace, groups = new Map(), changed = changedBlocks(a, b);
    for (const kind of ["came", "went"]) for (const i of changed[kind]) {
        const row = groups.get(sameTag[i]) || { tag: sameTag[i], came: 0, cameBlocks: 0, went: 0, wentBlocks: 0 };
        groups.set(sameTag[i], row);
        row[kind] += size[i];
        row[kind + "Blocks"]++;
    }
    return [...groups.values()].sort((x, y) => y.came + y.went - x.came - x.went);
}

function treeOfChanges() {
    const root = treeNode("all"), { came, went } = changedBlocks(view.since, view.event);
    for (const i of came) addToTree(root, trace.tag[i], [trace.size[i], 0]);
    for (const i of went) addToTree(root, trace.tag[i], [0, trace.size[i]]);
    return root;
}

const tagName = tag => tag >= 0 ? trace.raw.tags[tag] : "no tag";

/* Fills the table, which is hidden until an event A is kept. */
function fillSince() {
    byId("since").hidden = view.since < 0;
    byId("keep").textContent = view.since < 0 ? "Keep as A" : "Forget A";
    byId("keep").title = view.since < 0 ? "Keep the chosen event, and compare it with the ones chosen later" : "Event " + count(view.since);
    if (view.since < 0) return;
    const rows = changesBetween(view.since, view.event), shown = rows.slice(0, 20), sum = name => rows.reduce((all, row) => all + row[name], 0);
    const change = row => (row.came < row.went ? "\u2212" : "+") + bytes(Math.abs(row.came - row.went));
    byId("since-about").textContent = `From event ${count(view.since)} (A) to event ${count(view.event)} (B): ${bytes(sum("came"))} came in ${
        plural(sum("cameBlocks"), "block")}, ${bytes(sum("went"))} went in ${plural(sum("wentBlocks"), "block")}. ${
        rows.length > shown.length ? plural(rows.length - shown.length, "more tag") + " in the export." : ""}`;
    const head = (text, left) => el("th", { scope: "col", style: left ? "text-align:left" : "" }, text);
    byId("since-table").replaceChildren(el("table", null,
        el("thead", null, el("tr", null, head("Tag", true), head("Change"), head("Came"), head("Blocks"), head("Went"), head("Blocks"))),
        el("tbody", null, ...shown.map(row => el("tr", null, el("td", null, el("button", { className: "link",
            title: "Show the blocks of this tag alone in colour", onclick: () => showTag(row.tag) }, tagName(row.tag))),
            ...[change(row), bytes(row.came), count(row.cameBlocks), bytes(row.went), count(row.wentBlocks)].map(text => el("td", null, text)))))));
    fillTree("since-tree", treeOfChanges, ([came, went]) => came + went, ([came, went]) => `${bytes(came)} came, ${bytes(went)} went`);
}

/* The comparison as CSV. */
function sinceCsv() {
    const quoted = text => '"' + text.replaceAll('"', '""') + '"';
    return ["tag,came_bytes,came_blocks,went_bytes,went_blocks", ...changesBetween(view.since, view.event).map(row =>
        [quoted(tagName(row.tag)), row.came, row.cameBlocks, row.went, row.wentBlocks].join(","))].join("\n") + "\n";
}

function saveSince() {
    const url = URL.createObjectURL(new Blob([sinceCsv()], { type: "text/csv" }));
    el("a", { href: url, download: `events-${view.since}-${view.event}.csv` }).click();
    URL.revokeObjectURL(url);
}

function listenToSince() {
    byId("keep").onclick = () => {
        view.since = view.since < 0 ? view.event : -1;
        fillSince();
    };
    byId("save-since").onclick = saveSince;
}
