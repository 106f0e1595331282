//! Handles of the compilers: ended once, whatever fails, on the thread that drops them or on the reclaimer; with compilers
//! made by hand, and with the real ones where they can be had.

#![expect(unsafe_code, reason = "takes a raw program over")]

use cuhold_driver_sys::{
    CallLog, Effect, Fault, Faults, Hooked, Listed,
    nvjitlink::{Libnvjitlink, NvJitLinkApi, NvJitLinkCall, nvJitLinkResult},
    nvrtc::{NvrtcApi, NvrtcCall, nvrtcResult},
    nvvm::{Libnvvm, NvvmApi, NvvmCall, nvvmProgram, nvvmResult},
};
use cuhold_handles::{
    AnyCall, Closed, Driver, ErrorKind, Fate, NvJitLink, NvJitLinkInput, NvrtcProgram, NvvmProgram,
    ObjectKind, Status,
};
use cuhold_testkit::{Bare, PTX, run};
use std::{sync::Arc, thread};

type Hooks<C> = (Arc<CallLog<C>>, Arc<Faults<C>>);

/// A compiler made by hand, its log and its faults.
struct Made<C: Listed> {
    log: Arc<CallLog<C>>,
    faults: Arc<Faults<C>>,
}

impl<C: Listed> Made<C> {
    fn new() -> (Self, Hooked<Bare, Hooks<C>>) {
        let (log, faults) = (Arc::<CallLog<C>>::default(), Arc::<Faults<C>>::default());
        let hooked = Hooked::new(Bare, (Arc::clone(&log), Arc::clone(&faults)));
        (Self { log, faults }, hooked)
    }

    /// The calls that `work` makes, on whatever thread.
    fn calls(&self, work: impl FnOnce()) -> Vec<C> {
        let ((), entries) = self.log.during(work);
        entries.iter().map(|entry| entry.call()).collect()
    }
}

/// A handle of a compiler whose end can be made to fail.
trait Kind: Send + 'static {
    type Call: Listed;
    const KIND: ObjectKind;
    const END: Self::Call;
    /// A status that nothing else answers.
    fn status() -> <Self::Call as Listed>::Status;
    fn told(status: <Self::Call as Listed>::Status) -> (AnyCall, Status);
    fn make(driver: &Driver) -> (Made<Self::Call>, Self);
    fn close(self) -> Result<Closed, cuhold_handles::Error>;
}

macro_rules! kinds {
    ($($Type:ident $Api:ident $Call:ident $Status:ident $domain:ident $end:ident ($($more:expr),*);)*) => { $(
        impl Kind for $Type {
            type Call = $Call;
            const KIND: ObjectKind = ObjectKind::$Type;
            const END: $Call = $Call::$end;

            fn status() -> $Status {
                $Status(777)
            }
            fn told(status: $Status) -> (AnyCall, Status) {
                (AnyCall::$domain($Call::$end), Status::$domain(status))
            }
            fn make(driver: &Driver) -> (Made<$Call>, Self) {
                let (made, hooked) = Made::<$Call>::new();
                let api: Arc<dyn $Api> = Arc::new(hooked);
                let handle = $Type::new(driver, &api $(, $more)*).unwrap();
                (made, handle)
            }
            fn close(self) -> Result<Closed, cuhold_handles::Error> {
                Self::close(self).map_err(|refused| {
                    assert!(refused.value.is_none(), "it was asked for");
                    refused.error
                })
            }
        }
    )* };
}

kinds! {
    NvrtcProgram NvrtcApi NvrtcCall nvrtcResult Nvrtc nvrtcDestroyProgram ("", None, &[]);
    NvvmProgram NvvmApi NvvmCall nvvmResult Nvvm nvvmDestroyProgram ();
    NvJitLink NvJitLinkApi NvJitLinkCall nvJitLinkResult NvJitLink nvJitLinkDestroy (&["-arch=sm_90"]);
}

fn is_ended_once<K: Kind>() {
    run(|t| {
        let (made, handle) = K::make(t.driver());
        assert_eq!(made.calls(|| drop(handle)), [K::END]);
        let (made, handle) = K::make(t.driver());
        assert_eq!(made.calls(|| assert_eq!(handle.close().unwrap(), Closed::Destroyed)), [K::END]);
        let (made, handle) = K::make(t.driver());
        assert_eq!(made.calls(|| thread::spawn(move || drop(handle)).join().unwrap()), [K::END]);
    });
}

#[test]
fn each_handle_is_ended_once_by_its_drop_or_by_closing_it() {
    is_ended_once::<NvrtcProgram>();
    is_ended_once::<NvvmProgram>();
    is_ended_once::<NvJitLink>();
}

fn tells_once<K: Kind>() {
    run(|t| {
        let capture = t.driver().reports().capture(8);
        let (made, handle) = K::make(t.driver());
        made.faults.arm(Fault::with_effect(Effect::Refused(K::status())).on(K::END));
        let calls = made.calls(|| drop(handle));
        assert_eq!(calls, [K::END], "not tried twice");
        let warnings = capture.take();
        let [warning] = warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(warning.object().kind, K::KIND);
        assert_eq!(warning.fate(), Some(Fate::Unknown));
        let told = warning.compiler_failure().map(|failure| (failure.call(), failure.status()));
        assert_eq!(told, Some(K::told(K::status())), "{warning}");

        let (made, handle) = K::make(t.driver());
        made.faults.arm(Fault::with_effect(Effect::Refused(K::status())).on(K::END));
        let error = handle.close().unwrap_err();
        let (call, status) = K::told(K::status());
        assert_eq!((error.call(), error.status()), (Some(call), Some(status)), "{error}");
        assert_eq!(capture.take(), [], "what was returned isn't reported");
    });
}

#[test]
fn an_end_that_fails_is_one_warning_in_a_drop_and_the_error_of_a_close() {
    tells_once::<NvrtcProgram>();
    tells_once::<NvvmProgram>();
    tells_once::<NvJitLink>();
}

fn goes_to_the_reclaimer<K: Kind>() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (made, handle) = K::make(t.driver());
        let by_hand = t.driver().reclaim().run_by_hand();
        let inside = made.calls(|| {
            stream.host_fn(move || drop(handle)).map_err(|refused| refused.error).unwrap();
            stream.synchronize().unwrap();
        });
        assert_eq!(inside, [], "nothing is ended in a callback of the driver");
        assert_eq!(made.calls(|| while by_hand.step() {}), [K::END]);
    });
}

#[test]
fn what_is_dropped_in_a_callback_ends_on_the_reclaimer() {
    goes_to_the_reclaimer::<NvrtcProgram>();
    goes_to_the_reclaimer::<NvvmProgram>();
    goes_to_the_reclaimer::<NvJitLink>();
}

#[test]
fn a_handle_that_was_given_away_isn_t_ended_and_one_that_was_taken_over_is() {
    run(|t| {
        let (made, hooked) = Made::<NvvmCall>::new();
        let api: Arc<dyn NvvmApi> = Arc::new(hooked);
        let program = NvvmProgram::new(t.driver(), &api).unwrap();
        let mut raw = nvvmProgram::NULL;
        assert_eq!(made.calls(|| raw = program.into_raw()), []);
        // SAFETY: just given away.
        let taken = unsafe { NvvmProgram::from_raw(t.driver(), &api, raw) }.unwrap();
        assert_eq!(taken.as_raw(), raw);
        assert_eq!(made.calls(|| drop(taken)), [NvvmCall::nvvmDestroyProgram]);
        // SAFETY: null is refused.
        let null = unsafe { NvvmProgram::from_raw(t.driver(), &api, nvvmProgram::NULL) };
        assert_eq!(null.unwrap_err().kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_function_that_the_library_lacks_is_an_error_of_its_own_kind() {
    run(|t| {
        let api: Arc<dyn NvvmApi> = Arc::new(Bare);
        let mut program = NvvmProgram::new(t.driver(), &api).unwrap();
        let error = program.add_module(b"x", "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert_eq!(
            error.to_string(),
            "nvvmAddModuleToProgram is missing from this NVVM; it came with CUDA 5.0"
        );
        assert_eq!(program.add_module(&[], "x").unwrap_err().kind(), ErrorKind::Argument);
    });
}

/// An empty kernel, as NVVM takes it.
const IR: &str = r#"
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
define void @nop() { ret void }
!nvvm.annotations = !{!0}
!0 = !{ptr @nop, !"kernel", i32 1}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0}
"#;

#[test]
fn the_real_nvvm_compiles_and_says_what_is_wrong() {
    run(|t| {
        let Ok(library) = Libnvvm::load() else { return t.skip("needs NVVM, and none was found") };
        let api: Arc<dyn NvvmApi> = Arc::new(library);
        let mut program = NvvmProgram::new(t.driver(), &api).unwrap();
        program.add_module(IR.as_bytes(), "nop").unwrap();
        let options = ["-arch=compute_100"];
        let ptx = program.compile(&options).unwrap_or_else(|error| panic!("{error}"));
        assert!(ptx.contains(".entry nop") || ptx.contains("nop("), "{ptx}");
        assert_eq!(program.close().unwrap(), Closed::Destroyed);

        let mut broken = NvvmProgram::new(t.driver(), &api).unwrap();
        broken.add_module(b"this is no code", "broken").unwrap();
        let error = broken.compile(&options).unwrap_err();
        assert!(matches!(error.status(), Some(Status::Nvvm(_))), "{error}");
    });
}

#[test]
fn the_real_nvjitlink_links_and_says_what_is_wrong() {
    run(|t| {
        let Ok(library) = Libnvjitlink::load() else {
            return t.skip("needs nvJitLink, and none was found");
        };
        let api: Arc<dyn NvJitLinkApi> = Arc::new(library);
        let mut link = NvJitLink::new(t.driver(), &api, &["-arch=sm_90"]).unwrap();
        let ptx = [PTX.as_bytes(), b"\0"].concat();
        link.add_data(NvJitLinkInput::Ptx, &ptx, "kernels").unwrap();
        assert!(link.complete().unwrap().starts_with(b"\x7fELF"));
        assert_eq!(link.close().unwrap(), Closed::Destroyed);

        let without = NvJitLink::new(t.driver(), &api, &[]).unwrap_err();
        assert_eq!(without.status(), Some(Status::NvJitLink(nvJitLinkResult::MISSING_ARCH)));
        let mut broken = NvJitLink::new(t.driver(), &api, &["-arch=sm_90"]).unwrap();
        let error =
            broken.add_data(NvJitLinkInput::Ptx, b"this is no PTX\0", "broken").unwrap_err();
        assert!(matches!(error.status(), Some(Status::NvJitLink(_))), "{error}");
    });
}
