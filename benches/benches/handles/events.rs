//! Events: create and drop, record, wait.

use crate::Bed;
use criterion::Criterion;
use cuhold::EventOptions;
use cuhold_benches::{Subject, compare};

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuEventDestroy_v2(bed.raw.new_event())),
        Subject::new("cuhold", || drop(bed.device.new_event(EventOptions::default()).unwrap())),
    ];
    if let Some(peer) = &bed.peer {
        subjects.push(Subject::new("cudarc", || drop(peer.context.new_event(None).unwrap())));
    }
    compare(criterion, "event create + drop", 100_000, subjects);

    let (stream, event) =
        (bed.device.new_stream().unwrap(), bed.device.new_event(EventOptions::default()).unwrap());
    let (raw_stream, raw_event) = (bed.raw.new_stream(), bed.raw.new_event());
    let peer = bed
        .peer
        .as_ref()
        .map(|peer| (peer.context.new_stream().unwrap(), peer.context.new_event(None).unwrap()));
    let wait_raw = || bed.raw.cuStreamSynchronize(raw_stream);
    let wait = || stream.synchronize().unwrap();
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuEventRecord(raw_event, raw_stream)).settle(wait_raw),
        Subject::new("cuhold", || stream.record(&event).unwrap()).settle(wait),
    ];
    if let Some((stream, event)) = &peer {
        subjects.push(
            Subject::new("cudarc", || event.record(stream).unwrap())
                .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "event record", 1_000, subjects);

    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuStreamWaitEvent(raw_stream, raw_event, 0))
            .settle(wait_raw),
        Subject::new("cuhold", || stream.wait_event(&event).unwrap()).settle(wait),
    ];
    if let Some((stream, event)) = &peer {
        subjects.push(
            Subject::new("cudarc", || stream.wait(event).unwrap())
                .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "stream wait", 1_000, subjects);
    bed.raw.cuEventDestroy_v2(raw_event);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}
