# seeds.cmake: a build in which every room is compiled from copies of its sources that hold the bugs of seeds/.
#
#   weir_seed_room(SOURCES_VARIABLE)  replaces the calling folder's sources by their seeded copies
#   WEIR_SEEDED                       the folder that holds the copies, laid out like the source tree; the room's
#                                     shared/ is copied too
#
# The copies are made when the build is configured, which happens again when a source or a seed has changed; only copies
# that differ are written. A seed that no longer fits its source ends the configuration.
find_program(awk awk REQUIRED)
set(WEIR_SEEDED ${PROJECT_BINARY_DIR}/seeded)
set(WEIR_CORE ${WEIR_SEEDED}/core)
set(seeds_dir ${CMAKE_CURRENT_LIST_DIR})
file(GLOB WEIR_MUTANT_SEEDS CONFIGURE_DEPENDS ${seeds_dir}/seeds/*.diff)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${WEIR_MUTANT_SEEDS} ${seeds_dir}/seed.awk)

set(list "#define MUTANT_LIST(X)")
foreach(seed IN LISTS WEIR_MUTANT_SEEDS)
    cmake_path(GET seed STEM name)
    string(APPEND list " X(${name})")
endforeach()
file(CONFIGURE OUTPUT ${WEIR_SEEDED}/mutant_list.h CONTENT "${list}\n" @ONLY)
add_compile_options("SHELL:-include ${seeds_dir}/mutant.h" -I${WEIR_SEEDED})

function(weir_seed_room sources_variable)
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE room)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS src/*.[ch] src/*.cc shared/*.[ch])
    foreach(file IN LISTS files)
        cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
        cmake_path(GET path PARENT_PATH folder)
        file(MAKE_DIRECTORY ${WEIR_SEEDED}/${folder})
        execute_process(COMMAND ${awk} -v path=${path} -f ${seeds_dir}/seed.awk ${WEIR_MUTANT_SEEDS} ${file}
            OUTPUT_FILE ${WEIR_SEEDED}/fresh RESULT_VARIABLE failed)
        if(failed)
            message(FATAL_ERROR "A seed of tests/project/mutants does not fit ${path}")
        endif()
        configure_file(${WEIR_SEEDED}/fresh ${WEIR_SEEDED}/${path} COPYONLY)
    endforeach()
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
    list(TRANSFORM ${sources_variable} PREPEND ${WEIR_SEEDED}/${room}/)
    # Every program has mutant.c once: in core's first library, which all other rooms link.
    get_property(has_mutant GLOBAL PROPERTY WEIR_HAS_MUTANT)
    if(room STREQUAL "core" AND NOT has_mutant)
        list(APPEND ${sources_variable} ${seeds_dir}/mutant.c)
        set_property(GLOBAL PROPERTY WEIR_HAS_MUTANT ON)
    endif()
    set(${sources_variable} ${${sources_variable}} PARENT_SCOPE)
endfunction()
