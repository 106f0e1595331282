//! Code: libraries and their kernels, modules and their functions.

#![expect(unsafe_code, reason = "launches kernels")]

use cuhold_handles::{LaunchConfig, Library, Module, driver_sys::ffi::CUfunction_attribute};
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
        let kernel = run.kernel("nop");
        // SAFETY: the kernel has no parameters and touches no memory.
        run.repeat(|| unsafe { kernel.launch(run.stream(), LaunchConfig::for_len(1), ()) });
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
        let function = module(run).function("nop").unwrap();
        // SAFETY: the kernel has no parameters and touches no memory.
        run.repeat(|| unsafe { function.launch(run.stream(), LaunchConfig::for_len(1), ()) });
    }
}
