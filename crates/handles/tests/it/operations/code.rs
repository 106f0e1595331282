//! Code: libraries and their kernels, modules and their functions.

#![expect(unsafe_code, reason = "launches kernels")]

use cuhold_handles::{
    Context, ContextFlags, DeviceMemory, LaunchConfig, Library, Module, PerThreadStream,
    driver_sys::ffi::CUfunction_attribute,
};
use cuhold_testkit::{PTX, Run};

/// A module whose kernels the simulated driver knows.
fn module(run: &Run<'_>) -> Module {
    drop(run.kernels());
    Module::load(run.context(), PTX).unwrap()
}

cuhold_testkit::enrol! {
    Library::load |run| {
        run.create(|| Library::load(run.context(), PTX));
    }

    Library::kernel |run| {
        let library = run.kernels();
        run.repeat(|| library.kernel("fill"));
    }

    Library::close |run| {
        let library = run.kernels();
        drop(run.keep_or(run.op(|| library.close())));
    }

    Library::drop |run| {
        let library = run.kernels();
        run.op(|| drop(library));
    }

    Kernel::attribute |run| {
        let kernel = run.kernel("nop");
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        run.repeat(|| kernel.attribute(run.device(), attribute));
    }

    Kernel::launch |run| {
        let (kernel, per_thread) = (run.kernel("fill"), PerThreadStream::new(run.context()));
        let context = Context::new(run.device(), ContextFlags::default()).unwrap();
        let memory = DeviceMemory::new(&context, 64).unwrap();
        let (one, args) = (LaunchConfig::for_len(1), (&memory, 7_u32, 16_u32));
        let stream = run.stream();
        // A stream that can't be asked later is marked by an event.
        if stream.is_exposed() && !stream.is_token() {
            // SAFETY: the memory has 16 words and remembers who uses it.
            run.repeat(|| unsafe { kernel.launch(&per_thread, one, args) });
        } else {
            // SAFETY: as above.
            run.repeat(|| unsafe { kernel.launch(stream, one, args) });
        }
    }

    Module::load |run| {
        run.create(|| Module::load(run.context(), PTX));
    }

    Module::function |run| {
        let module = module(run);
        run.repeat(|| module.function("fill"));
    }

    Module::close |run| {
        let module = module(run);
        drop(run.keep_or(run.op(|| module.close())));
    }

    Module::drop |run| {
        let module = module(run);
        run.op(|| drop(module));
    }

    Function::launch |run| {
        let function = module(run).function("fill").unwrap();
        let per_thread = PerThreadStream::new(run.context());
        let context = Context::new(run.device(), ContextFlags::default()).unwrap();
        let memory = DeviceMemory::new(&context, 64).unwrap();
        let (one, args) = (LaunchConfig::for_len(1), (&memory, 7_u32, 16_u32));
        let stream = run.stream();
        if stream.is_exposed() && !stream.is_token() {
            // SAFETY: the memory has 16 words and remembers who uses it.
            run.repeat(|| unsafe { function.launch(&per_thread, one, args) });
        } else {
            // SAFETY: as above.
            run.repeat(|| unsafe { function.launch(stream, one, args) });
        }
    }
}
