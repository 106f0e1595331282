//! Exact counts of the driver calls that virtual memory makes.

use super::{memory, memory_with};
use cuhold_memory::{VirtualBuffer, VirtualMemoryOptions};
use cuhold_testkit::run;

const MAKE: [&str; 3] = ["cuMemCreate", "cuMemMap", "cuMemSetAccess"];
const EXCHANGE: &str = "cuThreadExchangeStreamCaptureMode";
const CURRENT: &str = "cuCtxGetCurrent";

#[test]
fn exact_counts_of_making_and_closing_virtual_memory() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (memory, calls) = t.calls(|| memory(t));
        assert_eq!(calls, ["cuMemGetAllocationGranularity"]);
        let (buffer, calls) = t.calls(|| VirtualBuffer::<u8>::uninit(&memory, &stream, 1).unwrap());
        assert_eq!(calls, [&["cuMemAddressReserve"][..], &MAKE].concat());
        t.context()
            .with_current(|| {
                let (_, calls) = t.calls(|| buffer.close().unwrap());
                let wait = [
                    CURRENT,
                    "cuEventCreate",
                    "cuEventRecord",
                    EXCHANGE,
                    "cuEventSynchronize",
                    EXCHANGE,
                ];
                let end = ["cuMemUnmap", "cuMemRelease", "cuMemAddressFree"];
                assert_eq!(calls, [&wait[..], &end].concat());
            })
            .unwrap();
        let ((), calls) = t.calls(|| drop(memory));
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn exact_counts_of_growing() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let options = VirtualMemoryOptions::default().reserve_bytes(2 * granule);
        let memory = memory_with(t, options);
        let small = VirtualBuffer::<u8>::uninit(&memory, &stream, granule).unwrap();
        let (within, calls) = t.calls(|| small.grow(granule).unwrap());
        assert_eq!(calls, [""; 0]);
        let (in_place, calls) = t.calls(|| small.grow(2 * granule).unwrap());
        assert_eq!(calls, MAKE);
        // The room is taken: behind it where that can be had, else once more for what is there.
        let (elsewhere, calls) = t.calls(|| small.grow(2 * granule).unwrap());
        let reserve = "cuMemAddressReserve";
        let again = ["cuMemMap", "cuMemSetAccess"];
        let moved = [&[reserve, "cuMemAddressFree", reserve][..], &again, &MAKE].concat();
        assert_eq!(calls, moved);
        let ((), calls) = t.calls(|| drop(within));
        assert!(!calls.contains(&"cuMemUnmap"), "it is left to the reclaimer: {calls:?}");
        drop((small, in_place, elsewhere));
        super::drain(t);
    });
}

#[test]
fn exact_counts_of_dropping_virtual_memory() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let buffer = VirtualBuffer::<u8>::uninit(&memory(t), &stream, 1).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        let own = |calls: Vec<&'static str>| -> Vec<&'static str> {
            let is_own = |call: &&str| !call.starts_with("cuCtx") && *call != EXCHANGE;
            calls.into_iter().filter(is_own).collect()
        };
        let ((), calls) = t.calls(|| drop(buffer));
        assert_eq!(own(calls), ["cuEventCreate", "cuEventRecord"]);
        let ((), calls) = t.calls(|| while by_hand.step() {});
        let end = ["cuEventSynchronize", "cuMemUnmap", "cuMemRelease"];
        assert_eq!(own(calls), [&end[..], &["cuMemAddressFree"]].concat());
    });
}
