//! The compilers' handles: programs of NVRTC and NVVM, links of nvJitLink.

use cuhold_handles::{NvJitLink, NvJitLinkInput, NvrtcProgram, NvvmProgram};
use cuhold_testkit::Run;

fn nvrtc(run: &Run<'_>) -> NvrtcProgram {
    NvrtcProgram::new(run.driver(), &run.nvrtc(), "", None, &[]).unwrap()
}

fn nvvm(run: &Run<'_>) -> NvvmProgram {
    NvvmProgram::new(run.driver(), &run.nvvm()).unwrap()
}

fn link(run: &Run<'_>) -> NvJitLink {
    NvJitLink::new(run.driver(), &run.nvjitlink(), &["-arch=sm_90"]).unwrap()
}

cuhold_testkit::enrol! {
    NvrtcProgram::new |run| {
        let api = run.nvrtc();
        run.create(|| NvrtcProgram::new(run.driver(), &api, "", Some("a.cu"), &[("b.h", "")]));
    }

    NvrtcProgram::close |run| {
        let program = nvrtc(run);
        drop(run.keep_or(run.op(|| program.close())));
    }

    NvrtcProgram::drop |run| {
        let program = nvrtc(run);
        run.op(|| drop(program));
    }

    NvvmProgram::new |run| {
        let api = run.nvvm();
        run.create(|| NvvmProgram::new(run.driver(), &api));
    }

    NvvmProgram::add_module |run| {
        let mut program = nvvm(run);
        run.repeat(|| program.add_module(b"code", "a module"));
    }

    NvvmProgram::compile |run| {
        let mut program = nvvm(run);
        run.repeat(|| program.compile(&["-arch=compute_90"]));
    }

    NvvmProgram::log |run| {
        let program = nvvm(run);
        run.repeat(|| program.log());
    }

    NvvmProgram::close |run| {
        let program = nvvm(run);
        drop(run.keep_or(run.op(|| program.close())));
    }

    NvvmProgram::drop |run| {
        let program = nvvm(run);
        run.op(|| drop(program));
    }

    NvJitLink::new |run| {
        let api = run.nvjitlink();
        run.create(|| NvJitLink::new(run.driver(), &api, &["-arch=sm_90"]));
    }

    NvJitLink::add_data |run| {
        let mut link = link(run);
        run.repeat(|| link.add_data(NvJitLinkInput::Ptx, b"code", "an input"));
    }

    NvJitLink::complete |run| {
        let mut link = link(run);
        run.repeat(|| link.complete());
    }

    NvJitLink::error_log |run| {
        let link = link(run);
        run.repeat(|| link.error_log());
    }

    NvJitLink::close |run| {
        let link = link(run);
        drop(run.keep_or(run.op(|| link.close())));
    }

    NvJitLink::drop |run| {
        let link = link(run);
        run.op(|| drop(link));
    }
}
