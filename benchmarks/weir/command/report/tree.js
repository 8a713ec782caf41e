/* tree.js: call stacks as a tree with sizes, from the outermost frame. Frames of the runtime are folded away: a stack has its
 * Python frames outside of PyTorch; without any, its Python frames; without any, all. `weir diff --by stack` has the same
 * rule (moments.c). */

const RUNTIME_FRAMES = ["/torch/", "/torch_npu/", "<frozen ", "/runpy.py:", "/threading.py:"];
const isRuntime = frame => frame.startsWith("torch/") || RUNTIME_FRAMES.some(word => frame.includes(word));

/* The frames of a tag that count, from the outermost; a tag without a stack is its own frame. */
function foldedFrames(tag) {
    trace.folded = trace.folded || new Map();
    if (!trace.folded.has(tag)) {
        const stack = tag >= 0 ? trace.raw.stacks[tag] : null, frames = stack ? stack.split("\n").reverse() : [tagName(tag)];
        const python = frames.filter(frame => frame.includes(".py:")), own = python.filter(frame => !isRuntime(frame));
        trace.folded.set(tag, own.length > 0 ? own : python.length > 0 ? python : frames);
    }
    return trace.folded.get(tag);
}

const treeNode = frame => ({ frame, sums: null, children: new Map() });

/* Adds numbers to all frames of a tag. */
function addToTree(root, tag, numbers) {
    const add = node => { node.sums = node.sums ? node.sums.map((sum, i) => sum + numbers[i]) : numbers; };
    let node = root;
    add(root);
    for (const frame of foldedFrames(tag)) {
        if (!node.children.has(frame)) node.children.set(frame, treeNode(frame));
        node = node.children.get(frame);
        add(node);
    }
}

/* Shows the children of a node as a list, the largest first. `weight` and `text` make a number and words of a node's sums. A
 * frame opens with a click; one that has a single child opens that too. */
function treeList(node, weight, text) {
    const most = 40, all = [...node.children.values()].sort((a, b) => weight(b.sums) - weight(a.sums)), shown = all.slice(0, most);
    const words = child => [el("b", null, text(child.sums)), " ", el("code", null, child.frame)];
    const item = child => {
        if (child.children.size === 0) return el("li", null, ...words(child));
        const folded = el("details", null, el("summary", null, ...words(child)));
        folded.ontoggle = () => {
            if (folded.open && folded.children.length === 1) folded.append(treeList(child, weight, text));
            const inner = folded.querySelectorAll(":scope > ul > li > details");
            if (folded.open && inner.length === 1 && child.children.size === 1) inner[0].open = true;
        };
        return el("li", null, folded);
    };
    return el("ul", { className: "tree" }, ...shown.map(item),
        all.length > most ? el("li", { className: "muted" }, count(all.length - most) + " more") : null);
}

const hasStacks = () => trace.raw.stacks.some(stack => stack);

/* Fills a folded part with a tree, which `make` returns when the part is open. */
function fillTree(id, make, weight, text) {
    const part = byId(id), fill = () => { if (part.open) part.lastElementChild.replaceChildren(treeList(make(), weight, text)); };
    part.hidden = !hasStacks();
    part.ontoggle = fill;
    if (!part.hidden) fill();
}
