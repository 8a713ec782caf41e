# Finds XNNPACK as Debian packages it (script/engines installs it): XNNPACK::XNNPACK, if XNNPACK_FOUND.
find_path(XNNPACK_INCLUDE_DIR xnnpack.h)
find_library(XNNPACK_LIBRARY XNNPACK)
mark_as_advanced(XNNPACK_INCLUDE_DIR XNNPACK_LIBRARY)
# xnnpack.h includes this header, which Debian has in a separate package.
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
mark_as_advanced(PTHREADPOOL_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XNNPACK REQUIRED_VARS XNNPACK_LIBRARY XNNPACK_INCLUDE_DIR PTHREADPOOL_INCLUDE_DIR)
if(XNNPACK_FOUND AND NOT TARGET XNNPACK::XNNPACK)
    add_library(XNNPACK::XNNPACK UNKNOWN IMPORTED)
    set_target_properties(XNNPACK::XNNPACK PROPERTIES
        IMPORTED_LOCATION ${XNNPACK_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES "${XNNPACK_INCLUDE_DIR};${PTHREADPOOL_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES m)
endif()
