# contract.cmake: the contract suites as targets. A program that links a suite compiles the suite's source with its own
# source and calls it. The suite's header explains how the program describes its device or strategy.
#
#   weir::device_contract     device_contract.h
#   weir::strategy_contract   strategy_contract.h
if(NOT TARGET weir::device_contract)
    find_package(Threads REQUIRED)
    foreach(suite IN ITEMS device strategy)
        add_library(weir::${suite}_contract INTERFACE IMPORTED GLOBAL)
        set_target_properties(weir::${suite}_contract PROPERTIES
            INTERFACE_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${suite}_contract.c
            INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}
            INTERFACE_LINK_LIBRARIES "weir::weir;Threads::Threads")
    endforeach()
endif()
