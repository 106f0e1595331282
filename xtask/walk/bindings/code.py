"""Libraries, modules, kernels and launches."""

import ctypes

from cuda.bindings import driver

from bindings.calls import FILL_PTX, Primary, ask, bytes_at, refused
from walking import expect, step


class Loaded:
    """The kernel `fill_words`, by a library."""

    def __enter__(self):
        self.library = ask("cuLibraryLoadData", FILL_PTX, [], [], 0, [], [], 0)
        self.kernel = ask("cuLibraryGetKernel", self.library, b"fill_words")
        return self

    def __exit__(self, *_):
        ask("cuLibraryUnload", self.library)

    def launch(self, memory, value, count, stream=0, block=32):
        """Puts `value` into `count` words."""
        grid = (count + block - 1) // block
        arguments = ((memory, value, count), (None, ctypes.c_uint32, ctypes.c_uint32))
        function = driver.CUfunction(int(self.kernel))
        return driver.cuLaunchKernel(
            function, grid, 1, 1, block, 1, 1, 0, stream, arguments, 0
        )[0].name


@step("a library has its kernels by name, and none that it hasn't")
def _():
    with Primary(), Loaded() as loaded:
        expect(ask("cuLibraryGetKernelCount", loaded.library), 1)
        expect(ask("cuKernelGetName", loaded.kernel), b"fill_words")
        refused("NOT_FOUND", "cuLibraryGetKernel", loaded.library, b"no_such_kernel")
        expect(int(ask("cuKernelGetLibrary", loaded.kernel)), int(loaded.library))
        offset, size = ask("cuKernelGetParamInfo", loaded.kernel, 1)
        expect((offset, size), (8, 4), "the second parameter")
        refused("INVALID_VALUE", "cuKernelGetParamInfo", loaded.kernel, 3)


@step("a module has its functions and variables by name")
def _():
    with Primary() as primary:
        module = ask("cuModuleLoadData", FILL_PTX)
        function = ask("cuModuleGetFunction", module, b"fill_words")
        expect(int(ask("cuFuncGetModule", function)), int(module))
        refused("NOT_FOUND", "cuModuleGetFunction", module, b"no_such_kernel")
        address, size = ask("cuModuleGetGlobal", module, b"steps")
        expect(size, 4, "size of the variable")
        ask("cuMemsetD32", address, 17, 1)
        expect(bytes_at(address, 4), b"\x11\0\0\0")
        threads = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        expect(ask("cuFuncGetAttribute", threads, function) >= 32, True, "threads of a block")
        ask("cuModuleUnload", module)
        expect(int(ask("cuCtxGetCurrent")), int(primary))


@step("an image that is none isn't loaded")
def _():
    with Primary():
        refused("INVALID_IMAGE", "cuModuleLoadData", b"not an image\0")
        refused("FILE_NOT_FOUND", "cuModuleLoad", b"/no/such/file.cubin")


@step("a kernel fills the words that it is given, and no others")
def _():
    with Primary(), Loaded() as loaded:
        memory = ask("cuMemAlloc", 400)
        ask("cuMemsetD32", memory, 5, 100)
        expect(loaded.launch(memory, 3, 99), "CUDA_SUCCESS")
        ask("cuCtxSynchronize")
        expect(bytes_at(memory, 400), b"\3\0\0\0" * 99 + b"\5\0\0\0")
        ask("cuMemFree", memory)


@step("a launch with more threads than a block has is INVALID_VALUE and does nothing")
def _():
    with Primary(), Loaded() as loaded:
        memory = ask("cuMemAlloc", 4)
        ask("cuMemsetD32", memory, 5, 1)
        expect(loaded.launch(memory, 3, 1, block=4096), "CUDA_ERROR_INVALID_VALUE")
        ask("cuCtxSynchronize")
        expect(bytes_at(memory, 4), b"\x05\0\0\0")
        ask("cuMemFree", memory)


@step("the occupancy of a kernel is at least one block, and its best block is a block")
def _():
    with Primary(), Loaded() as loaded:
        function = ask("cuKernelGetFunction", loaded.kernel)
        blocks = ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, 128, 0)
        expect(blocks >= 1, True, "blocks")


@step("the driver's linker puts PTX together, and the result is loaded")
def _():
    with Primary():
        link = ask("cuLinkCreate", 0, [], [])
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        ask("cuLinkAddData", link, kind, FILL_PTX, len(FILL_PTX), b"words.ptx", 0, [], [])
        image, size = ask("cuLinkComplete", link)
        expect(size > 0, True, "size of the image")
        module = ask("cuModuleLoadData", ctypes.string_at(image, size))
        ask("cuModuleGetFunction", module, b"fill_words")
        ask("cuModuleUnload", module)
        ask("cuLinkDestroy", link)
