"""Object code, kernels and launches."""

import ctypes

from cuda.core import LaunchConfig, Linker, LinkerOptions, ObjectCode, Program, launch
from cuda.pathfinder import DynamicLibNotFoundError

from bindings.calls import FILL_PTX
from core.things import fill_kernel, device, read
from walking import Skip, expect, raises, step

WORDS = 100


def arguments(buffer, value, count=WORDS):
    """The kernel's."""
    return buffer, ctypes.c_uint32(value), ctypes.c_uint32(count)


@step("a kernel tells its parameters and attributes")
def _():
    device()
    kernel = fill_kernel()
    expect(kernel.num_arguments, 3)
    expect([(one.offset, one.size) for one in kernel.arguments_info], [(0, 8), (8, 4), (12, 4)])
    expect(kernel.attributes.max_threads_per_block >= 32, True)
    expect(kernel.occupancy.max_active_blocks_per_multiprocessor(128, 0) >= 1, True)


@step("a kernel that isn't there, and code that is none, are errors")
def _():
    device()
    code = ObjectCode.from_ptx(FILL_PTX.rstrip(b"\0"))
    raises(Exception, lambda: code.get_kernel("no_such_kernel"), "NOT_FOUND")
    raises(Exception, lambda: ObjectCode.from_cubin(b"no cubin").get_kernel("any"))


@step("a kernel fills the words that it is given, each launch behind the one before")
def _():
    first = device()
    stream = first.create_stream()
    buffer = first.allocate(4 * WORDS, stream=stream)
    buffer.fill(0, stream=stream)
    kernel = fill_kernel()
    for value, count in ((3, WORDS), (4, WORDS // 2)):
        launch(stream, LaunchConfig(grid=4, block=32), kernel, *arguments(buffer, value, count))
    half = WORDS // 2
    expect(read(buffer, stream), b"\4\0\0\0" * half + b"\3\0\0\0" * half)
    buffer.close(stream)


@step("a block with too many threads is an error")
def _():
    first = device()
    stream = first.create_stream()
    buffer = first.allocate(4 * WORDS, stream=stream)
    config = LaunchConfig(grid=1, block=4096)
    raises(Exception, lambda: launch(stream, config, fill_kernel(), *arguments(buffer, 1)))
    stream.sync()


CPP = """
extern "C" __global__ void fill_words(unsigned* words, unsigned value, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = value;
}
"""


@step("C++ is compiled for the device, and its kernel does what it says")
def _():
    first = device()
    try:
        code = Program(CPP, "c++").compile("cubin")
    except DynamicLibNotFoundError as why:
        raise Skip("there is no NVRTC") from why
    kernel = code.get_kernel("fill_words")
    expect(kernel.num_arguments, 3)
    stream = first.create_stream()
    buffer = first.allocate(4 * WORDS, stream=stream)
    launch(stream, LaunchConfig(grid=4, block=32), kernel, *arguments(buffer, 1))
    expect(read(buffer, stream), b"\1\0\0\0" * WORDS)
    buffer.close(stream)


@step("PTX is linked for the device, by nvJitLink or by the driver")
def _():
    first = device()
    options = LinkerOptions(arch=f"sm_{first.arch}")
    code = Linker(ObjectCode.from_ptx(FILL_PTX.rstrip(b"\0")), options=options).link("cubin")
    expect(code.get_kernel("fill_words").num_arguments, 3)
