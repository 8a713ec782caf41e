# core/package/install.cmake: what `cmake --install` puts where. benchmarks/ adds the `weir` command and its traces.
include(CMakePackageConfigHelpers)

# What a static weir links in its turn: pkg-config modules, and the flags that they give. (weir.pc does not name the modules:
# with --static pkg-config would ask for everything that they were built with.)
get_property(static_modules GLOBAL PROPERTY WEIR_STATIC_MODULES)
get_property(static_flags GLOBAL PROPERTY WEIR_STATIC_FLAGS)
if(BUILD_SHARED_LIBS)
    set(static_modules)
endif()
list(JOIN static_modules " " static_modules)
list(JOIN static_flags " " static_flags)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(TARGETS weir EXPORT weirTargets FILE_SET HEADERS)
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${package_dir})
configure_package_config_file(core/package/weirConfig.cmake.in weirConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
    DESTINATION ${package_dir})

# weir.pc finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE libs_private)
configure_file(core/package/weir.pc.in weir.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
