# weir_ascendcl_export_map(TARGET): makes the shared library TARGET export exactly the functions listed in src/base/functions.h.
function(weir_ascendcl_export_map name)
    set(source ${PROJECT_SOURCE_DIR}/bindings/ascendcl/src)
    set(map ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
    add_custom_command(OUTPUT ${map}
        COMMAND ${CMAKE_C_COMPILER} -E -P -x c ${source}/ascendcl.map.in -o ${map}
        DEPENDS ${source}/ascendcl.map.in ${source}/base/functions.h
        COMMENT "Export map of ${name}" VERBATIM)
    target_sources(${name} PRIVATE ${map})
    target_link_options(${name} PRIVATE -Wl,--version-script=${map})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
