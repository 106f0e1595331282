//! Captures in global mode against what other threads drop meanwhile.

use super::{run, stream};
use cuhold_graph::{CaptureMode, Graph, GraphBuilder, GraphExec, handles::Library};
use cuhold_memory::{Buffer, HostBuffer, Pool, PoolOptions};
use cuhold_testkit::{Kit, PTX};
use std::{sync::mpsc, thread};

/// What is dropped while another thread captures.
#[expect(dead_code, reason = "made and dropped")]
struct Load {
    buffer: Buffer<u8>,
    host: HostBuffer<u8>,
    code: Library,
    exec: GraphExec,
}

impl Load {
    fn new(t: &Kit, pool: &Pool, stream: &cuhold_graph::handles::Stream) -> Self {
        let mut graph = Graph::new(t.context()).unwrap();
        graph.host(&[], || {}).unwrap();
        Self {
            buffer: Buffer::uninit_in(pool, stream, 256).unwrap(),
            host: HostBuffer::zeroed(t.context(), 64).unwrap(),
            code: t.device().load(PTX).unwrap(),
            exec: graph.instantiate().unwrap(),
        }
    }
}

#[test]
fn captures_in_global_mode_are_never_disturbed_by_what_another_thread_drops() {
    run(|t| {
        let rounds = if t.sim().is_some() { 500 } else { 10_000 };
        let (capturing, other) = (stream(t), stream(t));
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let (give, take) = mpsc::sync_channel::<Load>(64);
        let mut ended = 0;
        thread::scope(|scope| {
            scope.spawn(move || {
                for load in take {
                    drop(load);
                }
            });
            for round in 0..rounds {
                // Made outside of the capture, in which most of it is forbidden to everybody; one in ten, since it is slow.
                if round % 10 == 0 {
                    give.send(Load::new(t, &pool, &other)).unwrap();
                }
                let mut builder = GraphBuilder::begin(&capturing, CaptureMode::Global).unwrap();
                builder.host(|| {}).unwrap();
                ended += builder.end().unwrap().len();
            }
            drop(give);
        });
        assert_eq!(ended, rounds);
        drop(pool);
        t.settle();
    });
}
