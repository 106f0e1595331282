//! Events between processes: exported by a handle of 64 bytes, opened by it elsewhere.
//!
//! Using an opened event after its process has destroyed it is undefined. So what exports it is a token that keeps the
//! event: it is held as long as any other process may use it.
//!
//! Source: CUDA Driver API 13.x, "Event Management", `cuIpcGetEventHandle`.

#![expect(unsafe_code, reason = "calls the driver's event functions")]

use crate::{
    context::Context,
    error::{Error, Result},
    event::Event,
    object::ObjectKind,
    resource::Handle,
    scope,
};
use cuhold_driver_sys::{Call, Calls, ffi::*};

/// What names an event to another process: 64 bytes to send as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventHandle([u8; 64]);

impl EventHandle {
    /// The bytes to send.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }

    /// The handle that was received as these bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }
}

/// An event that other processes may have open: a token that keeps it alive. Clones keep it, too.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[must_use = "the event must live as long as another process uses it"]
pub struct ExportedEvent {
    event: Event,
    handle: EventHandle,
}

impl ExportedEvent {
    /// What another process opens it by.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn handle(&self) -> EventHandle {
        self.handle
    }

    /// The event.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl Event {
    /// Lets other processes open the event, as long as the token is held.
    ///
    /// Calls `cuIpcGetEventHandle`.
    ///
    /// # Errors
    /// An event of another kind than [`EventOptions::interprocess`](crate::EventOptions::interprocess) is refused, one
    /// of another process, too; the call's failure, or that of making the context current and the caller's again.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver, Event, EventHandle, EventOptions};
    /// # use cuhold_driver_sim::{Sim, SimOptions};
    /// # let here = Sim::new();
    /// # let there = here.other_process(SimOptions::default());
    /// # let (here, there) = (Driver::from_api(here), Driver::from_api(there));
    /// // In one process:
    /// let event = Device::with_driver(&here, 0)?.new_event(EventOptions::interprocess())?;
    /// let token = event.export()?;
    /// let sent: [u8; 64] = token.handle().to_bytes();
    /// // In another:
    /// let device = Device::with_driver(&there, 0)?;
    /// let imported = Event::import(device.context(), EventHandle::from_bytes(sent))?;
    /// device.new_stream()?.wait_event(&imported)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuIpcGetEventHandle")]
    pub fn export(&self) -> Result<ExportedEvent> {
        let kind = self.kind();
        // Which kind a raw event is, only the driver knows.
        let is_refused = match kind {
            ObjectKind::InterprocessEvent => false,
            ObjectKind::ImportedEvent => true,
            _ => !self.is_raw(),
        };
        if is_refused {
            return Err(Error::argument(format!(
                "self: {kind}, and only an interprocess event of this process is exported"
            )));
        }
        let mut handle = CUipcEventHandle::default();
        scope::run(self.context().target(), |calls| {
            // SAFETY: *pointers*: a live local; *handles*: this handle's event.
            unsafe { calls.cuIpcGetEventHandle(&raw mut handle, self.raw()) }
        })?;
        let handle = EventHandle(handle.reserved.map(|byte| byte.to_ne_bytes()[0]));
        Ok(ExportedEvent { event: self.clone(), handle })
    }

    /// Opens an event of another process. It marks work of both, and has no timing.
    ///
    /// Calls `cuIpcOpenEventHandle`; `cuEventDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure, such as `INVALID_CONTEXT` for what this process itself exported; that of making the context
    /// current and the caller's again.
    #[doc(alias = "cuIpcOpenEventHandle")]
    pub fn import(context: &Context, handle: EventHandle) -> Result<Self> {
        let raw_handle =
            CUipcEventHandle { reserved: handle.0.map(|byte| c_char::from_ne_bytes([byte])) };
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUevent::NULL;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuIpcOpenEventHandle(&raw mut raw, raw_handle) }?;
            Ok(raw)
        };
        let handle = Handle::create(Call::cuIpcOpenEventHandle, context.clone(), make)?;
        Ok(Self::imported(handle))
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ExportedEvent>();
};
