# core/package/deb.cmake: Debian packages by cpack (preset `package`): which component is which package, and what a package
# has that a plain installation has not.
#
#   libweir0.1           libweir.so.0.1
#   libweir-NAME0.1      the library of a part: acl (with the simulated runtime), jemalloc, ...; libweir_torch.so
#   libweir-dev          headers, static libraries, what find_package and pkg-config read, documents
#   weir-tools           the weir command, its recordings, what it loads into other programs, manual pages
#
# All have the version of base.h and depend on each other in exactly that version. cpack finds what they need of others
# (dpkg-shlibdeps); deb_finish.sh then gives them what cpack cannot: Multi-Arch, shlibs of public libraries alone, a trigger in
# place of scripts, and the same bytes each time.
set(WEIR_DEB_MAINTAINER "weir maintainers <maintainers@weir.invalid>" CACHE STRING "Who answers for the Debian packages")
set(soname 0.${PROJECT_VERSION_MINOR})
if(PROJECT_VERSION_MAJOR GREATER 0)
    set(soname ${PROJECT_VERSION_MAJOR})
endif()
set(release 1)
set(same "(= ${PROJECT_VERSION}-${release})")

# The time in the packages: the last commit's, unless the environment says another.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%ct
        OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(epoch)
        set(ENV{SOURCE_DATE_EPOCH} ${epoch})
    endif()
endif()
string(TIMESTAMP WEIR_DEB_EPOCH %s UTC)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(debian ${PROJECT_BINARY_DIR}/debian)
configure_file(${PROJECT_SOURCE_DIR}/core/package/copyright.in ${debian}/copyright @ONLY)
file(WRITE ${debian}/changelog.Debian "weir (${PROJECT_VERSION}-${release}) unstable; urgency=medium

  * See changelog.gz in libweir-dev.

 -- ${WEIR_DEB_MAINTAINER}  ${date}
")
configure_file(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${debian}/changelog COPYONLY)
execute_process(COMMAND gzip -9nf ${debian}/changelog.Debian ${debian}/changelog COMMAND_ERROR_IS_FATAL ANY)

set(about "weir is a C library of memory allocators that can be exchanged, for AI
accelerators: stream-ordered pools with caching, limits, statistics and reports
of why memory ran out. It runs without an accelerator too, on a simulated one.")

# weir_deb(COMPONENT PACKAGE SECTION SUMMARY TEXT [DEPENDS package...] [SUGGESTS package...])
macro(weir_deb component package section summary text)
    cmake_parse_arguments(deb "" "" "DEPENDS;SUGGESTS" ${ARGN})
    string(TOUPPER ${component} up)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    set(CPACK_DEBIAN_${up}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${up}_PACKAGE_SECTION ${section})
    list(JOIN deb_DEPENDS ", " CPACK_DEBIAN_${up}_PACKAGE_DEPENDS)
    list(JOIN deb_SUGGESTS ", " CPACK_DEBIAN_${up}_PACKAGE_SUGGESTS)
    set(CPACK_COMPONENT_${up}_DESCRIPTION "pluggable memory allocators for AI accelerators: ${summary}\n${about}\n\n${text}")
    install(FILES ${debian}/copyright ${debian}/changelog.Debian.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endmacro()

set(CPACK_COMPONENTS_ALL)
set(libraries "libweir${soname} ${same}")
weir_deb(runtime libweir${soname} libs "library" "This package has the shared library.")
get_property(parts GLOBAL PROPERTY WEIR_PARTS)
if(TARGET weir_torch OR TARGET weir_torch_cuda)
    set_property(GLOBAL PROPERTY WEIR_TEXT_torch "weir in the shape of PyTorch's pluggable allocator, for Ascend and NVIDIA GPUs")
    list(APPEND parts torch)
endif()
foreach(part IN LISTS parts)
    get_property(text GLOBAL PROPERTY WEIR_TEXT_${part})
    set(depends "libweir${soname} ${same}")
    if(part STREQUAL "torch" AND TARGET weir_torch)
        list(APPEND depends "libweir-acl${soname} ${same}")
    endif()
    if(part STREQUAL "torch" AND TARGET weir_torch_cuda)
        list(APPEND depends "libweir-cuda${soname} ${same}")
    endif()
    weir_deb(${part} libweir-${part}${soname} libs ${part} "This package has libweir_${part}:
${text}." DEPENDS ${depends})
    list(APPEND libraries "libweir-${part}${soname} ${same}")
endforeach()

# Who links a static weir needs what it was built with.
get_property(modules GLOBAL PROPERTY WEIR_STATIC_MODULES)
foreach(part IN LISTS parts)
    get_property(part_modules GLOBAL PROPERTY WEIR_MODULES_${part})
    list(APPEND modules ${part_modules})
endforeach()
list(TRANSFORM modules REPLACE "^([^>]+).*" "lib\\1-dev")
list(TRANSFORM modules REPLACE "^liblib" "lib")
list(TRANSFORM modules REPLACE "^libzlib-dev$" "zlib1g-dev")
if("libhwloc-dev" IN_LIST modules)
    list(APPEND modules libudev-dev) # hwloc.pc names it for static libraries, and libhwloc-dev does not bring it
endif()
if(TARGET weir_jemalloc)
    list(APPEND modules libjemalloc-dev)
endif()
weir_deb(development libweir-dev libdevel "development files" "This package has the headers, the static libraries, and what CMake and
pkg-config read."
    DEPENDS ${libraries} ${modules} SUGGESTS "weir-tools")
if(TARGET weir_command)
    weir_deb(tools weir-tools devel "the weir command"
        "This package has the command: it replays recorded allocation traffic against
several strategies, and shows what host memory of this machine can be pinned."
        DEPENDS "libweir${soname} ${same}" SUGGESTS "libweir-dev")
endif()
install(FILES ${debian}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libweir-dev)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_VENDOR "weir")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SOURCE weir)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${WEIR_DEB_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS) # our own libraries; which packages have them is said above
foreach(target IN ITEMS weir weir_ascendcl weir_acl weir_cuda)
    if(TARGET ${target})
        get_target_property(folder ${target} BINARY_DIR)
        list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
    endif()
endforeach()
if(CMAKE_SYSROOT) # for another architecture; DPKG_ADMINDIR in the environment names the database of its packages
    foreach(folder IN ITEMS lib usr/lib)
        list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_SYSROOT}/${folder}/${CMAKE_LIBRARY_ARCHITECTURE})
    endforeach()
endif()
configure_file(${PROJECT_SOURCE_DIR}/core/package/deb_finish.cmake.in ${debian}/deb_finish.cmake @ONLY)
set(CPACK_POST_BUILD_SCRIPTS ${debian}/deb_finish.cmake)
include(CPack)
