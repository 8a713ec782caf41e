# Finds libtorch as Debian packages it (libtorch-dev): Libtorch::torch_cpu, if Libtorch_FOUND. The vendor's own
# configuration file ends CMake with an error where one of its dependencies is missing.
find_path(LIBTORCH_INCLUDE_DIR torch/torch.h PATH_SUFFIXES torch/csrc/api/include)
find_library(LIBTORCH_LIBRARY torch_cpu)
find_library(LIBTORCH_C10_LIBRARY c10)
find_library(LIBTORCH_GLOG_LIBRARY glog) # Debian's builds log with it
mark_as_advanced(LIBTORCH_INCLUDE_DIR LIBTORCH_LIBRARY LIBTORCH_C10_LIBRARY LIBTORCH_GLOG_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS LIBTORCH_LIBRARY LIBTORCH_C10_LIBRARY LIBTORCH_INCLUDE_DIR)
if(Libtorch_FOUND AND NOT TARGET Libtorch::torch_cpu)
    add_library(Libtorch::torch_cpu UNKNOWN IMPORTED)
    set_target_properties(Libtorch::torch_cpu PROPERTIES
        IMPORTED_LOCATION ${LIBTORCH_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${LIBTORCH_INCLUDE_DIR}
        INTERFACE_LINK_LIBRARIES "${LIBTORCH_C10_LIBRARY};$<$<BOOL:${LIBTORCH_GLOG_LIBRARY}>:${LIBTORCH_GLOG_LIBRARY}>"
        INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
