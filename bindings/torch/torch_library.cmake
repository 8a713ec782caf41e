# libweir_torch.so (Ascend) and libweir_torch_cuda.so (NVIDIA): weir, the strategies and a binding in one library that a
# framework loads by name. Each is a whole allocator rather than a binding, so it may see strategies. It exports only the
# functions that the headers declare. The two have the sources of this folder, and the runtime (shared/runtime.h) from the folder
# that calls.
#
#   weir_torch_library(NAME EXPORT_NAME SOURCES ... LINKS ... [HEADERS ...])
#                        HEADERS: public ones of the calling folder, beside weir/torch.h
function(weir_torch_library name export_name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS;SOURCES;LINKS")
    set(torch ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    set(sources counters.c graph.c pools.c recording.c route.c settings.c source.c state.c torch.c upkeep.c)
    list(TRANSFORM sources PREPEND ${torch}/src/)
    add_library(${name} SHARED ${sources} ${arg_SOURCES})
    add_library(weir::${export_name} ALIAS ${name})
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${torch}/include FILES ${torch}/include/weir/torch.h)
    if(arg_HEADERS)
        target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
    endif()
    target_link_libraries(${name} PRIVATE ${arg_LINKS} Threads::Threads)
    target_include_directories(${name} PRIVATE ${torch} ${WEIR_CORE}
        INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include>)
    set_target_properties(${name} PROPERTIES
        EXPORT_NAME ${export_name}
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    target_link_options(${name} PRIVATE -Wl,--version-script=${torch}/weir_torch.map)
    set_property(TARGET ${name} PROPERTY LINK_DEPENDS ${torch}/weir_torch.map)
    if(WEIR_INSTALL)
        set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/weir")
        # A framework loads it by the name without a version, so the symbolic link belongs to the runtime component.
        set_property(GLOBAL APPEND PROPERTY WEIR_HEADERS ${torch}/include/weir/torch.h)
        weir_installed_headers(${arg_HEADERS})
        install(TARGETS ${name} LIBRARY COMPONENT torch FILE_SET HEADERS)
    endif()
endfunction()
