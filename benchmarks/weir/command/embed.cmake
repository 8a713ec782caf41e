# Writes IN as the bytes of a C array, report_page[], ended by a zero.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "0x[89a-f]" "(char)\\0" bytes "${bytes}") # values that a signed char cannot hold
file(WRITE ${OUT} "static const char report_page[] = {\n${bytes}0x00\n};\n")
