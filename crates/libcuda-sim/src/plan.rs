//! The plan: what the simulated driver of this process is like, and what shall fail. From the environment, and from the
//! JSON file that it names.
//!
//! | variable | what it says |
//! |---|---|
//! | `CUHOLD_SIM_PLAN` | the plan's file |
//! | `CUHOLD_SIM_SEED` | a number, from which the order of work is drawn |
//! | `CUHOLD_SIM_DEVICES` | how many devices there are |
//! | `CUHOLD_SIM_BACKGROUND` | `1`: queued work runs on a thread of its own, beside the program; `0`: where it is waited for |
//! | `CUHOLD_SIM_LOG` | a file that gets a line for each call |
//! | `CUHOLD_SIM_REPORT` | a file that gets the report when the process ends |
//!
//! A variable wins over the file. The file is an object with any of the fields of [`Written`]; a field that isn't one is
//! an error, and so is a call or a status that doesn't exist.

use std::{env, ffi::OsString, fs, path::PathBuf};

use cuhold_driver_sim::{DeviceOptions, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Effect, Fault, Function, Version};
use serde::Deserialize;

use crate::{export, kernels::Body};

/// What a process was told.
pub(crate) struct Plan {
    pub(crate) options: SimOptions,
    pub(crate) faults: Vec<Fault>,
    /// Kernels by name, with what each of them does.
    pub(crate) kernels: Vec<(String, Body)>,
    /// Whether queued work runs on a thread of its own.
    pub(crate) background: bool,
    pub(crate) log: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
}

/// The file's fields.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    seed: Option<u64>,
    devices: Option<Devices>,
    /// As CUDA counts it: 13000 is 13.0.
    driver_version: Option<i32>,
    peer_access: Option<bool>,
    fabric: Option<bool>,
    reuse_handles: Option<bool>,
    queries_advance: Option<bool>,
    pageable_copies_wait: Option<bool>,
    faults: Vec<WrittenFault>,
    kernels: Vec<WrittenKernel>,
    background: Option<bool>,
    log: Option<PathBuf>,
    report: Option<PathBuf>,
}

/// How many devices alike, or each of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Devices {
    Alike(usize),
    Each(Vec<WrittenDevice>),
}

/// A kernel that does nothing, by its name alone, or what it does.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenKernel {
    Idle(String),
    Does(WrittenBody),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBody {
    name: String,
    does: Body,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDevice {
    name: Option<String>,
    memory_bytes: Option<usize>,
    compute_capability: Option<(i32, i32)>,
    multiprocessors: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFault {
    /// A documented name, or the symbol of one form; without it, any call.
    call: Option<String>,
    /// Counted from 1; without it, every one.
    nth: Option<u64>,
    /// `CUDA_ERROR_OUT_OF_MEMORY`, or without the beginning.
    status: String,
    #[serde(default)]
    effect: WrittenEffect,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenEffect {
    #[default]
    Refused,
    DoneButFailed,
    StickyFromHere,
}

impl Default for Plan {
    /// As [`SimOptions`], with C functions; and a query lets work go on, since a program that looks again and again can't
    /// step it. Copies into pageable memory wait, as programs have come to expect.
    fn default() -> Self {
        let mut options = SimOptions::default();
        options.symbols = Some(export::address);
        options.queries_advance = true;
        options.pageable_copies_wait = true;
        Self {
            options,
            faults: Vec::new(),
            kernels: Vec::new(),
            background: false,
            log: None,
            report: None,
        }
    }
}

impl Plan {
    /// What the environment says.
    ///
    /// # Errors
    /// What can't be read, and why.
    pub(crate) fn of_environment() -> Result<Self, String> {
        let written = match variable("CUHOLD_SIM_PLAN") {
            None => Written::default(),
            Some(path) => {
                let path = PathBuf::from(path);
                let said = |e: String| format!("the plan {}: {e}", path.display());
                let text = fs::read_to_string(&path).map_err(|e| said(e.to_string()))?;
                read(&text).map_err(said)?
            }
        };
        let mut plan = Self::default();
        plan.take(written)?;
        if let Some(seed) = number("CUHOLD_SIM_SEED")? {
            plan.options.seed = seed;
        }
        if let Some(devices) = number("CUHOLD_SIM_DEVICES")? {
            let devices = usize::try_from(devices).unwrap_or(usize::MAX);
            plan.options.devices =
                alike(devices).map_err(|e| format!("CUHOLD_SIM_DEVICES: {e}"))?;
        }
        if let Some(background) = number("CUHOLD_SIM_BACKGROUND")? {
            if background > 1 {
                return Err(format!("CUHOLD_SIM_BACKGROUND is {background}, and neither 0 nor 1"));
            }
            plan.background = background == 1;
        }
        // What a query let run would run on the thread that asks.
        plan.options.queries_advance &= !plan.background;
        plan.log = variable("CUHOLD_SIM_LOG").map(PathBuf::from).or(plan.log);
        plan.report = variable("CUHOLD_SIM_REPORT").map(PathBuf::from).or(plan.report);
        Ok(plan)
    }

    fn take(&mut self, written: Written) -> Result<(), String> {
        let options = &mut self.options;
        options.seed = written.seed.unwrap_or(options.seed);
        options.driver_version = written.driver_version.map_or(options.driver_version, Version);
        options.peer_access = written.peer_access.unwrap_or(options.peer_access);
        options.fabric = written.fabric.unwrap_or(options.fabric);
        options.reuse_handles = written.reuse_handles.unwrap_or(options.reuse_handles);
        options.queries_advance = written.queries_advance.unwrap_or(options.queries_advance);
        options.pageable_copies_wait =
            written.pageable_copies_wait.unwrap_or(options.pageable_copies_wait);
        match written.devices {
            None => {}
            Some(Devices::Alike(count)) => options.devices = alike(count)?,
            Some(Devices::Each(each)) => {
                within(each.len())?;
                options.devices = each.into_iter().map(WrittenDevice::options).collect();
            }
        }
        self.faults = written.faults.iter().map(WrittenFault::fault).collect::<Result<_, _>>()?;
        self.kernels = written.kernels.into_iter().map(WrittenKernel::body).collect();
        self.background = written.background.unwrap_or(self.background);
        (self.log, self.report) = (written.log, written.report);
        Ok(())
    }
}

fn read(text: &str) -> Result<Written, String> {
    serde_json::from_str(text).map_err(|e| e.to_string())
}

/// More than any machine has.
const DEVICES_MAX: usize = 64;

fn within(devices: usize) -> Result<(), String> {
    if devices > DEVICES_MAX {
        return Err(format!("{devices} devices are more than {DEVICES_MAX}"));
    }
    Ok(())
}

fn alike(count: usize) -> Result<Vec<DeviceOptions>, String> {
    within(count)?;
    Ok(SimOptions::with_devices(count).devices)
}

impl WrittenKernel {
    fn body(self) -> (String, Body) {
        match self {
            Self::Idle(name) => (name, Body::Nothing),
            Self::Does(WrittenBody { name, does }) => (name, does),
        }
    }
}

impl WrittenDevice {
    fn options(self) -> DeviceOptions {
        let mut device = DeviceOptions::default();
        device.name = self.name.unwrap_or(device.name);
        device.memory_bytes = self.memory_bytes.unwrap_or(device.memory_bytes);
        device.compute_capability = self.compute_capability.unwrap_or(device.compute_capability);
        device.multiprocessors = self.multiprocessors.unwrap_or(device.multiprocessors);
        device
    }
}

impl WrittenFault {
    fn fault(&self) -> Result<Fault, String> {
        let status = status(&self.status)?;
        let mut fault = Fault::new(match self.effect {
            WrittenEffect::Refused => Effect::Refused(status),
            WrittenEffect::DoneButFailed => Effect::DoneButFailed(status),
            WrittenEffect::StickyFromHere => Effect::StickyFromHere(status),
        });
        if let Some(name) = &self.call {
            fault = match (Function::by_name(name), Call::by_symbol(name)) {
                (Some(function), _) => fault.on_function(function.name),
                (None, Some(form)) => fault.on(form),
                (None, None) => {
                    return Err(format!("a fault names {name}, which isn't a function"));
                }
            };
        }
        match self.nth {
            Some(0) => Err("a fault's `nth` is counted from 1".to_owned()),
            Some(nth) => Ok(fault.nth(nth)),
            None => Ok(fault),
        }
    }
}

/// The status of this name.
fn status(name: &str) -> Result<CUresult, String> {
    let full = |status: &CUresult| status.name().unwrap_or_default();
    let is_it = |status: &&CUresult| {
        full(status) == name || full(status).strip_prefix("CUDA_ERROR_") == Some(name)
    };
    let known = CUresult::KNOWN.iter().find(is_it);
    known.copied().ok_or_else(|| format!("a fault's status is {name}, which isn't one"))
}

/// A variable; an empty one counts as not set.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn number(name: &str) -> Result<Option<u64>, String> {
    let Some(value) = variable(name) else { return Ok(None) };
    let text = value.to_string_lossy();
    let parsed = text.parse().map_err(|e| format!("{name} is `{text}`: {e}"));
    parsed.map(Some)
}
