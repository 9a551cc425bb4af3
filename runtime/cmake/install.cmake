# What a user gets: libhv.so, a libhv.a that needs nothing of ours beside it, the public headers, and
# the ways to find them. Programs go to bin; hvagent and hvcheck, which only hvrun starts, to libexec.
include(CMakePackageConfigHelpers)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)

add_library(hv_archive STATIC
  $<TARGET_OBJECTS:hv_objects>
  $<TARGET_OBJECTS:hv_rendezvous>
  $<TARGET_OBJECTS:hv_rendezvous_server>
  $<TARGET_OBJECTS:hv_base>
)
set_target_properties(hv_archive PROPERTIES OUTPUT_NAME hv EXPORT_NAME hv_static LINKER_LANGUAGE CXX)
target_include_directories(hv_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(hv_archive INTERFACE OpenSSL::Crypto Threads::Threads)

install(TARGETS hv hv_archive EXPORT hvrunTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/hv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hvrunTargets NAMESPACE hv:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hvrun)

set(package_dir ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hvrunConfig.cmake.in
                              ${package_dir}/hvrunConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hvrun)
write_basic_package_version_file(${package_dir}/hvrunConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${package_dir}/hvrunConfig.cmake ${package_dir}/hvrunConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hvrun)

# The pkg-config file finds its prefix from where it lies, so that the tree can be moved.
file(RELATIVE_PATH prefix_from_pc /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(${CMAKE_CURRENT_LIST_DIR}/hvrun.pc.in ${package_dir}/hvrun.pc @ONLY)
install(FILES ${package_dir}/hvrun.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS hvrun hvbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hvagent hvcheck RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/hvrun)
install(TARGETS hv_ssh LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/hvrun)
install(TARGETS train RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/hvrun/examples)
file(RELATIVE_PATH lib_from_bin /p/${CMAKE_INSTALL_BINDIR} /p/${CMAKE_INSTALL_LIBDIR})
set_target_properties(hvbench PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
set_target_properties(train PROPERTIES INSTALL_RPATH "$ORIGIN/../..")
