# Finds what find_package(OpenCL) then uses. CUDA's toolkit brings a libOpenCL and headers of its own: the system's come
# first, wherever the toolkit's paths are set. -DOpenCL_LIBRARY= and -DOpenCL_INCLUDE_DIR= choose others.
# Included by the root CMakeLists.txt and, once installed, by clattnConfig.cmake.
if(UNIX AND NOT APPLE)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(CLATTN_PC_OPENCL QUIET OpenCL)
    endif()
    find_path(OpenCL_INCLUDE_DIR CL/cl.h HINTS ${CLATTN_PC_OPENCL_INCLUDEDIR} /usr/include NO_DEFAULT_PATH)
    find_library(OpenCL_LIBRARY OpenCL HINTS ${CLATTN_PC_OPENCL_LIBDIR} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
                 /usr/lib64 /usr/lib NO_DEFAULT_PATH)
endif()
