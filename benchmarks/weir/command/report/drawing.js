/* drawing.js: lines, dots and text on a canvas. */

/* Fits a canvas to its place at the resolution of the screen; its context then counts in CSS pixels. */
function fit(canvas, width, height) {
    const ratio = devicePixelRatio, ink = canvas.getContext("2d");
    const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
    if (canvas.width !== w || canvas.height !== h) {
        Object.assign(canvas, { width: w, height: h });
        if (!canvas.matches("canvas + canvas")) canvas.style.height = height + "px";
    }
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    ink.font = "11px system-ui, sans-serif";
    ink.textBaseline = "middle";
    return ink;
}

function line(ink, colour, width, x, y, toX, toY) {
    ink.strokeStyle = colour;
    ink.lineWidth = width;
    ink.beginPath();
    ink.moveTo(x, y);
    ink.lineTo(toX, toY);
    ink.stroke();
}

function write(ink, colour, align, text, x, y) {
    ink.fillStyle = colour;
    ink.textAlign = align;
    ink.fillText(text, x, y);
}

function dot(ink, colour, radius, x, y) {
    ink.fillStyle = colour;
    ink.beginPath();
    ink.arc(x, y, radius, 0, 7);
    ink.fill();
}
