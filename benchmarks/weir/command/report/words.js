/* words.js: text of numbers and small helpers for the document. */

const byId = id => document.getElementById(id);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const count = value => Math.round(value).toLocaleString("en-US");
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");
const hex = value => "0x" + value.toString(16);
const DASH = "\u2013";

/* Makes an element. Text from the trace only ever becomes a text node. */
function el(tag, properties, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (name in node && name !== "style") node[name] = value;
        else node.setAttribute(name, value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
}

/* Three or four significant digits; whole numbers stay whole. */
function scaled(value, units, step) {
    let unit = 0;
    for (; value >= step && unit < units.length - 1; unit++) value /= step;
    const places = Number.isInteger(value) || value >= 100 ? 0 : value < 10 ? 2 : 1;
    return value.toFixed(places) + " " + units[unit];
}
const bytes = value => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
const nanoseconds = value => scaled(value, ["ns", "\u00b5s", "ms", "s"], 1000);
const exactly = value => bytes(value) + (value >= 1024 ? " (" + count(value) + " bytes)" : "");
