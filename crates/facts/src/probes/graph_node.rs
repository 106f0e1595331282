//! Nodes of graphs: added, told, changed, taken out.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::{
    ptr::{null, null_mut},
    sync::atomic::AtomicU32,
};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::*;
use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphAddKernelNode_v2, "a graph has a kernel node", |c| {
        c.current()?;
        let (graph, params) = (c.graph()?, nop_params(c)?);
        step(move |c| {
            let params = params;
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddKernelNode_v2(&raw mut node, graph, null(), 0, &raw const params.0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddKernelNode_v2, "a kernel node has a kernel and a shape", |c| {
        c.current()?;
        let (graph, params) = (c.graph()?, nop_params(c)?.0);
        let mut node = CUgraphNode::NULL;
        let out = &raw mut node;
        let none = CUDA_KERNEL_NODE_PARAMS { kern: CUkernel::NULL, ..params };
        ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const none), "no_kernel");
        let flat = CUDA_KERNEL_NODE_PARAMS { gridDimX: 0, ..params };
        ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const flat), "grid");
        let wide = CUDA_KERNEL_NODE_PARAMS { blockDimX: 4096, ..params };
        ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const wide), "block");
        ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, null()), "no_params");
        ask!(
            c.cuGraphAddKernelNode_v2(out, CUgraph::NULL, null(), 0, &raw const params),
            "no_graph"
        );
        ask!(c.cuGraphAddKernelNode_v2(null_mut(), graph, null(), 0, &raw const params), "nowhere");
        let with = kernel_params(c.kernel(c"fill")?, params.ctx);
        ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const with), "no_list");
        Ok(())
    }),
    Probe::case(
        Call::cuGraphAddKernelNode_v2,
        "a kernel node's context is named or current",
        |c| {
            let context = c.current()?;
            let (graph, params) = (c.graph()?, nop_params(c)?.0);
            let mut node = CUgraphNode::NULL;
            let out = &raw mut node;
            let unnamed = CUDA_KERNEL_NODE_PARAMS { ctx: CUcontext::NULL, ..params };
            ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const unnamed), "current");
            let mut function = CUfunction::NULL;
            must!(c.cuKernelGetFunction(&raw mut function, params.kern));
            let of_function =
                CUDA_KERNEL_NODE_PARAMS { func: function, kern: CUkernel::NULL, ..params };
            ask!(
                c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const of_function),
                "function"
            );
            let mut told = CUDA_KERNEL_NODE_PARAMS::default();
            ask!(c.cuGraphKernelNodeGetParams_v2(node, &raw mut told), "told");
            c.holds("function", told.func == function);
            c.holds("kernel", !told.kern.is_null());
            c.holds("context", told.ctx == context);
            let as_function =
                CUDA_KERNEL_NODE_PARAMS { func: CUfunction(params.kern.0), ..unnamed };
            ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const as_function), "cast");
            c.empty_stack();
            ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const params), "named");
            ask!(c.cuGraphAddKernelNode_v2(out, graph, null(), 0, &raw const unnamed), "without");
            Ok(())
        },
    ),
    Probe::crashes(
        Call::cuGraphAddKernelNode_v2,
        "a function is no kernel node with no context current",
        |c| {
            c.current()?;
            let (graph, params) = (c.graph()?, nop_params(c)?.0);
            let mut function = CUfunction::NULL;
            must!(c.cuKernelGetFunction(&raw mut function, params.kern));
            let params = CUDA_KERNEL_NODE_PARAMS { func: function, ..params };
            c.empty_stack();
            let mut node = CUgraphNode::NULL;
            crash!(c.cuGraphAddKernelNode_v2(&raw mut node, graph, null(), 0, &raw const params));
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphKernelNodeGetParams_v2, "a kernel node tells its parameters", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, params) = kernel_node(c, graph)?;
        let (params, kernel) = (Sent(params), params.kern);
        step(move |c| {
            let mut told = CUDA_KERNEL_NODE_PARAMS::default();
            ask!(c.cuGraphKernelNodeGetParams_v2(node, &raw mut told));
            if c.observes() {
                let params = params;
                c.note("grid", told.gridDimX);
                c.holds("kernel", told.kern == kernel);
                c.holds("function", !told.func.is_null());
                c.holds("context", told.ctx == params.0.ctx);
                c.holds("list", !told.kernelParams.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphKernelNodeGetParams_v2, "an empty node tells no kernel", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_KERNEL_NODE_PARAMS::default();
        ask!(c.cuGraphKernelNodeGetParams_v2(node, &raw mut told));
        ask!(c.cuGraphKernelNodeGetParams_v2(CUgraphNode::NULL, &raw mut told), "null");
        ask!(c.cuGraphKernelNodeGetParams_v2(node, null_mut()), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuGraphKernelNodeSetParams_v2, "a kernel node is changed", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, params) = kernel_node(c, graph)?;
        let params = Sent(CUDA_KERNEL_NODE_PARAMS { gridDimX: 2, ..params });
        step(move |c| {
            let params = params;
            ask!(c.cuGraphKernelNodeSetParams_v2(node, &raw const params.0));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphKernelNodeSetParams_v2,
        "an empty node isn't made a kernel node",
        |c| {
            c.current()?;
            let (graph, params) = (c.graph()?, nop_params(c)?.0);
            let node = c.node(graph)?;
            ask!(c.cuGraphKernelNodeSetParams_v2(node, &raw const params));
            ask!(c.cuGraphKernelNodeSetParams_v2(CUgraphNode::NULL, &raw const params), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphKernelNodeGetAttribute, "a kernel node has a priority", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, _) = kernel_node(c, graph)?;
        step(move |c| {
            let mut value = CUkernelNodeAttrValue::default();
            ask!(c.cuGraphKernelNodeGetAttribute(node, PRIORITY, &raw mut value));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphKernelNodeGetAttribute,
        "a kernel node has no unknown attribute",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let (node, _) = kernel_node(c, graph)?;
            let mut value = CUkernelNodeAttrValue::default();
            let out = &raw mut value;
            ask!(c.cuGraphKernelNodeGetAttribute(node, CUlaunchAttributeID(999), out));
            ask!(c.cuGraphKernelNodeGetAttribute(CUgraphNode::NULL, PRIORITY, out), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphKernelNodeSetAttribute, "a kernel node's priority is set", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, _) = kernel_node(c, graph)?;
        step(move |c| {
            let mut value = CUkernelNodeAttrValue { priority: -2 };
            ask!(c.cuGraphKernelNodeSetAttribute(node, PRIORITY, &raw const value));
            if c.observes() {
                value.priority = 9;
                ask!(c.cuGraphKernelNodeGetAttribute(node, PRIORITY, &raw mut value), "told");
                // SAFETY: of this attribute the driver writes this view.
                c.note("priority", unsafe { value.priority });
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphKernelNodeSetAttribute, "an empty node has no priority", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let value = CUkernelNodeAttrValue { priority: -2 };
        ask!(c.cuGraphKernelNodeSetAttribute(node, PRIORITY, &raw const value));
        Ok(())
    }),
    Probe::works(
        Call::cuGraphKernelNodeCopyAttributes,
        "attributes are taken from another node",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let ((to, _), (from, _)) = (kernel_node(c, graph)?, kernel_node(c, graph)?);
            step(move |c| {
                ask!(c.cuGraphKernelNodeCopyAttributes(to, from));
                Ok(())
            })
        },
    ),
    Probe::fails(Call::cuGraphKernelNodeCopyAttributes, "an empty node gives no attributes", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (to, _) = kernel_node(c, graph)?;
        let from = c.node(graph)?;
        ask!(c.cuGraphKernelNodeCopyAttributes(to, from));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddMemcpyNode, "a graph has a copy", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        step(move |c| {
            let params = copy_params(memory + 32, memory, 32);
            let mut node = CUgraphNode::NULL;
            let (out, params) = (&raw mut node, &raw const params);
            ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, params, context));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddMemcpyNode, "a copy is of something", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let good = copy_params(memory + 32, memory, 32);
        let mut node = CUgraphNode::NULL;
        let out = &raw mut node;
        let none = copy_params(memory + 32, memory, 0);
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, &raw const none, context), "no_bytes");
        let flat = CUDA_MEMCPY3D { Depth: 0, ..good };
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, &raw const flat, context), "no_depth");
        let nowhere = copy_params(0, memory, 32);
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, &raw const nowhere, context), "to_null");
        let unknown = CUDA_MEMCPY3D { srcMemoryType: CUmemorytype(99), ..good };
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, &raw const unknown, context), "type");
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, null(), context), "no_params");
        let null_graph = CUgraph::NULL;
        ask!(c.cuGraphAddMemcpyNode(out, null_graph, null(), 0, &raw const good, context), "graph");
        Ok(())
    }),
    Probe::case(Call::cuGraphAddMemcpyNode, "a copy's context is named, or not", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let params = copy_params(memory + 32, memory, 32);
        let mut node = CUgraphNode::NULL;
        let (out, params, none) = (&raw mut node, &raw const params, CUcontext::NULL);
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, params, none), "current");
        c.empty_stack();
        ask!(c.cuGraphAddMemcpyNode(out, graph, null(), 0, params, none), "without");
        Ok(())
    }),
    Probe::works(Call::cuGraphMemcpyNodeGetParams, "a copy tells its parameters", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = copy_node(c, graph, copy_params(memory + 32, memory, 32))?;
        step(move |c| {
            let mut told = CUDA_MEMCPY3D::default();
            ask!(c.cuGraphMemcpyNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.note("width", told.WidthInBytes);
                c.note("height", told.Height);
                c.holds("from", told.srcDevice == memory);
                c.note("kind", told.srcMemoryType.0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemcpyNodeGetParams, "an empty node tells no copy", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_MEMCPY3D::default();
        ask!(c.cuGraphMemcpyNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphMemcpyNodeSetParams, "a copy is changed", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = copy_node(c, graph, copy_params(memory + 32, memory, 32))?;
        step(move |c| {
            let params = copy_params(memory + 32, memory, 16);
            ask!(c.cuGraphMemcpyNodeSetParams(node, &raw const params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemcpyNodeSetParams, "a copy isn't changed to nothing", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = copy_node(c, graph, copy_params(memory + 32, memory, 32))?;
        let params = copy_params(memory + 32, memory, 0);
        ask!(c.cuGraphMemcpyNodeSetParams(node, &raw const params));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddMemsetNode, "a graph has a fill", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        step(move |c| {
            let params = fill_params(memory, 1, 16);
            let mut node = CUgraphNode::NULL;
            let (out, params) = (&raw mut node, &raw const params);
            ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, params, context));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddMemsetNode, "a fill is of words that there are", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let good = fill_params(memory, 1, 16);
        let mut node = CUgraphNode::NULL;
        let out = &raw mut node;
        let odd = CUDA_MEMSET_NODE_PARAMS { elementSize: 3, ..good };
        ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const odd, context), "size");
        let none = CUDA_MEMSET_NODE_PARAMS { width: 0, ..good };
        ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const none, context), "no_width");
        let flat = CUDA_MEMSET_NODE_PARAMS { height: 0, ..good };
        ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const flat, context), "no_height");
        let wide = CUDA_MEMSET_NODE_PARAMS { elementSize: 1, value: 0x1234, ..good };
        ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const wide, context), "value");
        let astray = CUDA_MEMSET_NODE_PARAMS { dst: memory + 2, width: 4, ..good };
        ask!(
            c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const astray, context),
            "unaligned"
        );
        let none = CUDA_MEMSET_NODE_PARAMS { dst: 0, ..good };
        ask!(c.cuGraphAddMemsetNode(out, graph, null(), 0, &raw const none, context), "to_null");
        Ok(())
    }),
    Probe::works(Call::cuGraphMemsetNodeGetParams, "a fill tells its parameters", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = fill_node(c, graph, fill_params(memory, 7, 16))?;
        step(move |c| {
            let mut told = CUDA_MEMSET_NODE_PARAMS::default();
            ask!(c.cuGraphMemsetNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.note("value", told.value);
                c.note("size", told.elementSize);
                c.note("width", told.width);
                c.note("height", told.height);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemsetNodeGetParams, "an empty node tells no fill", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_MEMSET_NODE_PARAMS::default();
        ask!(c.cuGraphMemsetNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphMemsetNodeSetParams, "a fill is changed", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = fill_node(c, graph, fill_params(memory, 7, 16))?;
        step(move |c| {
            let params = fill_params(memory, 8, 8);
            ask!(c.cuGraphMemsetNodeSetParams(node, &raw const params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemsetNodeSetParams, "a fill isn't changed to odd words", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let node = fill_node(c, graph, fill_params(memory, 7, 16))?;
        let odd = CUDA_MEMSET_NODE_PARAMS { elementSize: 3, ..fill_params(memory, 7, 16) };
        ask!(c.cuGraphMemsetNodeSetParams(node, &raw const odd));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddHostNode, "a graph has a host node", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        step(move |c| {
            let params = host_params(ran);
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddHostNode(&raw mut node, graph, null(), 0, &raw const params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddHostNode, "a host node has a function", |c| {
        c.device()?;
        let graph = c.graph()?;
        let params = CUDA_HOST_NODE_PARAMS::default();
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddHostNode(&raw mut node, graph, null(), 0, &raw const params));
        ask!(c.cuGraphAddHostNode(&raw mut node, graph, null(), 0, null()), "no_params");
        Ok(())
    }),
    Probe::works(Call::cuGraphHostNodeGetParams, "a host node tells its parameters", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        let node = host_node(c, graph, ran)?;
        step(move |c| {
            let mut told = CUDA_HOST_NODE_PARAMS::default();
            ask!(c.cuGraphHostNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.holds("data", told.userData == host::user(ran));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphHostNodeGetParams, "an empty node tells no host function", |c| {
        c.device()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_HOST_NODE_PARAMS::default();
        ask!(c.cuGraphHostNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphHostNodeSetParams, "a host node is changed", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        let node = host_node(c, graph, ran)?;
        step(move |c| {
            let params = host_params(ran);
            ask!(c.cuGraphHostNodeSetParams(node, &raw const params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphHostNodeSetParams, "a host node keeps a function", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        let node = host_node(c, graph, ran)?;
        let params = CUDA_HOST_NODE_PARAMS::default();
        ask!(c.cuGraphHostNodeSetParams(node, &raw const params));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddChildGraphNode, "a graph has a graph inside", |c| {
        c.device()?;
        let (graph, inner) = (c.graph()?, c.graph()?);
        c.node(inner)?;
        step(move |c| {
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddChildGraphNode(&raw mut node, graph, null(), 0, inner));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddChildGraphNode, "null isn't a graph inside", |c| {
        c.device()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddChildGraphNode(&raw mut node, graph, null(), 0, CUgraph::NULL));
        Ok(())
    }),
    Probe::crashes(Call::cuGraphAddChildGraphNode, "a graph isn't inside of itself", |c| {
        c.device()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        crash!(c.cuGraphAddChildGraphNode(&raw mut node, graph, null(), 0, graph));
        Ok(())
    }),
    Probe::works(Call::cuGraphChildGraphNodeGetGraph, "the graph inside is a copy", |c| {
        c.device()?;
        let (graph, inner) = (c.graph()?, c.graph()?);
        let original = c.node(inner)?;
        let node = child_node(c, graph, inner)?;
        step(move |c| {
            let mut inside = CUgraph::NULL;
            ask!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside));
            if c.observes() {
                c.holds("same", inside == inner);
                let mut found = CUgraphNode::NULL;
                ask!(c.cuGraphNodeFindInClone(&raw mut found, original, inside), "find");
                ask!(c.cuGraphDestroy(inside), "destroy");
                let nodes = count_nodes(c, inside)?;
                c.note("nodes", nodes);
                ask!(c.cuGraphDestroyNode(node), "node");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphChildGraphNodeGetGraph, "an empty node has no graph inside", |c| {
        c.device()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut inside = CUgraph::NULL;
        ask!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside));
        Ok(())
    }),
    Probe::case(
        Call::cuGraphChildGraphNodeGetGraph,
        "a graph inside may be made executable",
        |c| {
            c.current()?;
            let (graph, inner) = (c.graph()?, c.graph()?);
            c.node(inner)?;
            let node = child_node(c, graph, inner)?;
            let mut inside = CUgraph::NULL;
            must!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside));
            ask_to_instantiate(c, inside, "copied");
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphNodeFindInClone, "a node is found in a copy", |c| {
        c.device()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut copy = CUgraph::NULL;
        must!(c.cuGraphClone(&raw mut copy, graph));
        step(move |c| {
            let mut found = CUgraphNode::NULL;
            ask!(c.cuGraphNodeFindInClone(&raw mut found, node, copy));
            if c.observes() {
                c.holds("same", found == node);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeFindInClone, "a node isn't found where it has no copy", |c| {
        c.device()?;
        let (graph, other) = (c.graph()?, c.graph()?);
        let node = c.node(graph)?;
        let mut found = CUgraphNode::NULL;
        ask!(c.cuGraphNodeFindInClone(&raw mut found, node, other));
        ask!(c.cuGraphNodeFindInClone(&raw mut found, node, graph), "own");
        Ok(())
    }),
    Probe::works(Call::cuGraphDestroyNode, "a node is taken out", |c| {
        c.device()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        step(move |c| {
            ask!(c.cuGraphDestroyNode(node));
            if c.observes() {
                let nodes = count_nodes(c, graph)?;
                c.note("nodes", nodes);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphDestroyNode, "null isn't taken out", |c| {
        c.device()?;
        ask!(c.cuGraphDestroyNode(CUgraphNode::NULL));
        Ok(())
    }),
    Probe::case(Call::cuGraphDestroyNode, "a node isn't taken out under a capture", |c| {
        c.current()?;
        let (graph, stream) = (c.graph()?, c.stream()?);
        let node = c.node(graph)?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        must!(c.cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, mode));
        ask!(c.cuGraphDestroyNode(node));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::works(Call::cuGraphDebugDotPrint, "a graph is drawn", |c| {
        c.device()?;
        let graph = c.graph()?;
        c.node(graph)?;
        step(move |c| {
            ask!(c.cuGraphDebugDotPrint(graph, c"/dev/null".as_ptr(), 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphDebugDotPrint, "a graph isn't drawn nowhere", |c| {
        c.device()?;
        let graph = c.graph()?;
        let nowhere = c"/nonexistent/folder/graph.dot".as_ptr();
        ask!(c.cuGraphDebugDotPrint(graph, nowhere, 0), "folder");
        ask!(c.cuGraphDebugDotPrint(graph, null(), 0), "null");
        ask!(c.cuGraphDebugDotPrint(CUgraph::NULL, c"/dev/null".as_ptr(), 0), "graph");
        Ok(())
    }),
];

const PRIORITY: CUkernelNodeAttrID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;

/// Parameters of a kernel node without a list, which hold no pointer.
#[derive(Clone, Copy)]
struct Sent(CUDA_KERNEL_NODE_PARAMS);

// SAFETY: handles are words, and both lists are null.
unsafe impl Send for Sent {}

fn nop_params(c: &Ctx) -> Made<Sent> {
    Ok(Sent(kernel_params(c.kernel(c"nop")?, c.what_is_current()?)))
}
