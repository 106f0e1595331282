//! Nodes of each kind, run: what they do, and what is told of them.

#![expect(unsafe_code, reason = "adds kernels, reads host memory that graphs write")]

use cuhold_graph::{
    BatchOperation, Edge, EdgeKind, Graph, NodeKind, NodeParams, SharedHost,
    handles::{ErrorKind, ExternalSemaphore, LaunchConfig, Stream, driver_sys::ffi::*},
    memory::{Buffer, GraphMemory, Grid, HostBuffer},
};
use cuhold_testkit::{Kit, PTX};
use std::sync::Arc;

use super::support::{run, run_simulated, taken_back};

fn graph(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Launches the graph once, behind what the stream holds, and waits for it.
fn launch(graph: &mut Graph, stream: &Stream) {
    let mut exec = graph.instantiate().unwrap();
    exec.launch(stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn ranges_and_boxes_of_one_two_and_three_dimensions_are_copied() {
    run(|t| {
        let stream = stream(t);
        let numbers: Vec<u32> = (0..60).collect();
        let from = Buffer::from_slice(&stream, &numbers).unwrap();
        let mut row = Buffer::<u32>::zeroed(&stream, 5).unwrap();
        let mut rows = Buffer::<u32>::zeroed(&stream, 4).unwrap();
        let mut cube = Buffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut graph = graph(t);
        graph.copy(&[], &mut row, from.view(10..15).unwrap()).unwrap();
        // Of rows of 10 elements the third and fourth of the second and third row.
        let part = Grid::rect([2, 2]).pitch(10);
        let source = from.view(12..).unwrap().grid(part).unwrap();
        let target = rows.as_view_mut().into_grid(Grid::rect([2, 2])).unwrap();
        graph.copy(&[], target, source).unwrap();
        // Of slices of three rows of ten the first two elements of the first two rows of both.
        let part = Grid::cube([2, 2, 2]).pitch(10).slice_rows(3);
        let source = from.as_view().grid(part).unwrap();
        let target = cube.as_view_mut().into_grid(Grid::cube([2, 2, 2])).unwrap();
        let node = graph.copy(&[], target, source).unwrap();
        assert_eq!(graph.kind(node).unwrap(), NodeKind::Copy);
        launch(&mut graph, &stream);
        assert_eq!(row.to_vec().unwrap(), [10, 11, 12, 13, 14]);
        assert_eq!(rows.to_vec().unwrap(), [12, 13, 22, 23]);
        assert_eq!(cube.to_vec().unwrap(), [0, 1, 10, 11, 30, 31, 40, 41]);
        let NodeParams::Copy(copy) = graph.params(node).unwrap() else { panic!() };
        assert_eq!((copy.WidthInBytes, copy.Height, copy.Depth), (8, 2, 2));
        assert_eq!((copy.srcPitch, copy.srcHeight), (40, 3));
    });
}

#[test]
fn copies_of_other_sizes_and_of_no_bytes_are_refused_with_the_reason() {
    run(|t| {
        let stream = stream(t);
        let four = Buffer::<u32>::zeroed(&stream, 4).unwrap();
        let (mut three, mut none) = (
            Buffer::<u32>::zeroed(&stream, 3).unwrap(),
            Buffer::<u32>::zeroed(&stream, 0).unwrap(),
        );
        let mut graph = graph(t);
        let ((), calls) = t.calls(|| {
            for error in [
                graph.copy(&[], &mut three, &four).unwrap_err(),
                graph.copy(&[], &mut none, four.view(..0).unwrap()).unwrap_err(),
                graph.copy_from_host(&[], &mut three, vec![0; 4]).unwrap_err(),
                graph.fill(&[], &mut none, 1).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            }
        });
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn scenario_s38_host_memory_that_a_graph_reads_is_the_graph_s() {
    run(|t| {
        let stream = stream(t);
        let (mut one, mut two) = (
            Buffer::<u32>::zeroed(&stream, 3).unwrap(),
            Buffer::<u32>::zeroed(&stream, 2).unwrap(),
        );
        let mut graph = graph(t);
        graph.copy_from_host(&[], &mut one, vec![7, 8, 9]).unwrap();
        let shared: Arc<[u32]> = Arc::from([5, 6]);
        graph.copy_from_host(&[], &mut two, Arc::clone(&shared)).unwrap();
        assert_eq!(Arc::strong_count(&shared), 2);
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        for _ in 0..2 {
            one.fill(0).unwrap();
            stream.synchronize().unwrap();
            exec.launch(&stream).unwrap();
            assert_eq!(one.to_vec().unwrap(), [7, 8, 9]);
            assert_eq!(two.to_vec().unwrap(), [5, 6]);
        }
    });
}

#[test]
fn shared_host_memory_is_read_as_it_is_at_each_launch_and_given_back_when_nobody_uses_it() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u32>::zeroed(&stream, 2).unwrap();
        let input = SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 2).unwrap());
        let output = SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 2).unwrap());
        let mut graph = graph(t);
        let up = graph.copy_from_shared(&[], &mut buffer, &input).unwrap();
        graph.copy_to_shared(up, &output, &buffer).unwrap();
        let mut exec = graph.instantiate().unwrap();
        for values in [[1, 2], [3, 4]] {
            // SAFETY: no launch is under way.
            unsafe { input.copy_from_slice(&values) }.unwrap();
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            // SAFETY: the launch is done.
            assert_eq!(unsafe { output.to_vec() }, values);
        }
        // SAFETY: no launch is under way.
        assert!(unsafe { input.copy_from_slice(&[1]) }.is_err());
        let output = output.into_inner().unwrap_err();
        drop((graph, exec));
        assert_eq!(*taken_back(t, output), [3, 4]);
    });
}

#[test]
fn memory_is_filled_with_values_of_every_width_that_repeats() {
    run(|t| {
        let stream = stream(t);
        let mut bytes = Buffer::<u8>::zeroed(&stream, 12).unwrap();
        let mut words = Buffer::<u64>::zeroed(&stream, 3).unwrap();
        let mut floats = Buffer::<f32>::zeroed(&stream, 3).unwrap();
        let mut graph = graph(t);
        let all = graph.fill(&[], &mut bytes, 1).unwrap();
        let middle = bytes.view_mut(1..).unwrap().into_grid(Grid::rect([2, 3]).pitch(4)).unwrap();
        graph.fill(all, middle, 9).unwrap();
        graph.fill(&[], &mut words, 0x1_0000_0001).unwrap();
        graph.fill(&[], &mut floats, 0.5).unwrap();
        let error = graph.fill(&[], &mut words, 1).unwrap_err();
        assert!(error.to_string().contains("value: the 8 bytes"), "{error}");
        launch(&mut graph, &stream);
        assert_eq!(bytes.to_vec().unwrap(), [1, 9, 9, 1, 1, 9, 9, 1, 1, 9, 9, 1]);
        assert_eq!(words.to_vec().unwrap(), [0x1_0000_0001; 3]);
        assert_eq!(floats.to_vec().unwrap(), [0.5; 3]);
    });
}

#[test]
fn a_graph_s_own_memory_is_used_and_freed_by_its_nodes_at_each_launch() {
    run(|t| {
        let stream = stream(t);
        let used = GraphMemory::new(t.device());
        let before = used.usage().unwrap().used_bytes;
        let mut result = Buffer::<u32>::zeroed(&stream, 100).unwrap();
        let mut graph = graph(t);
        let scratch = graph.allocate::<u32>(&[], 100).unwrap();
        let fill = t.device().load(PTX).unwrap().kernel("fill").unwrap();
        let config = LaunchConfig::for_len(100);
        // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: 100 words of memory that is there.
        let filled =
            unsafe { graph.kernel(scratch.node(), &fill, config, (scratch, 7_u32, 100_u32)) }
                .unwrap();
        let copied = graph.copy(filled, &mut result, scratch).unwrap();
        let freed = graph.free(copied, scratch).unwrap();
        let params = graph.params(scratch.node()).unwrap();
        let NodeParams::Allocate { ptr, bytes } = params else { panic!() };
        assert_eq!((ptr, bytes >= 400), (scratch.device_ptr(), true));
        let NodeParams::Free { ptr } = graph.params(freed).unwrap() else { panic!() };
        assert_eq!(ptr, scratch.device_ptr());
        let error = graph.free(copied, scratch).unwrap_err();
        assert!(error.to_string().contains("frees it already"), "{error}");
        let mut exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            result.fill(0).unwrap();
            exec.launch(&stream).unwrap();
            assert_eq!(result.to_vec().unwrap(), [7; 100]);
        }
        let error = graph.remove(copied).unwrap_err();
        assert!(error.to_string().contains("keeps its nodes and edges"), "{error}");
        assert!(graph.contains(copied));
        assert!(graph.try_clone().unwrap_err().to_string().contains("kind allocation"));
        drop((exec, graph));
        used.trim().unwrap();
        assert_eq!(used.usage().unwrap().used_bytes, before);
    });
}

#[test]
fn memory_of_another_graph_is_no_end_of_a_copy() {
    run(|t| {
        let (mut graph, mut other) = (graph(t), graph(t));
        let foreign = other.allocate::<u32>(&[], 4).unwrap();
        let error = graph.fill(&[], foreign, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    });
}

#[test]
fn values_are_written_and_waited_for() {
    run(|t| {
        let stream = stream(t);
        let mut flag = Buffer::<u32>::zeroed(&stream, 1).unwrap();
        let mut count = Buffer::<u64>::zeroed(&stream, 2).unwrap();
        stream.synchronize().unwrap();
        let mut graph = graph(t);
        let raise = BatchOperation::write(flag.as_view_mut(), 5).unwrap();
        graph.batch(&[], &[raise]).unwrap();
        let wait = BatchOperation::wait_at_least(flag.as_view(), 5).unwrap();
        let write = BatchOperation::write(count.view_mut(1..).unwrap(), 1 << 40).unwrap();
        let node = graph.batch(&[], &[wait, write]).unwrap();
        let NodeParams::Batch(operations) = graph.params(node).unwrap() else { panic!() };
        assert_eq!(operations, 2);
        launch(&mut graph, &stream);
        assert_eq!(count.to_vec().unwrap(), [0, 1 << 40]);
        assert!(graph.batch(&[], &[]).is_err());
        assert!(BatchOperation::write(flag.view_mut(..0).unwrap(), 1).is_err());
    });
}

#[test]
fn semaphores_are_signalled_and_waited_for() {
    run_simulated(|t, sim| {
        let stream = stream(t);
        let raw = sim.plant_external_semaphore(t.context().as_raw());
        // SAFETY: planted above, and nobody else's.
        let semaphore = unsafe { ExternalSemaphore::from_raw(t.context(), raw) }.unwrap();
        let semaphore = Arc::new(semaphore);
        let mut graph = graph(t);
        let signal = graph.signal(&[], &[(Arc::clone(&semaphore), 3)]).unwrap();
        let wait = graph.await_signals(&[], &[(Arc::clone(&semaphore), 3)]).unwrap();
        assert_eq!(Arc::strong_count(&semaphore), 3);
        let NodeParams::Signal(signals) = graph.params(signal).unwrap() else { panic!() };
        assert_eq!(signals, [(raw, 3)]);
        let NodeParams::Await(waits) = graph.params(wait).unwrap() else { panic!() };
        assert_eq!(waits, [(raw, 3)]);
        launch(&mut graph, &stream);
        assert!(graph.signal(&[], &[]).is_err());
        drop(graph);
        while t.driver().reclaim().pending() > 0 {
            t.driver().reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
        }
        assert_eq!(Arc::strong_count(&semaphore), 1);
    });
}

#[test]
fn a_changed_node_does_what_it_was_changed_to() {
    run(|t| {
        let stream = stream(t);
        let event = t.context().new_event().unwrap();
        let fill = t.kernels().kernel("fill").unwrap();
        let (mut a, mut b) = (
            Buffer::<u32>::zeroed(&stream, 4).unwrap(),
            Buffer::<u32>::zeroed(&stream, 4).unwrap(),
        );
        let mut flag = Buffer::<u32>::zeroed(&stream, 2).unwrap();
        let host = SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 4).unwrap());
        stream.synchronize().unwrap();
        let mut graph = graph(t);
        let filled = graph.fill(&[], &mut a, 1).unwrap();
        let copied = graph.copy(filled, &mut b, &a).unwrap();
        let config = LaunchConfig::for_len(4);
        // SAFETY: *layout*: as `fill` takes; *bounds*: 4 words.
        let kernel = unsafe { graph.kernel(copied, &fill, config, (&a, 2_u32, 4_u32)) }.unwrap();
        let record = graph.record(kernel, &event).unwrap();
        let write = BatchOperation::write(flag.as_view_mut(), 1).unwrap();
        let batch = graph.batch(record, &[write]).unwrap();
        // The other way round, elsewhere, and with other values.
        graph.set_fill(filled, &mut b, 3).unwrap();
        graph.set_copy(copied, &mut a, &b).unwrap();
        // SAFETY: as above.
        unsafe { graph.set_kernel(kernel, &fill, config, (&b, 4_u32, 4_u32)) }.unwrap();
        let other = t.context().new_event().unwrap();
        graph.set_event(record, &other).unwrap();
        let write = BatchOperation::write(flag.view_mut(1..).unwrap(), 5).unwrap();
        graph.set_batch(batch, &[write]).unwrap();
        let NodeParams::Record(raw) = graph.params(record).unwrap() else { panic!() };
        assert_eq!(raw, other.raw());
        launch(&mut graph, &stream);
        assert_eq!(a.to_vec().unwrap(), [3; 4]);
        assert_eq!(b.to_vec().unwrap(), [4; 4]);
        assert_eq!(flag.to_vec().unwrap(), [0, 5]);
        graph.set_copy_from_host(copied, &mut a, vec![6, 7, 8, 9]).unwrap();
        launch(&mut graph, &stream);
        assert_eq!(a.to_vec().unwrap(), [6, 7, 8, 9]);
        graph.set_copy_to_shared(copied, &host, &a).unwrap();
        launch(&mut graph, &stream);
        // SAFETY: the launch is done.
        assert_eq!(unsafe { host.to_vec() }, [6, 7, 8, 9]);
        for error in [
            graph.set_fill(copied, &mut b, 3).unwrap_err(),
            graph.set_event(kernel, &event).unwrap_err(),
            graph.set_host(filled, || {}).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        }
    });
}

#[test]
fn edges_have_kinds_between_kernels_alone() {
    run(|t| {
        let nop = t.kernels().kernel("nop").unwrap();
        let config = LaunchConfig::for_len(1);
        let mut graph = graph(t);
        // SAFETY: the kernel takes nothing and does nothing.
        let mut kernel = || unsafe { graph.kernel(&[], &nop, config, ()) }.unwrap();
        let (a, b, c) = (kernel(), kernel(), kernel());
        let empty = graph.empty(&[]).unwrap();
        let edges = [
            Edge::new(a, b).kind(EdgeKind::Programmatic),
            Edge::new(b, c).kind(EdgeKind::LaunchOrder),
            Edge::new(c, empty),
        ];
        graph.add_edges(&edges).unwrap();
        assert_eq!(graph.edges().unwrap(), edges);
        for (from, to) in [(empty, a), (a, empty)] {
            let edge = Edge::new(from, to).kind(EdgeKind::Programmatic);
            let error = graph.add_edges(&[edge]).unwrap_err();
            assert!(error.to_string().contains("it needs kernels"), "{error}");
        }
        graph.remove_edge(a, b).unwrap();
        assert_eq!(graph.edges().unwrap(), edges[1..]);
        launch(&mut graph, &stream(t));
    });
}

#[test]
fn kernels_and_events_are_told_as_they_were_given() {
    run(|t| {
        let (nop, event) = (t.kernels().kernel("nop").unwrap(), t.context().new_event().unwrap());
        let config = LaunchConfig::new([3, 2, 1], [64, 1, 1]).shared_bytes(256);
        let mut graph = graph(t);
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, config, ()) }.unwrap();
        let told = graph.params(node).unwrap();
        let NodeParams::Kernel { kernel, grid, block, shared_bytes, .. } = told else { panic!() };
        assert_eq!((kernel, grid, block, shared_bytes), (nop.as_raw(), [3, 2, 1], [64, 1, 1], 256));
        let record = graph.record(&[], &event).unwrap();
        let NodeParams::Record(raw) = graph.params(record).unwrap() else { panic!() };
        assert_eq!(raw, event.raw());
        let wait = graph.wait(&[], &event).unwrap();
        let NodeParams::Wait(raw) = graph.params(wait).unwrap() else { panic!() };
        assert_eq!(raw, event.raw());
        let _: CUevent = raw;
    });
}
