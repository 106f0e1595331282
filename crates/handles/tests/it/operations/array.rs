//! Arrays, mipmapped arrays and their levels.

use super::memory::{foreign, per_thread};
use cuhold_handles::{Array, ArrayDesc, ArrayFormat, ArrayLevel, MipmappedArray};
use cuhold_testkit::{NowCurrent, Run};
use std::sync::Arc;

/// A description of a flat array, or of one with a depth.
fn desc(depth: usize) -> ArrayDesc {
    let format = ArrayFormat::F32;
    match depth {
        0 => ArrayDesc::flat(16, 8, format, 1).unwrap(),
        depth => ArrayDesc::solid([16, 8, depth], format, 1).unwrap(),
    }
}

fn mipmapped(run: &Run<'_>) -> MipmappedArray {
    MipmappedArray::new(run.context(), &desc(0), 3).unwrap()
}

cuhold_testkit::enrol! {
    Array::new |run| {
        // Both of its calls, by the situation.
        let desc = desc(if run.now_current() == NowCurrent::Nothing { 4 } else { 0 });
        run.create(|| Array::new(run.context(), &desc));
    }

    Array::desc |run| {
        let array = Array::new(run.context(), &desc(0)).unwrap();
        run.repeat(|| array.desc());
    }

    Array::used_on |run| {
        let (array, stream) = (Array::new(run.context(), &desc(0)).unwrap(), per_thread(run));
        run.repeat(|| array.used_on(&stream));
    }

    Array::close |run| {
        let array = Array::new(run.context(), &desc(0)).unwrap();
        let stream = foreign(run);
        array.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| array.close())));
    }

    Array::drop |run| {
        let array = Array::new(run.context(), &desc(0)).unwrap();
        let stream = foreign(run);
        array.used_on(&stream).unwrap();
        run.op(|| drop(array));
    }

    MipmappedArray::new |run| {
        run.create(|| MipmappedArray::new(run.context(), &desc(0), 3));
    }

    MipmappedArray::used_on |run| {
        let (array, stream) = (mipmapped(run), per_thread(run));
        run.repeat(|| array.used_on(&stream));
    }

    MipmappedArray::close |run| {
        let array = mipmapped(run);
        let stream = foreign(run);
        array.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| array.close())));
    }

    MipmappedArray::drop |run| {
        let array = mipmapped(run);
        let stream = foreign(run);
        array.used_on(&stream).unwrap();
        run.op(|| drop(array));
    }

    ArrayLevel::new |run| {
        let array = Arc::new(mipmapped(run));
        run.create(|| ArrayLevel::new(&array, 1));
    }

    ArrayLevel::desc |run| {
        let level = ArrayLevel::new(&Arc::new(mipmapped(run)), 1).unwrap();
        run.repeat(|| level.desc());
    }
}
