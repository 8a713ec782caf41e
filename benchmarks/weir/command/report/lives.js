/* lives.js: blocks and regions that live from event to event: sums, and the ones that live at an event. */

const NEVER = 0x7fffffff;

/* The number of values that are at most `value`, in an ascending array. */
function countUpTo(ascending, value) {
    let low = 0;
    for (let high = ascending.length; low < high;) {
        const middle = (low + high) >>> 1;
        if (ascending[middle] <= value) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Blocks or regions in the order of their birth, with the events at which they begin and end. A checkpoint lists those
 * that are present when a certain number have been born. As many are born from one checkpoint to the next as the first
 * one lists, but at least SPACING: so all checkpoints together are at most as long as `born`, and `at` looks only
 * at things that are present, or were born a short time ago. */
class Lifetimes {
    constructor(born, died) {
        Object.assign(this, { born, died, starts: [0], present: [new Uint32Array(0)] });
        for (let from = 0, to; (to = from + Math.max(Lifetimes.SPACING, this.present.at(-1).length)) < born.length; from = to) {
            const next = this.after(this.present.at(-1), from, to, born[to - 1]);
            this.starts.push(to);
            this.present.push(next);
        }
    }

    /* Those of `present` and of from .. to - 1 that live on after an event. */
    after(present, from, to, event) {
        const { died } = this, living = new Uint32Array(present.length + to - from);
        let count = 0;
        for (const each of present) if (died[each] > event) living[count++] = each;
        for (let each = from; each < to; each++) if (died[each] > event) living[count++] = each;
        return living.slice(0, count);
    }

    /* The indices of all that are present after an event, in ascending order. */
    at(event) {
        const born = countUpTo(this.born, event), checkpoint = countUpTo(this.starts, born) - 1;
        return this.after(this.present[checkpoint], this.starts[checkpoint], born, event);
    }
}
Lifetimes.SPACING = 4096;

/* A value for each event: values[i] holds from event at[i] on, until the next; without `at`, values[i] is that of event
 * i. The least and greatest values of each SPAN are kept, so that a range of any width is fast. */
class Curve {
    constructor(values, at) {
        const spans = Math.ceil(values.length / Curve.SPAN), least = new Float64Array(spans).fill(Infinity);
        const most = new Float64Array(spans).fill(-Infinity);
        for (let i = 0; i < values.length; i++) {
            const span = Math.floor(i / Curve.SPAN), value = values[i];
            if (value < least[span]) least[span] = value;
            if (value > most[span]) most[span] = value;
        }
        Object.assign(this, { values, steps: at, least, most });
    }

    indexOf(event) {
        return clamp(this.steps ? countUpTo(this.steps, event) - 1 : event, 0, this.values.length - 1);
    }

    /* The value after an event. */
    at(event) {
        return this.values.length ? this.values[this.indexOf(event)] : 0;
    }

    /* The first, lowest, highest and last value of the events from .. to - 1. */
    range(from, to) {
        const { values, least, most } = this, begin = this.indexOf(from), end = this.indexOf(to - 1);
        if (values.length === 0) return { first: 0, low: 0, high: 0, last: 0 };
        let low = values[begin], high = low;
        for (let i = begin; i <= end;) {
            const whole = i % Curve.SPAN === 0 && i + Curve.SPAN - 1 <= end, span = i / Curve.SPAN;
            const bottom = whole ? least[span] : values[i], top = whole ? most[span] : values[i];
            if (bottom < low) low = bottom;
            if (top > high) high = top;
            i += whole ? Curve.SPAN : 1;
        }
        return { first: values[begin], low, high, last: values[end] };
    }
}
Curve.SPAN = 64;
