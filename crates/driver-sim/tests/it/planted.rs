//! How good the checker of order is: small programs with a planted fault, and correct ones that look wrong.
//!
//! A program with a fault (`planted_faults.rs`) says which two operations it is about; a correct one (`planted_correct.rs`)
//! leaves its ordering call out when it is asked to, and then says so as well. Each is run with many seeds, and both ways:
//! with its work done as late as can be, and as early. Neither may matter: what counts is what the program asked for.

use std::cell::{Cell, RefCell};

use cuhold_driver_sim::{
    Sim, SimOptions, Violation,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, NON_BLOCKING, call, context, event, get, primary, stream},
    planted_correct::CORRECT,
    planted_faults::FAULTS,
};

/// A program by what it is.
pub(crate) type Program = (&'static str, fn(&Stage));

/// How a program is run.
#[derive(Clone, Copy, Debug)]
struct Way {
    seed: u64,
    /// Whether the ordering call of a correct program is made.
    is_ordered: bool,
    /// Whether all work is done as soon as it can.
    is_early: bool,
}

/// Where a program runs.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    options: SimOptions,
    way: Way,
    /// The two operations: process by process, the numbers of their calls.
    marked: RefCell<Vec<(u64, u64)>>,
    others: RefCell<Vec<Sim>>,
    /// How many ordering calls were made, or left out.
    orderings: Cell<u32>,
}

impl Stage {
    fn new(way: Way) -> Self {
        let seed = way.seed;
        let mut options = SimOptions::with_devices(2);
        (options.seed, options.reuse_handles) = (seed, seed.is_multiple_of(2));
        let sim = Sim::with_options(options.clone());
        call!(sim, cuInit(0)).unwrap();
        register(&sim);
        call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
        Self {
            sim,
            options,
            way,
            marked: RefCell::default(),
            others: RefCell::default(),
            orderings: Cell::default(),
        }
    }

    /// Another process, with its primary context current.
    pub(crate) fn other_process(&self) -> Sim {
        let there = self.sim.other_process(self.options.clone());
        call!(there, cuInit(0)).unwrap();
        register(&there);
        call!(there, cuCtxSetCurrent(primary(&there, 0))).unwrap();
        self.others.borrow_mut().push(there.clone());
        there
    }

    /// One of the two operations of the finding.
    pub(crate) fn mark(&self, answer: Asked<()>) {
        self.mark_of(&self.sim, answer);
    }

    /// The same, of another process. It may be refused: work that faulted before is a finding too.
    pub(crate) fn mark_of(&self, sim: &Sim, _answer: Asked<()>) {
        let others = self.others.borrow();
        let at = others.iter().position(|other| std::ptr::eq(other.log(), sim.log()));
        let process = at.map_or(1, |at| at as u64 + 2);
        self.marked.borrow_mut().push((process, sim.calls_made()));
        drop(others);
        self.may_run();
    }

    /// What orders a correct program: made, or left out.
    pub(crate) fn order(&self, ordering: impl FnOnce()) {
        self.orderings.set(self.orderings.get() + 1);
        if self.way.is_ordered {
            ordering();
        }
    }

    /// The same, where the ordering is a choice between two values.
    pub(crate) fn choose<T>(&self, ordered: T, unordered: T) -> T {
        self.orderings.set(self.orderings.get() + 1);
        if self.way.is_ordered { ordered } else { unordered }
    }

    /// Lets work be done here, where that is to be early.
    pub(crate) fn may_run(&self) {
        if self.way.is_early {
            self.run_all();
        }
    }

    /// Lets all work be done, which tells the program nothing.
    pub(crate) fn run_all(&self) {
        self.sim.run_all();
        self.others.borrow().iter().for_each(Sim::run_all);
        self.sim.run_all();
    }

    /// What was found, with the process that found it.
    fn found(&self) -> Vec<(u64, Violation)> {
        self.run_all();
        let here = self.sim.violations().into_iter().map(|found| (1, found));
        let others = self.others.borrow();
        let there = (2..).zip(others.iter()).flat_map(|(process, sim)| {
            sim.violations().into_iter().map(move |found| (process, found))
        });
        here.chain(there).collect()
    }

    /// Whether a finding names both marked operations.
    fn is_told(&self, (process, found): &(u64, Violation)) -> bool {
        let names = |(of, number): &(u64, u64)| match found.operations.as_slice() {
            [] => of == process && found.calls.iter().any(|site| site.number == *number),
            both => both.iter().any(|operation| {
                let launched = operation.launched.map(|site| site.number);
                operation.process == *of
                    && (operation.site.number == *number || launched == Some(*number))
            }),
        };
        let marked = self.marked.borrow();
        assert_eq!(marked.len(), 2, "a program marks two operations");
        marked.iter().all(names)
    }

    pub(crate) fn stream(&self) -> CUstream {
        stream(&self.sim, NON_BLOCKING)
    }

    pub(crate) fn memory(&self, bytes: usize) -> CUdeviceptr {
        get!(self.sim, cuMemAlloc_v2(out, bytes)).unwrap()
    }

    /// Page-locked memory.
    pub(crate) fn host(&self, bytes: usize) -> *mut c_void {
        crate::page_locked::host_alloc(&self.sim, bytes, 0).unwrap()
    }

    /// Another context of device 0, which isn't made current.
    pub(crate) fn context(&self) -> CUcontext {
        let made = context(&self.sim);
        call!(self.sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
        made
    }

    pub(crate) fn fill(&self, to: CUdeviceptr, words: usize, s: CUstream) -> Asked<()> {
        call!(self.sim, cuMemsetD32Async(to, 7, words, s))
    }

    /// Makes one stream wait for what another holds now.
    pub(crate) fn wait(&self, waiting: CUstream, first: CUstream) {
        let e = event(&self.sim);
        call!(self.sim, cuEventRecord(e, first)).unwrap();
        self.may_run();
        call!(self.sim, cuStreamWaitEvent(waiting, e, 0)).unwrap();
        self.may_run();
    }

    /// Launches a kernel of the current context: `store` writes 64 bytes at an address, `load` reads them, `count` adds 1
    /// to a word in one step.
    pub(crate) fn launch(&self, name: &str, address: CUdeviceptr, s: CUstream) -> Asked<()> {
        launch(&self.sim, name, address, s)
    }
}

fn register(sim: &Sim) {
    sim.register_kernel("store", |launch| {
        launch.slice_mut::<u32>(launch.param(0)?, 16)?.fill(3);
        Ok(())
    });
    sim.register_kernel("load", |launch| launch.slice::<u32>(launch.param(0)?, 16).map(drop));
    sim.register_kernel("count", |launch| {
        launch.update::<u32>(launch.param(0)?, |count| count.wrapping_add(1)).map(drop)
    });
}

pub(crate) fn launch(sim: &Sim, name: &str, address: CUdeviceptr, s: CUstream) -> Asked<()> {
    let image = c".version 7.0\n.target sm_52\n.address_size 64\n\
                  .visible .entry store(.param .u64 p)\n{\nret;\n}\n\
                  .visible .entry load(.param .u64 p)\n{\nret;\n}\n\
                  .visible .entry count(.param .u64 p)\n{\nret;\n}\n";
    let module: CUmodule = get!(sim, cuModuleLoadData(out, image.as_ptr().cast()))?;
    let kernel = crate::code::function(sim, module, name)?;
    let mut address = address;
    let mut params = [(&raw mut address).cast::<c_void>()];
    let none = core::ptr::null_mut();
    call!(sim, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, params.as_mut_ptr(), none))
}

/// With how many seeds each program is run, both early and late.
const SEEDS: u64 = 24;

/// Runs a program in every way, and gives what `check` complains of.
fn complaints(
    (name, program): Program,
    is_ordered: bool,
    check: impl Fn(&Stage) -> Option<String>,
) -> Vec<String> {
    let seeds = (0..SEEDS).flat_map(|seed| [false, true].map(|is_early| (seed, is_early)));
    let ways = seeds.map(|(seed, is_early)| Way { seed, is_ordered, is_early });
    ways.filter_map(|way| {
        let stage = Stage::new(way);
        program(&stage);
        check(&stage).map(|complaint| format!("{name}, {way:?}: {complaint}"))
    })
    .collect()
}

/// The ways in which a program's fault isn't found with both operations.
fn missed(program: Program) -> Vec<String> {
    complaints(program, false, |stage| {
        let found = stage.found();
        let is_told = found.iter().any(|found| stage.is_told(found));
        (!is_told).then(|| format!("{:?} not in {found:#?}", stage.marked.borrow()))
    })
}

/// The ways in which a correct program makes a finding.
fn alarms(program: Program) -> Vec<String> {
    complaints(program, true, |stage| {
        assert!(stage.orderings.get() > 0, "{} orders nothing", program.0);
        let found = stage.found();
        (!found.is_empty()).then(|| format!("{found:#?}"))
    })
}

#[expect(clippy::print_stdout, reason = "what `cargo xtask figures` reads")]
#[test]
fn exact_counts_of_planted_faults_that_are_found() {
    let missed: Vec<Vec<String>> = FAULTS.iter().map(|program| missed(*program)).collect();
    let found = missed.iter().filter(|missed| missed.is_empty()).count();
    println!("figure planted_faults: {}", FAULTS.len());
    println!("figure planted_found: {found}");
    assert_eq!(found, FAULTS.len(), "{}", missed.concat().join("\n"));
}

#[expect(clippy::print_stdout, reason = "what `cargo xtask figures` reads")]
#[test]
fn exact_counts_of_alarms_about_correct_programs() {
    let alarms: Vec<String> = CORRECT.iter().flat_map(|program| alarms(*program)).collect();
    println!("figure correct_programs: {}", CORRECT.len());
    println!("figure false_alarms: {}", alarms.len());
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}

#[test]
fn each_correct_program_is_a_finding_without_its_ordering_call() {
    let missed: Vec<String> = CORRECT.iter().flat_map(|program| missed(*program)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn with_the_checker_off_no_order_is_judged() {
    let mut options = SimOptions::default();
    options.check_order = false;
    let sim = Sim::with_options(options);
    call!(sim, cuInit(0)).unwrap();
    call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    for _ in 0..2 {
        call!(sim, cuMemsetD8Async(memory, 0, 64, stream(&sim, NON_BLOCKING))).unwrap();
    }
    sim.run_all();
    crate::ask::assert_clean(&sim);
}

#[test]
fn a_finding_explains_itself() {
    let stage = Stage::new(Way { seed: 1, is_ordered: false, is_early: false });
    let (memory, s, t) = (stage.memory(64), stage.stream(), stage.stream());
    stage.fill(memory, 8, s).unwrap();
    stage.fill(memory + 16, 8, t).unwrap();
    let found = stage.found();
    let [(_, found)] = found.as_slice() else { panic!("{found:#?}") };
    let [first, second] = found.operations.as_slice() else { panic!("{found:#?}") };
    let text = found.to_string();
    let expected = format!(
        "unordered accesses of device allocation {memory:#x}: first, {} writes bytes {:#x}..{:#x} on {}; second, {} \
         writes bytes {:#x}..{:#x} on {}; nothing puts the second behind the first: have its stream wait for an event \
         recorded behind the first, or have the host wait in between",
        first.site,
        first.offset,
        first.offset + 32,
        first.actor,
        second.site,
        second.offset,
        second.offset + 32,
        second.actor,
    );
    assert_eq!(text, expected);
    let mut streams = [first.actor.to_string(), second.actor.to_string()];
    streams.sort();
    let mut expected = [s, t].map(|stream| format!("stream {:#x}", stream.addr()));
    expected.sort();
    assert_eq!(streams, expected);
}
