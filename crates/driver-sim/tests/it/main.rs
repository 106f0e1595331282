//! The simulated driver, asked as the real one was: names of tests are what it does.

#![expect(unsafe_code, reason = "driver calls are C functions")]
#![expect(clippy::unwrap_used, reason = "a test's set-up")]

mod ask;
mod asynchrony;
mod audit;
mod capture;
mod capture_rules;
mod code;
mod context;
mod copy;
mod device;
mod driver;
mod dump;
mod event;
mod external;
mod fault;
mod graph;
mod graph_conditional;
mod graph_edges;
mod graph_exec;
mod graph_kit;
mod graph_memory;
mod graph_nodes;
mod graph_run;
mod graph_update;
mod green;
mod image;
mod launch;
mod link;
mod log;
mod managed;
mod managed_batch;
mod memory;
mod model;
mod model_memory;
mod page_locked;
mod peer;
mod planted;
mod planted_correct;
mod planted_faults;
mod pointer;
mod pool;
mod pool_end;
mod pool_place;
#[cfg(unix)]
mod pool_process;
mod process;
mod random;
mod stream;
mod value;
mod virtual_memory;

#[test]
fn no_file_of_tests_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for entry in std::fs::read_dir(here).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let named = include_str!("main.rs").contains(&format!("mod {name};"));
        assert!(name == "main" || named, "{name}.rs isn't a module of main.rs");
    }
}
