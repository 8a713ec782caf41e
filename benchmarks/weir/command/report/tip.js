/* tip.js: the box beside the pointer. */

/* Rows are [name, value, colour]. */
function showTip(pointer, title, rows) {
    const tip = byId("tip"), list = el("dl");
    for (const [name, value, colour] of rows)
        list.append(el("dt", null, colour ? swatch(colour) : null, name), el("dd", null, value));
    tip.replaceChildren(el("p", null, title), list);
    tip.hidden = false;
    const place = (at, size, room) => Math.max(4, at + 16 + size > room ? at - size - 12 : at + 16) + "px";
    tip.style.left = place(pointer.clientX, tip.offsetWidth, innerWidth);
    tip.style.top = place(pointer.clientY, tip.offsetHeight, innerHeight);
}

/* Called when the pointer leaves a canvas or the content under it changes. */
function leave() {
    view.hover = null;
    byId("tip").hidden = true;
    redraw();
}
