//! An event for a moment: taken from the cache, recorded, given back; beside one that is there already, and beside one that
//! is made each time.

use crate::subjects::Stage;
use cuhold::EventOptions;
use cuhold_benches::{Crowd, Plan, Worker};

pub(crate) fn benches(plan: &Plan, stage: &Stage<'_>) {
    let bed = stage.bed;
    plan.compare("event: take, record, give back", 1, |_| {
        let mut all = vec![
            Crowd::new("raw", |_| {
                bed.device.set_current().unwrap();
                let (stream, event) = (bed.raw.new_stream(), bed.raw.new_event());
                Worker::new(move |iterations| {
                    (0..iterations).for_each(|_| bed.raw.cuEventRecord(event, stream));
                    iterations
                })
                .settle(move || bed.raw.cuStreamSynchronize(stream))
            }),
            Crowd::new("raw, made anew", |_| {
                bed.device.set_current().unwrap();
                let stream = bed.raw.new_stream();
                Worker::new(move |iterations| {
                    for _ in 0..iterations {
                        let event = bed.raw.new_event();
                        bed.raw.cuEventRecord(event, stream);
                        bed.raw.cuEventDestroy_v2(event);
                    }
                    iterations
                })
                .settle(move || bed.raw.cuStreamSynchronize(stream))
            }),
            Crowd::new("mark", |_| {
                bed.device.set_current().unwrap();
                let stream = bed.device.new_stream().unwrap();
                let settled = stream.clone();
                Worker::new(move |iterations| {
                    (0..iterations).for_each(|_| drop(stream.mark().unwrap()));
                    iterations
                })
                .settle(move || settled.synchronize().unwrap())
            }),
            Crowd::new("event, made anew", |_| {
                bed.device.set_current().unwrap();
                let stream = bed.device.new_stream().unwrap();
                let settled = stream.clone();
                Worker::new(move |iterations| {
                    let new = || drop(stream.record_new(EventOptions::default()).unwrap());
                    (0..iterations).for_each(|_| new());
                    iterations
                })
                .settle(move || settled.synchronize().unwrap())
            }),
        ];
        if let Some(peer) = &bed.peer {
            all.push(Crowd::new("cudarc", |_| {
                peer.context.bind_to_thread().unwrap();
                let stream = peer.context.new_stream().unwrap();
                let settled = std::sync::Arc::clone(&stream);
                Worker::new(move |iterations| {
                    (0..iterations).for_each(|_| drop(stream.record_event(None).unwrap()));
                    iterations
                })
                .settle(move || settled.synchronize().unwrap())
            }));
        }
        all
    });
}
