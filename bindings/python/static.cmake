# Included by the project in the build of script/pack: libraries of others are linked statically.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
set(CMAKE_SKIP_RPATH ON)
