# demo.awk: prints the first screen of script/demo from the lines of `weir replay --csv`: the recording with the strongest
# case as bars, all recordings in one table, and what follows from the figures. At most 100 columns.

# --- reading ---

# Removes the quoted file name from the front of $0 and returns it without its folders and endings.
function take_name(    name) {
    match($0, /^"([^"]|"")*"/)
    name = substr($0, 2, RLENGTH - 2)
    $0 = substr($0, RLENGTH + 2)
    gsub(/""/, "\"", name)
    sub(/.*\//, "", name)
    sub(/(\.wtr)?(\.xz|\.gz)?$/, "", name)
    return name
}

BEGIN {
    FS = ","
    rows = split("pytorch caching caching+vm direct", row, " ")
    title["pytorch"] = "PyTorch's allocator (model)"
    title["caching"] = "weir"
    title["caching+vm"] = "weir with virtual memory"
    about["llama_ctx_dyn"] = "llama.cpp, growing contexts"
    about["ort_gpt6_kvcache_decode"] = "GPT decoder, ONNX Runtime"
    about["ort_mobilenetv2_dyn_batch_res"] = "MobileNetV2, ONNX Runtime"
    about["ort_unet_dyn_res"] = "U-Net, ONNX Runtime"
}

NR == 1 { next }

{ # device, strategy, events, peak live, peak reserved, ..., event of running out ($9), ..., device calls ($11)
    name = take_name()
    if (!(name in about)) about[name] = name
    key = name SUBSEP $1
    if (!(key in live)) { key_of[++count] = key; live[key] = 0; device[key] = $1; label[key] = about[name]; file[key] = name }
    devices[name, $1] = 1
    if ($4 + 0 > live[key]) live[key] = $4 + 0
    reserved[key, $2] = $9 == "" ? $5 + 0 : -1
    calls[key, $2] = $11 + 0
}

# --- printing ---

function mib(bytes) { return bytes < 0 ? "full" : grouped(bytes / 1048576) }

# A number without decimals, with a comma before each third digit from the right.
function grouped(value,    text) {
    text = sprintf("%.0f", value)
    while (match(text, /[0-9][0-9][0-9][0-9]($|,)/)) text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
    return text
}

function short(number) { return number < 1e6 ? grouped(number) : sprintf("%.1f M", number / 1e6) }

function repeated(sign, times,    text) { while (times-- >= 1) text = text sign; return text }

function bar(what, bytes, most,    length_) {
    if (bytes < 0) { printf "    %-30s %9s\n", what, "full"; return }
    length_ = int(50 * bytes / most + 0.5)
    printf "    %-30s %5s MiB  %s\n", what, mib(bytes), repeated("#", length_ < 1 ? 1 : length_)
}

# Breaks a sentence into lines of at most 98 characters.
function say(text,    words, word, i, line) {
    words = split(text, word, " ")
    line = "  " word[1]
    for (i = 2; i <= words; i++) {
        if (length(line) + 1 + length(word[i]) > 98) { print line; line = "  " word[i] }
        else line = line " " word[i]
    }
    print line
}

# The geometric mean of reserved over live of a strategy, as per cent above live; "" where memory ran out somewhere.
function above_live(strategy,    i, sum) {
    for (i = 1; i <= count; i++) {
        if (reserved[key_of[i], strategy] <= 0 || live[key_of[i]] <= 0) return ""
        sum += log(reserved[key_of[i], strategy] / live[key_of[i]])
    }
    return sprintf("%.0f %%", 100 * (exp(sum / count) - 1))
}

# The recording in which the model of PyTorch's allocator takes the most, compared with weir's better row.
function strongest(    i, key, ratio, best, found) {
    for (i = 1; i <= count; i++) {
        key = key_of[i]
        if (reserved[key, "caching"] <= 0 || reserved[key, "pytorch"] <= 0) continue
        ratio = reserved[key, "pytorch"] / reserved[key, "caching"]
        if (ratio > best) { best = ratio; found = key }
    }
    return found == "" ? key_of[1] : found
}

function first_case(    key, most, i) {
    key = strongest()
    for (i = 1; i <= 3; i++) if (reserved[key, row[i]] > most) most = reserved[key, row[i]]
    if (live[key] > most) most = live[key]
    print "Memory taken from the device for " label[key] (label[key] == file[key] ? "" : " (" file[key] ")") ":"
    print ""
    for (i = 1; i <= 3; i++) bar(title[row[i]], reserved[key, row[i]], most)
    bar("in use by the program", live[key], most)
    print ""
}

function table(    i, r, key, line, suffix, ran_out) {
    print "All recordings: memory in use at the peak, memory that each allocator takes from the device for"
    print "it, both in MiB, and the calls to the device that take and give back memory:"
    print ""
    printf "  %-30s %6s  %14s %14s %14s %14s\n", "", "in use", "PyTorch's", "weir", "weir, virtual", "no cache"
    printf "  %-30s %6s  %14s %14s %14s\n", "", "", "allocator", "", "memory"
    printf "  %-30s %6s", "", "MiB"
    for (r = 1; r <= rows; r++) printf " %s%6s %7s", r == 1 ? " " : "", "MiB", "calls"
    print ""
    for (i = 1; i <= count; i++) {
        key = key_of[i]
        suffix = (file[key], device[key] == 0 ? 1 : 0) in devices ? ", device " device[key] : ""
        line = label[key]
        if (length(line suffix) > 30) line = substr(line, 1, 29 - length(suffix)) "~"
        line = line suffix
        printf "  %-30s %6s", line, mib(live[key])
        for (r = 1; r <= rows; r++) {
            printf " %s%6s %7s", r == 1 ? " " : "", mib(reserved[key, row[r]]), short(calls[key, row[r]])
            if (reserved[key, row[r]] < 0) ran_out = 1
        }
        print ""
    }
    if (ran_out) say("full: the device had no memory left, and the calls are those before.")
    print ""
}

function conclusions(    i, key, less, same, full, paged) {
    for (i = 1; i <= count; i++) {
        key = key_of[i]
        if (reserved[key, "caching"] < 0) full++
        else if (reserved[key, "pytorch"] < 0 || reserved[key, "caching"] < reserved[key, "pytorch"]) less++
        else if (reserved[key, "caching"] == reserved[key, "pytorch"]) same++
    }
    say("In " (less + 0) " of " count (count == 1 ? " recording" : " recordings") " weir takes less memory than PyTorch's" \
        " allocator would" (same > 0 ? ", in " same " as much" : "") (less + same + full < count ? ", in " count - less - same - full " more" : "") \
        (full > 0 ? "; in " full " weir runs out of memory" : "") ".")
    if (above_live("caching") != "" && above_live("pytorch") != "") {
        paged = above_live("caching+vm")
        say((count > 1 ? "On average " : "") "it takes " above_live("caching") " more than the program uses" \
            (paged == "" ? "" : ", with virtual memory " paged " more") ", and PyTorch's allocator " above_live("pytorch") " more.")
    }
    print ""
    say("Why the numbers of calls differ: without a cache each block costs two calls, and a wait for the device." \
        " PyTorch's allocator keeps the memory that it has taken. weir gives idle memory back when it needs another size," \
        " which costs calls and keeps it small. Virtual memory is mapped in pieces of 1/32 of a pool, in small pools of 2 MiB, at two calls each.")
}

END {
    if (count == 0) exit 1
    first_case()
    table()
    conclusions()
}
