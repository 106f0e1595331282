//! The compiler as a value, and compiled code.

use cuhold::{CompileOptions, Compiler, Output, Program};
use cuhold_testkit::{NowCurrent, Run};

fn compiler(run: &Run<'_>) -> Compiler {
    Compiler::from_api(run.nvrtc())
}

/// With nothing current code for the device, else PTX.
fn options(run: &Run<'_>) -> CompileOptions<'static> {
    let options = CompileOptions::new().name_expressions(&["fill<unsigned>"]);
    match run.now_current() {
        NowCurrent::Nothing => options,
        _ => options.output(Output::Ptx),
    }
}

fn program(run: &Run<'_>) -> Program {
    compiler(run).compile(run.device(), "", options(run)).unwrap()
}

cuhold_testkit::enrol! {
    Compiler::version |run| {
        let compiler = compiler(run);
        run.repeat(|| compiler.version());
    }

    Compiler::architectures |run| {
        let compiler = compiler(run);
        run.repeat(|| compiler.architectures());
    }

    Compiler::compile |run| {
        let compiler = compiler(run);
        run.create(|| compiler.compile(run.device(), "", options(run)));
    }

    Program::kernel |run| {
        let (program, library) = (program(run), run.kernels());
        run.repeat(|| program.kernel(&library, "fill<unsigned>"));
    }
}
