# Puts STYLE and the files of SCRIPT (separated by blanks) into PAGE, and writes it to OUT as the bytes of a C array,
# report_page[], ended by a zero.
file(READ ${PAGE} page)
file(READ ${STYLE} style)
set(script "\"use strict\";\n")
separate_arguments(parts UNIX_COMMAND "${SCRIPT}")
foreach(part IN LISTS parts)
    file(READ ${part} text)
    string(APPEND script "\n${text}")
endforeach()
string(REPLACE "@WEIR_STYLE@\n" "${style}" page "${page}")
string(REPLACE "@WEIR_SCRIPT@\n" "${script}" page "${page}")
string(HEX "${page}" bytes)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "0x[89a-f]" "(char)\\0" bytes "${bytes}") # values that a signed char cannot hold
file(WRITE ${OUT} "static const char report_page[] = {\n${bytes}0x00\n};\n")
