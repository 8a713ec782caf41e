# core/package/rooms.cmake: how the folders become libraries.
#
#   weir_room(NAME HEADERS ... SOURCES ... [SEES room...] [LINKS target...])
#                        compiles the calling folder once, as objects, into weir::weir. HEADERS are public and installed. The
#                        folder sees its own include/ and that of the rooms in SEES, nothing else. LINKS: libraries of others
#                        that its sources need and its headers do not. Every room and part also finds core/shared, the few
#                        headers that core shares with this project's own folders and does not install.
#   weir_part(NAME DESCRIPTION text HEADERS ... SOURCES ... [LINKS target...] [PRIVATE_LIBS flag...] [MODULES module...]
#             [TAKES library...])
#                        a library beside weir::weir: target weir_NAME, weir::NAME for users, libweir_NAME, weir-NAME.pc and a
#                        component of the same name for find_package and for Debian packages. The sources are compiled as
#                        weir_NAME_objects, which sees weir::weir, include/ and LINKS; say there what else they need.
#                        PRIVATE_LIBS: the flags that pkg-config adds for a link with the static library. MODULES: pkg-config
#                        modules that it links, NAME or NAME>=VERSION; the target PkgConfig::NAME exists. TAKES: libraries of the
#                        tree whose objects go into it whole. Their functions may have any names: in the static library all
#                        objects are one, in which a hidden function is local.
#   weir_take_rooms(NAME) puts every room's objects into one more library: the tests build weir_internal, whose hidden
#                        functions can be called.
#
# Each of these libraries is built in one kind, static or shared, as BUILD_SHARED_LIBS says: what the build itself links
# has the plain target name. With WEIR_BOTH_KINDS there is the other as well, from the same objects: weir_shared or
# weir_static, weir_acl_shared or weir_acl_static. install.cmake says what is installed of them.
#
# WEIR_TO_LIBRARIES: the way from the folder of programs to that of libraries which are loaded into other programs.
# WEIR_BUILD_LIBRARIES: that folder in the build tree, which is laid out like an installed prefix.
file(RELATIVE_PATH WEIR_TO_LIBRARIES ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/weir)
cmake_path(ABSOLUTE_PATH WEIR_TO_LIBRARIES BASE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} NORMALIZE
    OUTPUT_VARIABLE WEIR_BUILD_LIBRARIES)

# The folder in which every room finds core's shared/.
set(WEIR_CORE ${PROJECT_SOURCE_DIR}/core)

set(WEIR_KINDS static)
if(BUILD_SHARED_LIBS)
    set(WEIR_KINDS shared)
endif()
if(WEIR_BOTH_KINDS)
    set(WEIR_KINDS ${WEIR_KINDS} static shared)
    list(REMOVE_DUPLICATES WEIR_KINDS)
endif()

# The targets of a library in all kinds that are built, the one with the plain name first.
function(weir_targets name result)
    list(TRANSFORM WEIR_KINDS PREPEND ${name}_ OUTPUT_VARIABLE targets)
    list(REMOVE_AT targets 0)
    set(${result} ${name} ${targets} PARENT_SCOPE)
endfunction()

# weir_library(NAME USER_NAME): the targets of a library without sources.
function(weir_library name user_name)
    weir_targets(${name} targets)
    foreach(target kind IN ZIP_LISTS targets WEIR_KINDS)
        string(TOUPPER ${kind} type)
        add_library(${target} ${type})
        target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
        target_compile_features(${target} INTERFACE c_std_11)
        set_target_properties(${target} PROPERTIES
            OUTPUT_NAME ${name}
            EXPORT_NAME ${user_name}
            VERSION ${PROJECT_VERSION}
            SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
        weir_export_map(${target})
    endforeach()
    add_library(weir::${user_name} ALIAS ${name})
endfunction()

# A shared library exports what is declared WEIR_API and listed in the map, and leaves nothing undefined (a sanitizer's
# own functions come with the program).
function(weir_export_map name)
    set(map ${PROJECT_SOURCE_DIR}/core/package/weir.map)
    set(options -Wl,--version-script=${map})
    if(NOT CMAKE_C_FLAGS MATCHES "-fsanitize")
        list(APPEND options -Wl,-z,defs)
    endif()
    target_link_options(${name} PRIVATE
        "$<$<STREQUAL:$<TARGET_PROPERTY:${name},TYPE>,SHARED_LIBRARY>:${options}>")
    set_property(TARGET ${name} PROPERTY LINK_DEPENDS ${map})
endfunction()

# What links of installed documents may lead to, for headers of the calling folder.
function(weir_installed_headers)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
    set_property(GLOBAL APPEND PROPERTY WEIR_HEADERS ${headers})
endfunction()

function(weir_room room)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;SEES;LINKS")
    list(TRANSFORM arg_SEES PREPEND weir_)
    add_library(weir_${room} OBJECT ${arg_SOURCES})
    target_include_directories(weir_${room} PUBLIC include PRIVATE src ${WEIR_CORE})
    target_link_libraries(weir_${room} PUBLIC ${arg_SEES} PRIVATE Threads::Threads ${arg_LINKS})
    set_target_properties(weir_${room} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    weir_targets(weir targets)
    foreach(target IN LISTS targets)
        target_sources(${target}
            PRIVATE $<TARGET_OBJECTS:weir_${room}>
            PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
        target_link_libraries(${target} PRIVATE ${arg_LINKS})
    endforeach()
    weir_installed_headers(${arg_HEADERS})
    set_property(GLOBAL APPEND PROPERTY WEIR_ROOMS weir_${room})
    set_property(GLOBAL APPEND PROPERTY WEIR_LINKS ${arg_LINKS})
    set_property(GLOBAL APPEND PROPERTY WEIR_INCLUDES ${CMAKE_CURRENT_SOURCE_DIR}/include)
endfunction()

# Makes the static library of one object in which only exported functions are global.
function(weir_join_objects target)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.o)
    add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_LINKER} -r -o ${object} ${ARGN}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
        DEPENDS ${ARGN} COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE ${object})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endfunction()

function(weir_part part)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION" "HEADERS;SOURCES;LINKS;PRIVATE_LIBS;MODULES;TAKES")
    set(name weir_${part})
    list(TRANSFORM arg_MODULES REPLACE ">=.*" "" OUTPUT_VARIABLE modules)
    list(TRANSFORM modules PREPEND PkgConfig::)
    list(APPEND arg_LINKS ${modules})
    add_library(${name}_objects OBJECT ${arg_SOURCES})
    target_include_directories(${name}_objects PRIVATE include ${WEIR_CORE})
    target_link_libraries(${name}_objects PRIVATE weir ${arg_LINKS} Threads::Threads)
    set_target_properties(${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

    weir_library(${name} ${part})
    weir_targets(weir weirs)
    weir_targets(${name} targets)
    list(TRANSFORM arg_TAKES REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    set(objects $<TARGET_OBJECTS:${name}_objects> ${arg_TAKES})
    foreach(target weir kind IN ZIP_LISTS targets weirs WEIR_KINDS)
        if(arg_TAKES AND kind STREQUAL "static")
            weir_join_objects(${target} ${objects})
        else()
            target_sources(${target} PRIVATE ${objects})
        endif()
        target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
        target_link_libraries(${target} PUBLIC ${weir} PRIVATE ${arg_LINKS})
    endforeach()
    if(WEIR_INSTALL)
        weir_install_library(${name} ${part})
        weir_requires(requires ${arg_MODULES})
        weir_install_pc(weir-${part} DESCRIPTION ${arg_DESCRIPTION} REQUIRES weir LIBS -lweir_${part}
            PRIVATE_LIBS ${arg_PRIVATE_LIBS} PRIVATE_REQUIRES ${requires})
    endif()
    set_property(GLOBAL PROPERTY WEIR_MODULES_${part} ${arg_MODULES})
    weir_installed_headers(${arg_HEADERS})
    set_property(GLOBAL APPEND PROPERTY WEIR_PARTS ${part})
    set_property(GLOBAL PROPERTY WEIR_TEXT_${part} ${arg_DESCRIPTION})
endfunction()

function(weir_take_rooms name)
    get_property(rooms GLOBAL PROPERTY WEIR_ROOMS)
    get_property(includes GLOBAL PROPERTY WEIR_INCLUDES)
    get_property(links GLOBAL PROPERTY WEIR_LINKS)
    list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    target_sources(${name} PRIVATE ${rooms})
    target_include_directories(${name} PUBLIC ${includes})
    target_link_libraries(${name} PUBLIC Threads::Threads ${CMAKE_DL_LIBS} ${links})
endfunction()
