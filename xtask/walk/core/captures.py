"""Graphs by capture: builders."""

from cuda.core import GraphMemoryResource
from cuda.core.graph import GraphCompleteOptions

from core.things import device, read
from walking import expect, raises, step


def buffers(first, stream, count=1):
    """Zeroed memory."""
    made = [first.allocate(16, stream=stream) for _ in range(count)]
    for one in made:
        one.fill(0, stream=stream)
    stream.sync()
    return made


@step("what a builder captures is done at each launch")
def _():
    first = device()
    stream = first.create_stream()
    (buffer,) = buffers(first, stream)
    builder = first.create_graph_builder().begin_building()
    expect(builder.is_building, True)
    buffer.fill(9, stream=builder)
    graph = builder.end_building().complete()
    expect(read(buffer, stream), b"\0" * 16, "before")
    graph.upload(stream)
    graph.launch(stream)
    expect(read(buffer, stream), b"\t" * 16, "after")
    graph.close()
    builder.close()


@step("a builder that splits has branches, which are joined again")
def _():
    first = device()
    stream = first.create_stream()
    one, other = buffers(first, stream, 2)
    builder = first.create_graph_builder().begin_building()
    left, right = builder.split(2)
    one.fill(1, stream=left)
    other.fill(2, stream=right)
    builder = type(builder).join(left, right)
    graph = builder.end_building().complete()
    graph.launch(stream)
    expect((read(one, stream), read(other, stream)), (b"\1" * 16, b"\2" * 16))


@step("a host callback of a graph runs at each launch")
def _():
    first = device()
    stream = first.create_stream()
    ran = []
    builder = first.create_graph_builder().begin_building()
    builder.callback(lambda: ran.append(1))
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    expect(len(ran), 3)


@step("a branch runs where its condition isn't zero")
def _():
    first = device()
    stream = first.create_stream()
    for value, wanted in ((0, b"\0"), (1, b"\5")):
        (buffer,) = buffers(first, stream)
        builder = first.create_graph_builder().begin_building()
        branch = builder.if_then(builder.create_condition(default_value=value)).begin_building()
        buffer.fill(5, stream=branch)
        branch.end_building()
        graph = builder.end_building().complete()
        graph.launch(stream)
        expect(read(buffer, stream), wanted * 16, f"with the condition {value}")


@step("memory of a graph is allocated and freed by its launches")
def _():
    first = device()
    stream = first.create_stream()
    (result,) = buffers(first, stream)
    builder = first.create_graph_builder().begin_building()
    inside = GraphMemoryResource(first).allocate(16, stream=builder)
    inside.fill(6, stream=builder)
    result.copy_from(inside, stream=builder)
    inside.close(builder)
    graph = builder.end_building().complete(GraphCompleteOptions(auto_free_on_launch=True))
    for _ in range(2):
        graph.launch(stream)
    expect(read(result, stream), b"\6" * 16)


@step("a graph is updated by a builder of the same shape, and refuses another's")
def _():
    first = device()
    stream = first.create_stream()
    (buffer,) = buffers(first, stream)

    def built(value, times=1):
        builder = first.create_graph_builder().begin_building()
        for _ in range(times):
            buffer.fill(value, stream=builder)
        return builder.end_building()

    graph = built(1).complete()
    graph.update(built(2))
    graph.launch(stream)
    expect(read(buffer, stream), b"\2" * 16)
    raises(Exception, lambda: graph.update(built(3, times=2)))
    graph.launch(stream)
    expect(read(buffer, stream), b"\2" * 16, "as before the refusal")


@step("a builder that isn't building has nothing to end")
def _():
    builder = device().create_graph_builder()
    raises(RuntimeError, builder.end_building)
    raises(RuntimeError, builder.complete)
