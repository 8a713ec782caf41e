/* colours.js: the colours of lines, groups and ages, in light and dark. */

/* Strategies: Okabe and Ito. Tags and streams: Tol. Age: cividis. Colour-blind readers can tell each apart. */
const LINES = {
    light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b27700", "#3a9bd0", "#6a4fb3", "#333333"],
    dark: ["#56a9e8", "#ff8a3d", "#2fc49a", "#ec9fc9", "#f2b632", "#9ad4f5", "#b09bf0", "#dddddd"],
};
const GROUPS = {
    light: ["#4477aa", "#cc6677", "#ddaa33", "#117733", "#88ccee", "#aa4499", "#999933", "#44aa99", "#882255"],
    dark: ["#5b93cc", "#d97f8e", "#e0b84e", "#3f9d5c", "#9bd7f2", "#c06bb2", "#b3b34a", "#57bfae", "#b5527f"],
};
const REST = { light: "#a7adb7", dark: "#7b8492" };
const AGES = { /* from young to old */
    light: ["#fee838", "#d3c164", "#a69d75", "#7d7c78", "#575d6d", "#2f4a6e", "#123570"],
    dark: ["#fff6b0", "#fee838", "#d3c164", "#a69d75", "#848a97", "#6884b5", "#4a78d0"],
};
const GROUP_LIMIT = GROUPS.light.length;

const lineColour = index => LINES[theme.name][index % LINES.light.length];
const groupColour = key => key < GROUP_LIMIT ? GROUPS[theme.name][key] : REST[theme.name];

/* Colours and fonts of the style sheet for the canvases; read again when the colour scheme changes. */
const theme = {};

function readTheme() {
    const style = getComputedStyle(document.documentElement);
    const names = ["panel", "ink", "muted", "line", "strong-line", "accent", "live", "free", "hatch", "track", "bad",
        "band", "band-other"];
    for (const name of names) theme[name] = style.getPropertyValue("--" + name).trim();
    const onPaper = document.documentElement.classList.contains("printing");
    theme.name = matchMedia("(prefers-color-scheme: dark)").matches && !onPaper ? "dark" : "light";

    /* A tile of diagonal lines, which marks memory that is reserved and free. */
    const size = Math.round(6 * devicePixelRatio), tile = el("canvas", { width: size, height: size });
    const ink = tile.getContext("2d");
    ink.fillStyle = theme.free;
    ink.fillRect(0, 0, size, size);
    for (const x of [-size, 0, size]) line(ink, theme.hatch, size / 6, x - 1, size + 1, x + size + 1, -1);
    theme.hatching = ink.createPattern(tile, "repeat");
}

/* Packs "#rrggbb" the way ImageData stores an opaque pixel. */
function packed(colour) {
    const n = parseInt(colour.slice(1), 16);
    return (0xff000000 | (n & 0xff) << 16 | n & 0xff00 | n >> 16) >>> 0;
}

/* The packed colour of an age, which counts from 0 to 1. */
function ageColour(age) {
    const ramp = AGES[theme.name], at = age * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2);
    const part = at - low, a = packed(ramp[low]), b = packed(ramp[low + 1]);
    const mixed = shift => Math.round((a >> shift & 255) * (1 - part) + (b >> shift & 255) * part) << shift;
    return (0xff000000 | mixed(16) | mixed(8) | mixed(0)) >>> 0;
}
