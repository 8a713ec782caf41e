/* histogram.js: free ranges by size. */

/* Class 0 holds ranges below 2 KiB; each class after it is four times as wide as the one before. */
const CLASSES = 20;
const classOf = size => clamp(Math.floor((Math.log2(size) - 9) / 2), 0, CLASSES - 1);
const classStart = index => index === 0 ? 0 : 512 * 4 ** index;

function freeClasses(state) {
    const classes = { bytes: new Float64Array(CLASSES), ranges: new Int32Array(CLASSES) };
    for (let i = 0; i < state.ranges; i++) {
        classes.bytes[classOf(state.rangeSize[i])] += state.rangeSize[i];
        classes.ranges[classOf(state.rangeSize[i])]++;
    }
    return classes;
}

/* Heights have one scale for all strategies: the square root of the bytes, so that small ranges stay visible. */
function drawHistogram(panel, classes, tallest, highest, width) {
    const height = 92, floor = height - 16, step = width / (highest + 1), ink = fit(panel.histogram, width, height);
    Object.assign(panel, { classes, step, highest });
    line(ink, theme["strong-line"], 1, 0, floor + 0.5, width, floor + 0.5);
    for (let i = 0; i <= highest; i++) {
        const middle = (i + 0.5) * step, share = Math.sqrt(classes.bytes[i] / tallest);
        const tall = classes.ranges[i] ? Math.max(2, share * (floor - 16)) : 0;
        const label = i === 0 ? "0" : bytes(classStart(i)).replace(/ |i?B/g, "");
        ink.fillStyle = lineColour(panel.result.index);
        ink.fillRect(i * step + 2, floor - tall, step - 4, tall);
        write(ink, theme.muted, "center", label, middle, height - 6);
        if (classes.ranges[i]) write(ink, theme.ink, "center", count(classes.ranges[i]), middle, floor - tall - 7);
    }
}

function hoverHistogram(panel, pointer) {
    const x = pointer.clientX - panel.histogram.getBoundingClientRect().left;
    const index = clamp(Math.floor(x / panel.step), 0, panel.highest), { ranges, bytes: sums } = panel.classes;
    showTip(pointer, "Free ranges from " + bytes(classStart(index)) + " to " + bytes(classStart(index + 1)),
        [["ranges", count(ranges[index])], ["bytes", bytes(sums[index])]]);
}
