//! The order of imports' ends: the free comes after the work of every import, and after nothing else.

#![expect(unsafe_code, reason = "launches kernels, and frees what was leaked")]

use super::Exporter;
use crate::raw;
use cuhold_driver_sys::ffi::CUstream;
use cuhold_handles::{Fate, LaunchConfig, Stream};
use cuhold_testkit::run;

const LEN: u32 = 1 << 10;

#[test]
fn two_streams_on_one_import_may_end_in_any_order_while_one_still_works() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[0; LEN as usize]);
        let pool = there.imported(t.device());
        let kernels = t.kernels();
        let (spin, fill) = (kernels.kernel("spin").unwrap(), kernels.kernel("fill").unwrap());
        let (idle, busy) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        // Freed on the idle stream, then on the busy one; the idle one's import ends last, then first.
        for (first, ends_first) in [(&idle, &busy), (&busy, &busy), (&idle, &idle), (&busy, &idle)]
        {
            let import =
                |home: &Stream| pool.import_buffer::<u32>(token.descriptor(), home).unwrap();
            let maps = import(first);
            let (on_idle, on_busy) = (import(&idle), import(&busy));
            drop(maps);
            // SAFETY: the parameters are a u64; then (u32*, u32, u32) of memory of LEN words.
            unsafe { spin.launch(&busy, LaunchConfig::for_len(1), (30_000_000_u64,)) }.unwrap();
            // SAFETY: as above; the memory stays mapped until this is done: that is what is tested.
            unsafe {
                fill.launch(&busy, LaunchConfig::for_len(LEN), (on_busy.device_ptr(), 7_u32, LEN))
            }
            .unwrap();
            if ends_first.as_raw() == busy.as_raw() {
                drop(on_busy);
                drop(on_idle);
            } else {
                drop(on_idle);
                drop(on_busy);
            }
            idle.synchronize().unwrap();
            busy.synchronize().unwrap();
            assert_eq!(pool.mapped_buffers(), 0);
            assert_eq!(buffer.to_vec().unwrap(), [7; LEN as usize]);
        }
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn where_an_import_s_own_stream_is_captured_no_event_joins_the_capture_and_the_memory_stays_mapped()
{
    run(|t| {
        if t.sim().is_none() {
            return t.skip("what stays mapped for good would be left in the real driver");
        }
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let pool = there.imported(t.device());
        let (home, captured) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let _exposed: CUstream = captured.as_raw();
        let first = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        let second = pool.import_buffer::<u32>(token.descriptor(), &captured).unwrap();
        let ptr = first.device_ptr();
        let capture = t.driver().reports().capture(4);
        raw::begin(&captured, raw::GLOBAL);
        let ((), calls) = t.calls(|| drop(second));
        assert!(!calls.contains(&"cuEventRecord"), "{calls:?}");
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
        let [warning] = capture.take()[..] else { panic!("one warning") };
        drop(capture);
        assert_eq!((warning.object().raw, warning.fate()), (ptr, Some(Fate::Leaked)));
        // What the captured stream still does to it isn't known, so the last import doesn't free it either.
        let ((), calls) = t.calls(|| drop(first));
        assert!(!calls.contains(&"cuMemFreeAsync"), "{calls:?}");
        // SAFETY: nothing uses it any more, and this library never frees it.
        unsafe { raw::free(&home, ptr) };
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn where_the_freeing_stream_is_captured_the_memory_stays_mapped_and_the_capture_goes_on() {
    run(|t| {
        if t.sim().is_none() {
            return t.skip("what stays mapped for good would be left in the real driver");
        }
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let pool = there.imported(t.device());
        let home = t.device().new_stream().unwrap();
        let _exposed: CUstream = home.as_raw();
        let imported = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        let ptr = imported.device_ptr();
        let capture = t.driver().reports().capture(4);
        raw::begin(&home, raw::GLOBAL);
        drop(imported);
        assert!(raw::is_captured(&home));
        raw::end(&home);
        let [warning] = capture.take()[..] else { panic!("one warning") };
        drop(capture);
        assert_eq!((warning.object().raw, warning.fate()), (ptr, Some(Fate::Leaked)));
        // It is forgotten here, and the driver gives the same mapping again, which is never freed.
        assert_eq!(pool.mapped_buffers(), 0);
        let again = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        assert_eq!(again.device_ptr(), ptr);
        let ((), calls) = t.calls(|| drop(again));
        assert_eq!(calls, [""; 0]);
        // SAFETY: nothing uses it any more, and this library never frees it.
        unsafe { raw::free(&home, ptr) };
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}
