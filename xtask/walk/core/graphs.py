"""Graphs by definition."""

import os
import tempfile

from cuda.core.graph import GraphDefinition

from core.captures import buffers
from core.things import device, read
from walking import expect, step


@step("a definition has the nodes and edges that were put in, and its executable does them")
def _():
    first = device()
    stream = first.create_stream()
    source, target = buffers(first, stream, 2)
    definition = GraphDefinition()
    fill = definition.memset(source, 8, 16)
    copy = fill.memcpy(target, source, 16)
    expect((len(definition.nodes()), len(definition.edges())), (2, 1))
    expect(list(copy.pred) == [fill], True, "stands behind the fill")
    graph = definition.instantiate()
    graph.launch(stream)
    expect(read(target, stream), b"\b" * 16)
    graph.close()


@step("a node that is changed changes the next executable, not the one before")
def _():
    first = device()
    stream = first.create_stream()
    (buffer,) = buffers(first, stream)
    definition = GraphDefinition()
    node = definition.memset(buffer, 1, 16)
    before = definition.instantiate()
    node.update(value=2)
    after = definition.instantiate()
    before.launch(stream)
    expect(read(buffer, stream), b"\1" * 16)
    after.launch(stream)
    expect(read(buffer, stream), b"\2" * 16)


@step("nodes are joined, taken out, and empty where they do nothing")
def _():
    device()
    definition = GraphDefinition()
    left, right = definition.empty(), definition.empty()
    both = definition.join(left, right)
    expect(len(definition.edges()), 2)
    both.destroy()
    expect((len(definition.nodes()), len(definition.edges())), (2, 0))


@step("a definition inside another is done with it")
def _():
    first = device()
    stream = first.create_stream()
    (buffer,) = buffers(first, stream)
    inner, outer = GraphDefinition(), GraphDefinition()
    inner.memset(buffer, 4, 16)
    outer.embed(inner)
    outer.instantiate().launch(stream)
    expect(read(buffer, stream), b"\4" * 16)


@step("a conditional of a definition runs the branch that its condition names")
def _():
    first = device()
    stream = first.create_stream()
    (buffer,) = buffers(first, stream)
    definition = GraphDefinition()
    node = definition.if_else(definition.create_condition(default_value=0))
    node.then.memset(buffer, 1, 16)
    node.else_.memset(buffer, 2, 16)
    definition.instantiate().launch(stream)
    expect(read(buffer, stream), b"\2" * 16)


@step("a definition is printed as a picture in DOT")
def _():
    device()
    definition = GraphDefinition()
    definition.empty()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.dot")
        definition.debug_dot_print(path)
        with open(path) as picture:
            expect("digraph" in picture.read(), True)
