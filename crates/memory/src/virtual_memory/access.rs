//! Who may use a buffer of virtual memory, changed later.

use super::{
    VirtualBuffer,
    options::check_peers,
    range::{Grants, Range, undone},
};
use bytemuck::Pod;
use cuhold_handles::{Access, Accessor, Device, Error, Mapping, Result, driver_sys::mutant};

impl<T: Pod> VirtualBuffer<T> {
    /// Says what each of these devices may do with the buffer from here on: the whole list or nothing. Devices that aren't
    /// in it keep what they had.
    ///
    /// What is taken away isn't taken from running work: if a device is to have less than before, this waits for what is
    /// queued on the home stream, and on every stream that was told to the buffer ([`used_on`](Self::used_on)). Work of
    /// other streams that needs it must be done by then.
    ///
    /// Access is that of the addresses: buffers that share these, because one was grown in place from the other, share it;
    /// where the memory is mapped a second time, each mapping has its own.
    ///
    /// Calls `cuMemSetAccess`, for another device `cuDeviceCanAccessPeer`; where less is given, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize`, `cuEventDestroy`, for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): an empty list, a device that stands in it twice, is of
    ///   another driver, or can't reach the memory; no access for the home stream's own device;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures a stream that has to be waited for;
    /// - the calls' failures; what was changed by then is changed back, and where that fails a note says so.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_driver_sim::{Sim, SimOptions};
    /// # use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions};
    /// # use cuhold_memory::handles::{Access, Device, Driver};
    /// # let driver = Driver::from_api(Sim::with_options(SimOptions::with_devices(2)));
    /// # let (device, other) = (Device::with_driver(&driver, 0)?, Device::with_driver(&driver, 1)?);
    /// # let stream = device.new_stream()?;
    /// let memory = VirtualMemory::new(&device, VirtualMemoryOptions::default())?;
    /// let mut buffer = VirtualBuffer::<u8>::zeroed(&memory, &stream, 100)?;
    /// buffer.set_access(&[(&other, Access::Read)])?;
    /// assert_eq!(buffer.access(&other)?, Access::Read);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemSetAccess")]
    pub fn set_access(&mut self, list: &[(&Device, Access)]) -> Result<()> {
        let driver = self.driver();
        driver.check_callable()?;
        if list.is_empty() {
            return Err(Error::argument("list: it is empty, and at least one entry is needed"));
        }
        let own = self.stream().context().device();
        for (place, (device, access)) in list.iter().enumerate() {
            driver.check_same(device.driver(), "list")?;
            if list.iter().take(place).any(|(other, _)| other == device) {
                return Err(Error::argument(format!(
                    "list: device {} stands in it twice",
                    device.ordinal()
                )));
            }
            if device.as_raw() == own && *access == Access::None {
                return Err(Error::argument(
                    "list: the home stream's device can't be left without",
                ));
            }
        }
        let peers: Vec<(Device, Access)> =
            list.iter().map(|(device, access)| ((*device).clone(), *access)).collect();
        check_peers(&self.spec().device, &peers)?;
        let list: Grants =
            peers.into_iter().map(|(device, access)| (Accessor::Device(device), access)).collect();
        let Some(range) = self.range() else { return Ok(()) };
        if takes_away(&range, &list) && !mutant::is_out("access-wait") {
            range.used_on(self.stream())?;
            range.for_each(Mapping::wait)?;
        }
        set(&range, &list)
    }

    /// What a device may do with the buffer; of a buffer without bytes, nothing.
    ///
    /// Calls `cuMemGetAccess`.
    ///
    /// # Errors
    /// A device of another driver; the call's failure.
    #[doc(alias = "cuMemGetAccess")]
    pub fn access(&self, device: &Device) -> Result<Access> {
        self.driver().check_same(device.driver(), "device")?;
        let range = self.range();
        let first = range.as_ref().and_then(|range| range.parts().first());
        first.map_or(Ok(Access::None), |part| part.access(device))
    }
}

/// Whether somebody would have less than before.
fn takes_away(range: &Range, list: &Grants) -> bool {
    range.parts().iter().any(|part| {
        let granted = part.granted();
        granted.iter().any(|(accessor, before)| {
            list.iter().any(|(other, access)| other == accessor && access < before)
        })
    })
}

/// Sets it for every mapping, or, where one refuses, for none.
fn set(range: &Range, list: &Grants) -> Result<()> {
    let before: Vec<Grants> = range.parts().iter().map(Mapping::granted).collect();
    for (place, part) in range.parts().iter().enumerate() {
        let Err(error) = part.set_access_list(list) else { continue };
        if mutant::is_out("access-undo") {
            return Err(error);
        }
        let changed = range.parts().iter().zip(&before).take(place);
        return Err(changed.rev().fold(error, |error, (part, before)| {
            undone(error, part.set_access_list(&former(list, before)))
        }));
    }
    Ok(())
}

/// What those in a list had before.
fn former(list: &Grants, before: &Grants) -> Grants {
    let had = |accessor: &Accessor| {
        before.iter().find(|(known, _)| known == accessor).map_or(Access::None, |(_, had)| *had)
    };
    list.iter().map(|(accessor, _)| (accessor.clone(), had(accessor))).collect()
}
