//! The driver's linker.

use cuhold_handles::{LinkInput, LinkOptions, LinkState};
use cuhold_testkit::{PTX, Run};

fn link(run: &Run<'_>) -> LinkState {
    LinkState::new(run.context(), LinkOptions::default()).unwrap()
}

/// A file with the test kernels; read, never changed.
fn file() -> std::path::PathBuf {
    let thread = std::thread::current().id();
    let name = format!("cuhold-link-{}-{thread:?}.ptx", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, PTX).unwrap();
    path
}

cuhold_testkit::enrol! {
    LinkState::new |run| {
        run.create(|| LinkState::new(run.context(), LinkOptions::default()));
    }

    LinkState::add_data |run| {
        let mut link = link(run);
        run.keep(run.op(|| link.add_data(LinkInput::Ptx, PTX.as_bytes(), "kernels")));
    }

    LinkState::add_file |run| {
        let (mut link, path) = (link(run), file());
        run.keep(run.op(|| link.add_file(LinkInput::Ptx, &path)));
        std::fs::remove_file(path).unwrap();
    }

    LinkState::complete |run| {
        let mut link = link(run);
        link.add_data(LinkInput::Ptx, PTX.as_bytes(), "kernels").unwrap();
        run.keep(run.op(|| link.complete().map(<[u8]>::len)));
    }

    LinkState::close |run| {
        let link = link(run);
        drop(run.keep_or(run.op(|| link.close())));
    }

    LinkState::drop |run| {
        let link = link(run);
        run.op(|| drop(link));
    }
}
