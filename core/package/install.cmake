# core/package/install.cmake: what `cmake --install` puts where, and how others find it.
#
#   weir_install_library(NAME PART)   a library of weir_library: the file, its headers, and the targets of find_package
#   weir_install_pc(FILE DESCRIPTION text LIBS flag... [REQUIRES file...] [PRIVATE_LIBS flag...] [PRIVATE_REQUIRES module...]
#                   [CFLAGS flag...])
#                                     FILE.pc for pkg-config, from one template. PRIVATE_...: of a static library
#   weir_install_package()            weirConfig.cmake and what lies beside it; called last
#
# Each install rule names its component. They are the Debian packages (deb.cmake): `runtime` is libweir.so, each part has its
# own, `tools` is the weir command with its recordings and manual pages, `development` is headers, static libraries and
# everything else; a rule that names none goes there.
#
# Nothing that is installed names an absolute path of weir's own: an installed tree can be moved. (Built against CANN, the
# static libweir_acl names CANN's library where it was found.)
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/documents.cmake)
set(WEIR_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

function(weir_install_library name part)
    set(component ${part})
    if(part STREQUAL "weir")
        set(component runtime)
    endif()
    weir_targets(${name} targets)
    foreach(target kind IN ZIP_LISTS targets WEIR_KINDS)
        install(TARGETS ${target} EXPORT weir-${part}-${kind}
            LIBRARY COMPONENT ${component} NAMELINK_COMPONENT development
            ARCHIVE COMPONENT development
            FILE_SET HEADERS COMPONENT development)
        install(EXPORT weir-${part}-${kind} NAMESPACE weir:: DESTINATION ${WEIR_PACKAGE_DIR} COMPONENT development)
    endforeach()
endfunction()

# A .pc file finds its prefix from where it lies. Where only the static library is installed, a plain `--libs` is a whole
# link line too; where only the shared one is, the file asks for nothing that a static one would need.
function(weir_install_pc file)
    cmake_parse_arguments(PARSE_ARGV 1 pc "" "DESCRIPTION" "LIBS;REQUIRES;PRIVATE_LIBS;PRIVATE_REQUIRES;CFLAGS")
    list(TRANSFORM pc_REQUIRES APPEND " = ${PROJECT_VERSION}")
    if(WEIR_KINDS STREQUAL "static")
        list(APPEND pc_LIBS ${pc_PRIVATE_LIBS})
        list(APPEND pc_REQUIRES ${pc_PRIVATE_REQUIRES})
        set(pc_PRIVATE_LIBS)
        set(pc_PRIVATE_REQUIRES)
    elseif(NOT "static" IN_LIST WEIR_KINDS)
        set(pc_PRIVATE_LIBS)
        set(pc_PRIVATE_REQUIRES)
    endif()
    foreach(list IN ITEMS LIBS PRIVATE_LIBS CFLAGS)
        list(JOIN pc_${list} " " pc_${list})
    endforeach()
    foreach(list IN ITEMS REQUIRES PRIVATE_REQUIRES)
        list(JOIN pc_${list} ", " pc_${list})
    endforeach()
    file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
    string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
    file(RELATIVE_PATH libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
    file(RELATIVE_PATH includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
    configure_file(${PROJECT_SOURCE_DIR}/core/package/weir.pc.in ${PROJECT_BINARY_DIR}/${file}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${file}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# Lists pkg-config modules, NAME or NAME>=VERSION, as a .pc file names them.
function(weir_requires result)
    list(TRANSFORM ARGN REPLACE "(>=)" " \\1 " OUTPUT_VARIABLE requires)
    set(${result} ${requires} PARENT_SCOPE)
endfunction()

function(weir_install_package)
    # A static weir, and static parts, link these pkg-config modules. The .pc files name the modules and not their flags: a
    # linker that takes static libraries for them too needs the modules' own private flags.
    get_property(static_modules GLOBAL PROPERTY WEIR_STATIC_MODULES)
    weir_requires(requires ${static_modules})
    get_property(parts GLOBAL PROPERTY WEIR_PARTS)
    set(part_modules)
    foreach(part IN LISTS parts)
        get_property(modules GLOBAL PROPERTY WEIR_MODULES_${part})
        if(modules)
            string(APPEND part_modules "set(weir_${part}_modules ${modules})\n")
        endif()
    endforeach()
    list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE dl)
    weir_install_library(weir weir)
    weir_install_pc(weir DESCRIPTION "${PROJECT_DESCRIPTION}" LIBS -lweir PRIVATE_LIBS -pthread ${dl}
        PRIVATE_REQUIRES ${requires})

    configure_package_config_file(${PROJECT_SOURCE_DIR}/core/package/weirConfig.cmake.in
        ${PROJECT_BINARY_DIR}/weirConfig.cmake INSTALL_DESTINATION ${WEIR_PACKAGE_DIR}
        PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
        DESTINATION ${WEIR_PACKAGE_DIR})
    # The contract suites, as sources.
    set(suites contract.cmake contract.h device_contract.c device_contract.h strategy_contract.c strategy_contract.h)
    list(TRANSFORM suites PREPEND tests/pool/contract/)
    install(FILES ${suites} DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/contract)
    install(DIRECTORY tests/pool/contract/strategy DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/contract)
    if(WEIR_DEB) # where these two have another form
        weir_install_documents(CHANGELOG.md changelog.gz LICENSE copyright)
        include(${PROJECT_SOURCE_DIR}/core/package/deb.cmake)
    else()
        weir_install_documents(CHANGELOG.md CHANGELOG.md LICENSE LICENSE)
        install(FILES CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
    endif()
endfunction()
