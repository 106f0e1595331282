//! One level of a mipmapped array.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

#![expect(unsafe_code, reason = "calls the driver's mipmapped array functions")]

use super::{ArrayDesc, MipmappedArray, describe};
use crate::{
    context::Context,
    driver::Driver,
    error::Result,
    object::ObjectKind,
    resource::{Owned, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::sync::Arc;

/// The resource behind [`ArrayLevel`].
#[derive(Debug)]
pub(crate) struct LevelRes;

// SAFETY: *ends*: nothing: a level ends with its mipmapped array. *Dependencies*: that array.
unsafe impl Resource for LevelRes {
    type Raw = CUarray;
    type Deps = Arc<MipmappedArray>;
    const KIND: ObjectKind = ObjectKind::ArrayLevel;
    const DESTROY: Option<Call> = None;

    fn driver(deps: &Arc<MipmappedArray>) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Arc<MipmappedArray>) -> CUcontext {
        deps.context().as_raw()
    }
    unsafe fn destroy(_: Calls<'_>, _: CUarray, _: &Arc<MipmappedArray>) -> Result<(), Failure> {
        Ok(())
    }
}

/// One level of a mipmapped array, which it keeps alive and with which it ends. The driver gives the same handle for the
/// same level each time.
pub struct ArrayLevel(Owned<LevelRes>);

impl ArrayLevel {
    /// A level of the array; 0 is the largest.
    ///
    /// Calls `cuMipmappedArrayGetLevel`.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` where the array hasn't so many levels.
    #[doc(alias = "cuMipmappedArrayGetLevel")]
    pub fn new(array: &Arc<MipmappedArray>, level: u32) -> Result<Self> {
        let make = |calls: Calls<'_>, array: &Arc<MipmappedArray>| {
            let mut raw = CUarray::NULL;
            // SAFETY: *pointers*: `raw` is a live local; *handles*: the array is held.
            unsafe { calls.cuMipmappedArrayGetLevel(&raw mut raw, array.as_raw(), level) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuMipmappedArrayGetLevel, Arc::clone(array), make)?))
    }

    /// The mipmapped array.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn mipmapped(&self) -> &Arc<MipmappedArray> {
        self.0.deps()
    }

    /// The context that the mipmapped array was made in.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().context()
    }

    /// What the level is made of, as the driver tells it.
    ///
    /// Calls `cuArray3DGetDescriptor`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuArray3DGetDescriptor")]
    pub fn desc(&self) -> Result<ArrayDesc> {
        describe(self.driver(), self.as_raw())
    }
}

forms! {
    ArrayLevel(Owned<LevelRes>): CUarray, "level of a mipmapped array",
    (array: &Arc<MipmappedArray>) => Arc::clone(array)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ArrayLevel>();
};
