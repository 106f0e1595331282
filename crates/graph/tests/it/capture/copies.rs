//! Copies and fills through a builder: ranges, boxes, memory of every place, memory of the graph.

use super::{begin, launch, run, stream};
use cuhold_graph::{
    CaptureMode, GraphBuilder, NodeKind, SharedHost,
    handles::{ErrorKind, Result},
};
use cuhold_memory::{Buffer, Grid, HostBuffer, Pool, PoolOptions, PoolPlace};
use cuhold_testkit::Kit;

/// A buffer of 1, 2, 3 and so on.
fn counting(t: &Kit, len: u32) -> Buffer<u32> {
    let stream = stream(t);
    let buffer = Buffer::from_slice(&stream, &(1..=len).collect::<Vec<_>>()).unwrap();
    stream.synchronize().unwrap();
    buffer
}

#[test]
fn ranges_and_boxes_are_copied_and_filled() {
    run(|t| {
        let stream = stream(t);
        let (nine, mut other) = (counting(t, 9), counting(t, 9));
        let corner = Grid::rect([2, 2]).pitch(3);
        let mut builder = begin(&stream);
        // 5 6 8 9 to the upper left corner; then the lower row; then a column; then one place.
        let from = nine.view(4..).unwrap().grid(corner).unwrap();
        builder.copy(other.as_view_mut().into_grid(corner).unwrap(), from).unwrap();
        builder.copy(other.view_mut(6..).unwrap(), nine.view(..3).unwrap()).unwrap();
        let column = Grid::rect([1, 3]).pitch(3);
        builder.fill(other.view_mut(2..).unwrap().into_grid(column).unwrap(), 70).unwrap();
        builder.fill(other.view_mut(8..).unwrap(), 80).unwrap();
        let mut graph = builder.end().unwrap();
        let kinds: Vec<_> = graph.nodes().collect();
        let kinds: Vec<_> = kinds.iter().map(|node| graph.kind(*node).unwrap()).collect();
        assert_eq!(kinds, [NodeKind::Copy, NodeKind::Copy, NodeKind::Fill, NodeKind::Fill]);
        launch(&mut graph, &stream);
        assert_eq!(other.to_vec().unwrap(), [5, 6, 70, 8, 9, 70, 1, 2, 80]);
    });
}

#[test]
fn rows_are_filled_with_values_of_every_width() {
    run(|t| {
        let stream = stream(t);
        let mut bytes = Buffer::<u8>::zeroed(&stream, 6).unwrap();
        let mut shorts = Buffer::<u16>::zeroed(&stream, 6).unwrap();
        let mut longs = Buffer::<u64>::zeroed(&stream, 6).unwrap();
        stream.synchronize().unwrap();
        let rows = Grid::rect([2, 2]).pitch(3);
        let mut builder = begin(&stream);
        builder.fill(bytes.as_view_mut().into_grid(rows).unwrap(), 0xab).unwrap();
        builder.fill(shorts.as_view_mut().into_grid(rows).unwrap(), 0x102).unwrap();
        builder.fill(longs.as_view_mut().into_grid(rows).unwrap(), 0x1_0000_0001).unwrap();
        let error = builder.fill(&mut longs, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        let mut graph = builder.end().unwrap();
        launch(&mut graph, &stream);
        assert_eq!(bytes.to_vec().unwrap(), [0xab, 0xab, 0, 0xab, 0xab, 0]);
        assert_eq!(shorts.to_vec().unwrap(), [0x102, 0x102, 0, 0x102, 0x102, 0]);
        let long = 0x1_0000_0001;
        assert_eq!(longs.to_vec().unwrap(), [long, long, 0, long, long, 0]);
    });
}

#[test]
fn a_box_is_copied_from_and_to_the_host() {
    run(|t| {
        let stream = stream(t);
        let mut nine = counting(t, 9);
        let shared = SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 4).unwrap());
        let corner = Grid::rect([2, 2]).pitch(3);
        let mut builder = begin(&stream);
        let to = nine.as_view_mut().into_grid(corner).unwrap();
        builder.copy_from_host(to, vec![10, 20, 40, 50]).unwrap();
        builder.copy_to_shared(&shared, nine.view(4..).unwrap().grid(corner).unwrap()).unwrap();
        let to = nine.view_mut(4..).unwrap().into_grid(corner).unwrap();
        builder.copy_from_shared(to, &shared).unwrap();
        let mut graph = builder.end().unwrap();
        launch(&mut graph, &stream);
        // SAFETY: the launch is done.
        assert_eq!(unsafe { shared.to_vec() }, [50, 6, 8, 9]);
        assert_eq!(nine.to_vec().unwrap(), [10, 20, 3, 40, 50, 6, 7, 8, 9]);
    });
}

#[test]
fn memory_of_the_host_s_pools_is_copied_too() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::new(t.device(), PoolOptions::default().place(PoolPlace::Host));
        let pool = match pool {
            Ok(pool) => pool,
            Err(error) if t.sim().is_none() => return t.skip(&error.to_string()),
            Err(error) => panic!("{error}"),
        };
        let mut there = Buffer::<u32>::zeroed_in(&pool, &stream, 3).unwrap();
        let (mut back, three) = (counting(t, 3), counting(t, 3));
        stream.synchronize().unwrap();
        let mut builder = begin(&stream);
        builder.copy(&mut there, &three).unwrap();
        builder.copy(&mut back, there.view(1..).unwrap()).unwrap_err();
        builder.copy_from_host(there.view_mut(..1).unwrap(), vec![9]).unwrap();
        builder.copy(&mut back, &there).unwrap();
        let mut graph = builder.end().unwrap();
        launch(&mut graph, &stream);
        assert_eq!(back.to_vec().unwrap(), [9, 2, 3]);
    });
}

#[test]
fn memory_that_the_capture_allocates_is_an_end_and_that_of_another_one_is_not() {
    run(|t| {
        let (stream, elsewhere) = (stream(t), stream(t));
        let (three, mut back) = (counting(t, 3), counting(t, 3));
        let mut builder = GraphBuilder::begin(&stream, CaptureMode::Relaxed).unwrap();
        let mut other = GraphBuilder::begin(&elsewhere, CaptureMode::Relaxed).unwrap();
        let memory = builder.allocate::<u32>(3).unwrap();
        let error = other.fill(&memory, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        builder.fill(&memory, 7).unwrap();
        builder.copy(&mut back, &memory).unwrap();
        builder.copy(&memory, &three).unwrap();
        builder.copy(back.view_mut(..).unwrap(), &memory).unwrap();
        builder.free(memory).unwrap();
        drop(other);
        let mut graph = builder.end().unwrap();
        let mut exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(back.to_vec().unwrap(), [1, 2, 3]);
        }
    });
}

#[test]
fn other_sizes_are_refused_and_no_bytes_are_no_node_without_a_call() {
    run(|t| {
        let stream = stream(t);
        let (three, mut other) = (counting(t, 3), counting(t, 4));
        let mut builder = begin(&stream);
        let ((), calls) = t.calls(|| {
            let two = Grid::rect([2, 1]);
            let refused: [Result<()>; 4] = [
                builder.copy(&mut other, &three),
                builder.copy(other.as_view_mut().into_grid(two).unwrap(), &three),
                builder.copy(other.view_mut(..0).unwrap(), &three),
                builder.copy_from_host(&mut other, vec![1; 3]),
            ];
            for error in refused.map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            }
            builder.copy(other.view_mut(..0).unwrap(), three.view(3..).unwrap()).unwrap();
            builder.copy_from_host(other.view_mut(..0).unwrap(), vec![]).unwrap();
            builder.fill(other.view_mut(4..).unwrap(), 1).unwrap();
        });
        assert_eq!(calls, [""; 0]);
        assert!(builder.end().unwrap().is_empty());
    });
}
