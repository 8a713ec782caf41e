"""page_test.py BROWSER AXE: checks page.html, page.json, small.html and late.html in the working folder. AXE: the file axe.min.js of
axe-core, which judges small.html instead; empty for the checks of this file."""
import json
import sys

from browser import Browser

failures = 0


def check(truth, text):
    global failures
    if not truth:
        print("FAILED:", text)
        failures += 1


def same(found, expected, text):
    check(found == expected, f"{text}: {found!r}, not {expected!r}")


def opened(browser, path, **options):
    page = browser.open(path, **options)
    check(page.wait("document.documentElement.dataset.ready === 'true'"), f"{path} is not ready")
    settled(page)
    return page


def settled(page):
    """Waits until all that was asked for is drawn."""
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    check(page.wait("!dirty.waiting && loading === 0"), "the page draws for ever")


def text_of(page, name):
    return page.value(f"byId('{name}').textContent")


def point_of(page, canvas, x, y):
    """Scrolls a canvas into view; returns a point of it in the window. x and y may use `box`, the canvas."""
    return page.value(f"""(() => {{
        {canvas}.scrollIntoView({{ block: "center" }});
        const box = {canvas}.getBoundingClientRect();
        return [box.left + {x}, box.top + {y}];
    }})()""")


# The page begins at the request that was refused, of the device on which it was, and compares two events.
def moments(browser):
    page = opened(browser, "refused.html")
    same(page.value("[Number(byId('trace').value), view.event]"), [1, 5], "the trace and the event at the beginning")
    check(page.value("byId('since').hidden"), "a comparison without an event A")
    page.value("chooseEvent(2), byId('keep').click(), chooseEvent(4)")
    settled(page)
    same(page.value("changesBetween(2, 4)"), [{"tag": page.value("trace.sameTag[0]"), "came": 4194304, "cameBlocks": 1,
                                              "went": 8388608, "wentBlocks": 1}], "what came and went")
    same(text_of(page, "since-about").strip(),
         "From event 2 (A) to event 4 (B): 4 MiB came in 1 block, 8 MiB went in 1 block.", "the words of the comparison")
    same(page.value("sinceCsv()"), "tag,came_bytes,came_blocks,went_bytes,went_blocks\n"
                                   "\"model.py:cache:20\",4194304,1,8388608,1\n", "the export")
    page.value("trace.results[0].shown = false, byId('link').click(), self.old = true")
    check("trace=1" in page.value("location.hash"), "the link does not have the trace")
    page.value("location.reload()")
    check(page.wait("!self.old && document.documentElement.dataset.ready === 'true'"), "the link cannot be opened")
    settled(page)
    same(page.value("[Number(byId('trace').value), view.event, view.since, ...trace.results.map(result => result.shown)]"),
         [1, 4, 2, False, True, False], "what the link restores")
    page.value("byId('keep').click()")
    check(page.value("byId('since').hidden"), "the comparison stays")
    return page



# The page begins at the worst event of the first strategy. Its numbers there are those of --json.
def figures(browser):
    page = opened(browser, "page.html")
    with open("page.json", encoding="utf-8") as file:
        row = json.load(file)["results"][0]
    state = page.value("(({reserved, unused, largest}) => [reserved, unused, largest])(stateAt(trace.results[0], view.event))")
    same(state, [row["peak_reserved_bytes"], row["free_bytes"], row["largest_free_bytes"]], "reserved, free and largest free")
    share = 100 - 100 * row["largest_free_bytes"] / row["free_bytes"]
    same(page.value("panels[0].values[6].textContent"), f"{share:.1f} %", "external fragmentation")
    same(page.value("trace.longest.live.range(0, trace.events).high"), row["peak_live_bytes"], "peak live")

    page.value("byId('fragmentation').click()")
    complete = "strip.samples.length === 2 && strip.samples.every(each => each.shares.length === each.events.length)"
    check(page.wait(complete), "the fragmentation over time is not complete")
    same(page.value("trace.results[0].state.event"), page.value("view.event"), "the event of the map")
    page.value("chooseEvent(strip.samples[0].events[100])")
    settled(page)
    same(page.value("panels[0].values[6].textContent"), page.value("(100 * strip.samples[0].shares[100]).toFixed(1) + ' %'"),
         "fragmentation in the map")
    same(page.errors, [], "errors")
    for width in (1400, 820, 390):
        narrow = opened(browser, "page.html", width=width)
        check(narrow.value("document.documentElement.scrollWidth <= innerWidth"), f"the page is wider than {width} pixels")
        same(narrow.errors, [], "errors")


# The picture of the live blocks: one on the other in the order of allocation, as high as they are large.
def stacked(page):
    page.value("chooseEvent(4)")
    settled(page)
    heights = page.value("""(() => {
        const column = Math.floor((xOf(4.5) - chart.left) / (chart.right - chart.left) * stack.columns), found = new Map();
        for (let row = stack.rows - 1; row >= 0; row--) {
            const block = stack.owner[row * stack.columns + column] - 1;
            found.set(block, (found.get(block) || 0) + 1);
        }
        found.delete(-1);
        return [...found];
    })()""")
    same([block for block, _ in heights], [0, 1, 2, 3], "blocks from the bottom")
    for block, height in heights:
        exact = page.value(f"trace.size[{block}] / (chart.most - chart.least) * stack.rows")
        check(abs(height - exact) <= 1.5, f"block {block} is {height} pixels high, not {exact}")
    colours = page.value("[0, 1, 2, 3].map(block => blockColours(groupsInUse())(block))")
    check(colours[0] == colours[1] and len(set(colours)) == 3, "colours are not those of the tags")

    point = point_of(page, "chart.base", "xOf(4.5)", "yOf(5 * 2 ** 20)")
    page.mouse("mouseMoved", *point)
    settled(page)
    tip = text_of(page, "tip")
    check("optimizer" in tip and "2 MiB" in tip, f"the tooltip says {tip!r}")
    page.click(*point)
    settled(page)
    same(page.value("view.block"), 2, "the clicked block")
    same(text_of(page, "block-title"), "Block 2", "the title of the block")
    page.value("chooseBlock(-1)")


# Call stacks as trees, from the outermost frame: of the live blocks, and of a comparison. A frame with one child opens it too.
def trees(page):
    page.value("chooseEvent(4), byId('holders-tree').open = true")
    settled(page)
    lines = "[...byId('%s').lastElementChild.querySelectorAll('summary, li:not(:has(> details))')].map(line => line.textContent)"
    expected = ["4 MiB, 40.0 %, 1 block no tag", "3 MiB, 30.0 %, 1 block train.py:3:main", "2 MiB, 20.0 %, 1 block optimizer",
                "1 MiB, 10.0 %, 1 block eval.py:7:main"]
    same(page.value(lines % "holders-tree"), expected, "the outermost frames")
    page.value("byId('holders-tree').querySelector('li details').open = true")
    settled(page)
    expected.insert(2, "3 MiB, 30.0 %, 1 block model.py:10:forward")
    same(page.value(lines % "holders-tree"), expected, "an open frame")
    page.value("byId('keep').click(), chooseEvent(6), byId('since-tree').open = true")
    settled(page)
    same(page.value(lines % "since-tree"), ["0 B came, 1 MiB went eval.py:7:main"], "the tree of what went")
    page.value("byId('keep').click(), byId('holders-tree').open = false")
    same(page.value("""foldedFrames.call(null, trace.raw.tags.push("a") - 1), trace.raw.stacks[3] =
        "at::empty\\nlib/torch/nn/module.py:7:call\\nmodel.py:9:run\\n<frozen runpy>:1:main", trace.folded.clear(),
        foldedFrames(3)"""), ["model.py:9:run"], "frames outside of the runtime")
    page.value("trace.raw.tags.pop(), trace.raw.stacks.length = 3, trace.folded.clear()")


def blocks(page):
    page.value("chooseEvent(2)")
    page.value("byId('its-block').click()")
    same(page.value("view.block"), 1, "the block of an event")
    same(page.value("document.querySelector('#block-facts .stack').textContent"), "model.py:10:forward\neval.py:7:main",
         "the call stack")
    jumps = "[...byId('block-jumps').children]"
    page.value(f"{jumps}[1].click()")
    same(page.value("view.event"), 6, "the free of the block")
    page.value(f"{jumps}[0].click()")
    same(page.value("view.event"), 2, "the allocation of the block")
    page.value(f"{jumps}[2].click()")
    check(page.value("byId('block').hidden"), "the card of the block stays open")

    trees(page)
    page.value("chooseEvent(3)")
    settled(page)
    rows = page.value("[...byId('holders-table').querySelectorAll('tbody tr')]"
                      ".map(row => [...row.cells].map(cell => cell.textContent))")
    same(rows, [["model.py:forward:10", "4 MiB", "66.7 %", "2"], ["optimizer", "2 MiB", "33.3 %", "1"]], "holders")


def set_value(page, name, value, event="input"):
    page.value(f"byId('{name}').value = {json.dumps(value)}, byId('{name}').dispatchEvent(new Event('{event}'))")
    settled(page)


def filters(page):
    bright = "[...trace.size.keys()].filter(block => blockColours(groupsInUse())(block) !== packed(theme['strong-line']))"
    every = [0, 1, 2, 3, 4]
    same(page.value(bright), every, "blocks in colour without a filter")
    for name, value, event, expected in [("find", "OPTIM", "input", [2, 4]), ("find", "eval.py", "input", [1]),
                                         ("find", "no tag", "input", [3]), ("least", "2MiB", "input", [0, 2, 3]),
                                         ("most", "2 m", "input", [1, 2, 4]), ("stream", "1", "change", [1])]:
        set_value(page, name, value, event)
        same(page.value(bright), expected, f"blocks in colour with {name} {value}")
        same(text_of(page, "found"), f"{len(expected)} of 5 blocks match", "the number that match")
        page.value("byId('clear').click()")
    set_value(page, "least", "much")
    same(page.value("byId('least').getAttribute('aria-invalid')"), "true", "a size that is none")
    same(page.value(bright), every, "blocks in colour with a size that is none")
    page.value("byId('clear').click()")
    page.value("chooseEvent(3)")
    settled(page)
    holder = "byId('holders-table').querySelectorAll('button')[0]"
    page.value(f"{holder}.click()")
    settled(page)
    same(page.value(bright), [0, 1], "blocks of the tag of the first holder")
    same(page.value(f"{holder}.getAttribute('aria-pressed')"), "true", "the button of the tag")
    page.value("byId('clear').click()")
    settled(page)
    same(page.value(bright), every, "blocks in colour after all are shown again")


# The wheel alone belongs to the page. Keys and buttons do what the wheel does.
def zoom(page):
    shown, width = "[view.from, view.to]", "view.to - view.from"
    page.mouse("mouseWheel", *point_of(page, "chart.base", "xOf(4.5)", "100"), deltaX=0, deltaY=50)
    settled(page)
    same(page.value(shown), [0, 9], "events after the wheel alone")
    point = point_of(page, "chart.base", "xOf(4.5)", "100")
    page.mouse("mouseWheel", *point, deltaX=0, deltaY=-200, modifiers=2)
    settled(page)
    check(page.value(width) < 9 and page.value("view.from <= 4 && 4 < view.to"), f"Ctrl and the wheel show {page.value(shown)}")
    before = page.value("view.from")
    page.mouse("mouseWheel", *point, deltaX=400, deltaY=0)
    settled(page)
    check(page.value("view.from") > before, "the wheel sideways does not pan")
    before = page.value("view.from")
    page.mouse("mousePressed", *point, button="left", modifiers=8)
    page.mouse("mouseMoved", point[0] + 400, point[1], button="left", modifiers=8)
    page.mouse("mouseReleased", point[0] + 400, point[1], button="left", modifiers=8)
    settled(page)
    check(page.value("view.from") < before, "Shift and a drag do not pan")
    page.value("chart.base.focus()")
    page.key("0")
    same(page.value(shown), [0, 9], "events after 0")
    page.key("+")
    check(page.value(width) < 9, "+ does not zoom")
    page.key("-")
    same(page.value(width), 9, "events after -")
    page.value("chooseEvent(3)")
    page.key("ArrowRight")
    same(page.value("view.event"), 4, "the event after an arrow")
    page.key("Enter")
    same(page.value("view.block"), 3, "the block after Enter")
    page.key("Escape")
    same(page.value("view.block"), -1, "the block after Escape")
    page.value("byId('closer').click()")
    check(page.value(width) < 9, "the button does not zoom")
    page.value("byId('wider').click(), byId('all-events').click()")
    settled(page)

    point = point_of(page, "panels[0].base", "box.width / 2", "5")
    byte = page.value(f"byteUnder(panels[0], {{ clientX: {point[0]}, clientY: {point[1]} }})")
    page.mouse("mouseWheel", *point, deltaX=0, deltaY=-100, modifiers=2)
    settled(page)
    same(page.value("view.mapZoom"), 1, "the zoom of the maps")
    check(page.value(f"view.mapFrom <= {byte} && {byte} < view.mapFrom + mapSpan()"), "the byte under the pointer left the map")
    page.value("panels[0].base.focus()")
    page.key("+")
    settled(page)
    same(page.value("[view.mapZoom, panels[0].perRow * 4]"), [2, page.value("view.mapSpan / view.rows")], "zoom and row")
    before = page.value("view.mapFrom")
    page.key("ArrowDown")
    check(page.value("view.mapFrom") != before, "an arrow does not move the map")
    before = page.value("view.mapFrom")
    point = point_of(page, "panels[0].base", "box.width / 2", "5")
    page.mouse("mousePressed", *point, button="left")
    page.mouse("mouseMoved", point[0], point[1] + (60 if before else -60), button="left")
    page.mouse("mouseReleased", point[0], point[1] + (60 if before else -60), button="left")
    settled(page)
    check(page.value("view.mapFrom") != before, "a drag does not move the map")
    page.value("byId('whole-map').click()")
    settled(page)
    same(page.value("[view.mapZoom, view.mapFrom]"), [0, 0], "the whole map")


def comparison(page):
    point = point_of(page, "chart.base", "xOf(7.5)", "chart.top + 2")
    page.mouse("mouseMoved", 5, 5)
    page.mouse("mouseMoved", *point)
    settled(page)
    by = page.value("Math.abs(trace.results[0].reserved.at(7) - trace.results[1].reserved.at(7))")
    check(by > 0 and "difference" in text_of(page, "tip"), f"the tooltip says {text_of(page, 'tip')!r}")
    page.value("chooseEvent(7)")
    same(text_of(page, "difference"), "At event 7 " + page.value("differenceAt(7)") + ".", "the difference at the chosen event")
    check(" more than " in text_of(page, "difference"), "no strategy reserves more")
    same(page.value("[0, 4, 8].map(timeOf)"), [0, 4000, 9000], "times of events")


CONTRAST = """(() => {
    const part = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
    const behind = node => {
        for (; node; node = node.parentElement) {
            const colour = numbers(getComputedStyle(node).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const found = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
        if (node.closest("script, style, :disabled, .off")) continue;
        const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) found.add(node.textContent.slice(0, 30) + " " + ratio.toFixed(2));
    }
    return [...found];
})()"""


# Each control has a name and can be reached with Tab; text stands out from its background.
def accessible(page):
    named = {"button", "textbox", "searchbox", "combobox", "slider", "spinbutton", "checkbox", "image", "link"}
    for node in page.call("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if role in named and not node.get("ignored"):
            check(node.get("name", {}).get("value"), f"a {role} has no name")
    same(page.value("[...document.querySelectorAll('[tabindex]')].filter(node => node.tabIndex > 0).length"), 0, "positive tabindex")
    names = page.value("[...document.querySelectorAll('[id]')].map(node => node.id)")
    same(len(names), len(set(names)), "different IDs")
    page.value("document.activeElement.blur()")
    reached = set()
    for _ in range(150):
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key="Tab", windowsVirtualKeyCode=9)
        reached.add(page.value("document.activeElement.id"))
    for name in ("slider", "number", "colour", "find", "least", "most", "stream", "shape", "scale", "fragmentation", "chart",
                 "detail"):
        check(name in reached, f"Tab does not reach {name}")
    same(page.value(CONTRAST), [], "texts with too little contrast")


# The violations that axe-core finds, with the elements.
AXE = """axe.run(document, {resultTypes: ['violations']}).then(result => result.violations.map(
    violation => `${violation.id}: ${violation.nodes.map(node => node.html.slice(0, 200)).join(' ')}`))"""


# The times of a device begin at its first event, also left of it.
def times(browser):
    page = opened(browser, "late.html")
    page.value("byId('trace').value = '1', byId('trace').dispatchEvent(new Event('change'))")
    check(page.wait("trace.raw.name.endsWith('device 1') && loading === 0"), "the page does not show device 1")
    same(page.value("[0, 49, 50, 51, 99].map(timeOf)"), [6000000, 6000000, 6000000, 6100000, 10900000], "times of events")
    same(page.errors, [], "errors")


def judged_by_axe(browser, axe):
    for width in (390, 1400):
        for dark in (False, True):
            page = opened(browser, "small.html", width=width, dark=dark)
            page.value(axe + "; 0")
            same(page.value(AXE), [], f"violations at {width} pixels, {'dark' if dark else 'light'}")
            page.value("chooseEvent(2), byId('its-block').click()")
            settled(page)
            same(page.value(AXE), [], f"violations at {width} pixels with a chosen block")
            page.value("byId('keep').click(), chooseEvent(6), byId('since-tree').open = byId('holders-tree').open = true")
            settled(page)
            page.value("for (const folded of document.querySelectorAll('li details')) folded.open = true")
            settled(page)
            same(page.value(AXE), [], f"violations at {width} pixels with open trees")
    page.value("byId('previous').removeAttribute('aria-label'), document.title = ''")
    check(page.value(AXE), "axe-core finds nothing in a page without a title")


with Browser(sys.argv[1]) as browser:
    if sys.argv[2]:
        judged_by_axe(browser, open(sys.argv[2], encoding="utf-8").read())
        print("page: axe-core finds no violation")
        sys.exit(failures > 0)
    moments(browser)
    figures(browser)
    times(browser)
    for dark in (False, True):
        page = opened(browser, "small.html", dark=dark)
        for part in (stacked, blocks, filters, zoom, comparison, accessible):
            part(page)
        same(page.errors, [], "errors")
if failures == 0:
    print("page: agrees with --json, fits narrow screens; blocks, filters, zoom, comparison; names and contrast")
sys.exit(failures > 0)
