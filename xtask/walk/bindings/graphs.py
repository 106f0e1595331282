"""Graphs made by hand: nodes, edges, executables, updates, conditions, user objects."""

import ctypes

from cuda.bindings import driver

from bindings.calls import Primary, ask, bytes_at, refused
from walking import expect, step


def fill(memory, value, size=4):
    """The parameters of a node that fills bytes."""
    params = driver.CUDA_MEMSET_NODE_PARAMS()
    params.dst, params.value = memory, value
    params.elementSize, params.width, params.height = 1, size, 1
    return params


@step("nodes are added behind others, and a graph tells its nodes, edges and kinds")
def _():
    with Primary() as context:
        graph, memory = ask("cuGraphCreate", 0), ask("cuMemAlloc", 4)
        root = ask("cuGraphAddEmptyNode", graph, [], 0)
        first = ask("cuGraphAddMemsetNode", graph, [root], 1, fill(memory, 1), context)
        second = ask("cuGraphAddMemsetNode", graph, [first], 1, fill(memory, 2), context)
        expect(ask("cuGraphGetNodes", graph, 0)[1], 3, "nodes")
        expect(ask("cuGraphGetRootNodes", graph, 0)[1], 1, "roots")
        kinds = [ask("cuGraphNodeGetType", node).name for node in (root, first, second)]
        empty, memset = "CU_GRAPH_NODE_TYPE_EMPTY", "CU_GRAPH_NODE_TYPE_MEMSET"
        expect(kinds, [empty, memset, memset])
        expect(ask("cuGraphMemsetNodeGetParams", second).value, 2, "value of the node")
        ask("cuGraphDestroyNode", root)
        expect(ask("cuGraphGetNodes", graph, 0)[1], 2, "nodes without the root")
        ask("cuGraphDestroy", graph)
        ask("cuMemFree", memory)


@step("edges that close a circle are found when the graph is made executable")
def _():
    with Primary():
        graph = ask("cuGraphCreate", 0)
        first = ask("cuGraphAddEmptyNode", graph, [], 0)
        second = ask("cuGraphAddEmptyNode", graph, [first], 1)
        ask("cuGraphAddDependencies", graph, [second], [first], None, 1)
        refused("INVALID_VALUE", "cuGraphInstantiate", graph, 0)
        ask("cuGraphRemoveDependencies", graph, [second], [first], None, 1)
        ask("cuGraphExecDestroy", ask("cuGraphInstantiate", graph, 0))
        ask("cuGraphDestroy", graph)


@step("an executable does what the graph did when it was made, until a node of it is changed")
def _():
    with Primary() as context:
        graph, memory = ask("cuGraphCreate", 0), ask("cuMemAlloc", 4)
        stream = ask("cuStreamCreate", 1)
        node = ask("cuGraphAddMemsetNode", graph, [], 0, fill(memory, 1), context)
        executable = ask("cuGraphInstantiate", graph, 0)
        ask("cuGraphMemsetNodeSetParams", node, fill(memory, 2))

        def launched():
            ask("cuGraphLaunch", executable, stream)
            ask("cuStreamSynchronize", stream)
            return bytes_at(memory, 1)[0]

        expect(launched(), 1, "as it was")
        ask("cuGraphExecMemsetNodeSetParams", executable, node, fill(memory, 3), context)
        expect(launched(), 3, "changed in the executable")
        ask("cuGraphExecUpdate", executable, graph)
        expect(launched(), 2, "updated by the graph")
        ask("cuGraphExecDestroy", executable)
        ask("cuGraphDestroy", graph)
        ask("cuStreamDestroy", stream)
        ask("cuMemFree", memory)


@step("an update by a graph of another shape is refused, and the executable goes on as it was")
def _():
    with Primary() as context:
        graph, other = ask("cuGraphCreate", 0), ask("cuGraphCreate", 0)
        memory = ask("cuMemAlloc", 4)
        ask("cuGraphAddMemsetNode", graph, [], 0, fill(memory, 1), context)
        ask("cuGraphAddEmptyNode", other, [], 0)
        executable = ask("cuGraphInstantiate", graph, 0)
        refused("GRAPH_EXEC_UPDATE_FAILURE", "cuGraphExecUpdate", executable, other)
        ask("cuGraphLaunch", executable, 0)
        ask("cuCtxSynchronize")
        expect(bytes_at(memory, 4), b"\1\1\1\1")
        ask("cuGraphExecDestroy", executable)
        for one in (graph, other):
            ask("cuGraphDestroy", one)
        ask("cuMemFree", memory)


@step("a copy of a graph has nodes of its own, and a graph inside a node is a copy too")
def _():
    with Primary() as context:
        graph, memory = ask("cuGraphCreate", 0), ask("cuMemAlloc", 4)
        node = ask("cuGraphAddMemsetNode", graph, [], 0, fill(memory, 9), context)
        clone = ask("cuGraphClone", graph)
        found = ask("cuGraphNodeFindInClone", node, clone)
        expect(int(found) != int(node), True, "another node")
        outer = ask("cuGraphCreate", 0)
        inside = ask("cuGraphAddChildGraphNode", outer, [], 0, graph)
        child = ask("cuGraphChildGraphNodeGetGraph", inside)
        expect(ask("cuGraphGetNodes", child, 0)[1], 1, "nodes inside")
        executable = ask("cuGraphInstantiate", outer, 0)
        ask("cuGraphLaunch", executable, 0)
        ask("cuCtxSynchronize")
        expect(bytes_at(memory, 4), b"\t\t\t\t")
        ask("cuGraphExecDestroy", executable)
        for one in (graph, clone, outer):
            ask("cuGraphDestroy", one)
        ask("cuMemFree", memory)


@step("a host node runs at each launch")
def _():
    ran = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ran.append(1))
    with Primary():
        graph = ask("cuGraphCreate", 0)
        params = driver.CUDA_HOST_NODE_PARAMS()
        params.fn = driver.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
        ask("cuGraphAddHostNode", graph, [], 0, params)
        executable = ask("cuGraphInstantiate", graph, 0)
        for _ in range(3):
            ask("cuGraphLaunch", executable, 0)
        ask("cuCtxSynchronize")
        expect(len(ran), 3)
        ask("cuGraphExecDestroy", executable)
        ask("cuGraphDestroy", graph)


@step("a user object's destructor runs once, when the last reference is given back")
def _():
    ended = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: ended.append(data))
    with Primary():
        pointer = driver.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
        sync = driver.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        held = ask("cuUserObjectCreate", 42, pointer, 1, sync)
        graph = ask("cuGraphCreate", 0)
        ask("cuGraphRetainUserObject", graph, held, 1, 0)
        ask("cuUserObjectRelease", held, 1)
        expect(ended, [], "while the graph has it")
        ask("cuGraphDestroy", graph)
        expect(ended, [42], "after the graph")


@step("a conditional node runs its body where its condition isn't zero")
def _():
    with Primary() as context:
        memory = ask("cuMemAlloc", 4)
        ask("cuMemsetD8", memory, 0, 4)
        for value, wanted in ((0, b"\0\0\0\0"), (1, b"\5\5\5\5")):
            graph = ask("cuGraphCreate", 0)
            flag = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
            handle = ask("cuGraphConditionalHandleCreate", graph, context, value, flag)
            params = driver.CUgraphNodeParams()
            params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
            params.conditional.handle = handle
            params.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
            params.conditional.size = 1
            params.conditional.ctx = context
            ask("cuGraphAddNode", graph, [], None, 0, params)
            body = params.conditional.phGraph_out[0]
            ask("cuGraphAddMemsetNode", body, [], 0, fill(memory, 5), context)
            executable = ask("cuGraphInstantiate", graph, 0)
            ask("cuGraphLaunch", executable, 0)
            ask("cuCtxSynchronize")
            expect(bytes_at(memory, 4), wanted, f"with the condition {value}")
            ask("cuGraphExecDestroy", executable)
            ask("cuGraphDestroy", graph)
        ask("cuMemFree", memory)
