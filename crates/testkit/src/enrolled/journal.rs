//! The calls of one run, of the driver and of the compilers, in one order; and which of them fail, and how.

use cuhold_driver_sys::{
    CUresult, Call, Effect, Fault, Faults, Hook, Kind, Listed,
    nvjitlink::{NvJitLinkCall, nvJitLinkResult},
    nvrtc::{NvrtcCall, nvrtcResult},
    nvvm::{NvvmCall, nvvmResult},
};
use cuhold_handles::{AnyCall, Status};
use std::{
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A call of any list, as it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    pub(crate) call: AnyCall,
    pub(crate) status: Status,
    /// Which one of its own list's calls it is, from 1: what a fault counts.
    pub(crate) nth: u64,
}

/// A hook that keeps the calls of every list, in the order in which they returned. Off until it is started.
#[derive(Default)]
pub(crate) struct Journal {
    on: AtomicBool,
    made: Mutex<Vec<Made>>,
}

impl Journal {
    /// The calls that `work` makes, of all threads while it runs.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Made>) {
        self.made.lock().unwrap().clear();
        self.on.store(true, Ordering::Release);
        let value = work();
        self.on.store(false, Ordering::Release);
        (value, mem::take(&mut *self.made.lock().unwrap()))
    }

    fn keep(&self, call: AnyCall, status: Status) {
        if !self.on.load(Ordering::Acquire) {
            return;
        }
        let mut made = self.made.lock().unwrap();
        let list = mem::discriminant(&call);
        let before = made.iter().filter(|made| mem::discriminant(&made.call) == list).count();
        made.push(Made { call, status, nth: before as u64 + 1 });
    }
}

/// What is to fail, of whichever list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyFault {
    Driver(Fault),
    Nvrtc(Fault<NvrtcCall>),
    Nvvm(Fault<NvvmCall>),
    NvJitLink(Fault<NvJitLinkCall>),
}

/// The injectors, one for each list.
#[derive(Default)]
pub(crate) struct Injectors {
    pub(crate) driver: Arc<Faults>,
    pub(crate) nvrtc: Arc<Faults<NvrtcCall>>,
    pub(crate) nvvm: Arc<Faults<NvvmCall>>,
    pub(crate) nvjitlink: Arc<Faults<NvJitLinkCall>>,
}

impl Injectors {
    pub(super) fn arm(&self, fault: AnyFault) {
        match fault {
            AnyFault::Driver(fault) => self.driver.arm(fault),
            AnyFault::Nvrtc(fault) => self.nvrtc.arm(fault),
            AnyFault::Nvvm(fault) => self.nvvm.arm(fault),
            AnyFault::NvJitLink(fault) => self.nvjitlink.arm(fault),
        }
    }

    pub(super) fn disarm(&self) {
        self.driver.disarm();
        self.nvrtc.disarm();
        self.nvvm.disarm();
        self.nvjitlink.disarm();
    }

    /// How many calls failed by plan.
    pub(super) fn fired(&self) -> u64 {
        self.driver.fired() + self.nvrtc.fired() + self.nvvm.fired() + self.nvjitlink.fired()
    }
}

impl Made {
    /// How this call may fail, with a status of this number.
    pub(super) fn ways(&self, number: u32) -> Vec<AnyFault> {
        let nth = self.nth;
        match self.call {
            AnyCall::Driver(call) => ways(call, nth, CUresult(number), AnyFault::Driver),
            AnyCall::Nvrtc(call) => ways(call, nth, nvrtcResult(number), AnyFault::Nvrtc),
            AnyCall::Nvvm(call) => ways(call, nth, nvvmResult(number), AnyFault::Nvvm),
            AnyCall::NvJitLink(call) => {
                ways(call, nth, nvJitLinkResult(number), AnyFault::NvJitLink)
            }
            other => panic!("{other} is of a list that isn't known here"),
        }
    }

    /// This call's failure with a status after which the driver answers nothing else, where it can fail so.
    pub(super) fn fatal(&self, status: CUresult) -> Option<AnyFault> {
        match self.call {
            AnyCall::Driver(call) if !call.survives_fatal() => {
                Some(AnyFault::Driver(Fault::new(Effect::StickyFromHere(status)).nth(self.nth)))
            }
            _ => None,
        }
    }
}

fn ways<C: Listed>(
    call: C,
    nth: u64,
    status: C::Status,
    any: fn(Fault<C>) -> AnyFault,
) -> Vec<AnyFault> {
    let with = |effect| any(Fault::with_effect(effect).nth(nth));
    let refused = with(Effect::Refused(status));
    // A creation that is carried out and says otherwise has made what nobody can name.
    if call.kind() == Kind::Create {
        return vec![refused];
    }
    vec![refused, with(Effect::DoneButFailed(status))]
}

/// A status of this number, of each list.
pub(super) fn statuses(number: u32) -> [Status; 4] {
    [
        Status::Driver(CUresult(number)),
        Status::Nvrtc(nvrtcResult(number)),
        Status::Nvvm(nvvmResult(number)),
        Status::NvJitLink(nvJitLinkResult(number)),
    ]
}

macro_rules! lists {
    ($($List:ident $Call:ident $Status:ident;)*) => { $(
        impl Hook<$Call> for Journal {
            fn after(&self, call: $Call, _: &[u64], status: $Status) {
                self.keep(AnyCall::$List(call), Status::$List(status));
            }
        }
    )* };
}

lists! {
    Driver Call CUresult;
    Nvrtc NvrtcCall nvrtcResult;
    Nvvm NvvmCall nvvmResult;
    NvJitLink NvJitLinkCall nvJitLinkResult;
}
