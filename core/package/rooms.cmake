# core/package/rooms.cmake: how the folders become one library.
#
#   weir_library(NAME)   a library (static, or shared with BUILD_SHARED_LIBS) that takes what the rooms compile
#   weir_room(NAME HEADERS ... SOURCES ... [SEES room...] [LINKS target...])
#                        compiles the calling folder once, as objects. HEADERS are public and installed. The folder
#                        sees its own include/ and that of the rooms in SEES, nothing else. LINKS: libraries of others that
#                        its sources need and its headers do not.
#   weir_take_rooms(NAME) puts every room's objects into one more library: the tests build weir_internal (static, its
#                        hidden functions can be called) and weir_shared (its exported symbols can be compared).

#
# WEIR_TO_LIBRARIES: the way from the folder of programs to that of libraries which are loaded into other programs.
# WEIR_BUILD_LIBRARIES: that folder in the build tree, which is laid out like an installed prefix.
file(RELATIVE_PATH WEIR_TO_LIBRARIES ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/weir)
cmake_path(ABSOLUTE_PATH WEIR_TO_LIBRARIES BASE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} NORMALIZE
    OUTPUT_VARIABLE WEIR_BUILD_LIBRARIES)

function(weir_library name)
    add_library(${name})
    add_library(weir::${name} ALIAS ${name})
    target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    target_compile_features(${name} INTERFACE c_std_11)
    set_target_properties(${name} PROPERTIES
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    weir_export_map(${name})
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

function(weir_room room)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;SEES;LINKS")
    list(TRANSFORM arg_SEES PREPEND weir_)
    if(WEIR_MUTANTS)
        weir_seed_room(arg_SOURCES)
    endif()
    add_library(weir_${room} OBJECT ${arg_SOURCES})
    target_include_directories(weir_${room} PUBLIC include)
    target_link_libraries(weir_${room} PUBLIC ${arg_SEES} PRIVATE Threads::Threads ${arg_LINKS})
    set_target_properties(weir_${room} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_sources(weir
        PRIVATE $<TARGET_OBJECTS:weir_${room}>
        PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
    target_link_libraries(weir PRIVATE ${arg_LINKS})
    set_property(GLOBAL APPEND PROPERTY WEIR_ROOMS weir_${room})
    set_property(GLOBAL APPEND PROPERTY WEIR_LINKS ${arg_LINKS})
    set_property(GLOBAL APPEND PROPERTY WEIR_INCLUDES ${CMAKE_CURRENT_SOURCE_DIR}/include)
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
