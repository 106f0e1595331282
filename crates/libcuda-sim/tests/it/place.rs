//! Where the library is, and running one test in a process that finds it as its driver.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A call of the driver, of which everything that it names is the test's own.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let calls = $calls;
        // SAFETY: *pointers*, *handles*, *calls back*: all of the test's own, alive, and as the function asks for them; the
        // simulated driver survives a handle that ended.
        unsafe { calls.$name($($argument),*) }
    }};
}
pub(crate) use call;

const MARK: &str = "CUHOLD_TEST_ALONE";

/// What decides which driver is found and what it is like: not inherited.
const DECISIVE: [&str; 8] = [
    "CUHOLD_LIBCUDA",
    "CUHOLD_SIM_PLAN",
    "CUHOLD_SIM_SEED",
    "CUHOLD_SIM_DEVICES",
    "CUHOLD_SIM_BACKGROUND",
    "CUHOLD_SIM_LOG",
    "CUHOLD_SIM_REPORT",
    "LD_LIBRARY_PATH",
];

/// The library that cargo built with this test.
pub(crate) fn built() -> PathBuf {
    let here = env::current_exe().unwrap();
    here.parent().unwrap().join("libcuhold_libcuda_sim.so")
}

/// A folder with the library under the driver's name and nothing else.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();

    FOLDER.get_or_init(|| {
        let folder = fresh("libcuda");
        fs::copy(built(), folder.join("libcuda.so.1")).unwrap();
        folder
    })
}

/// A new folder among the temporary files of this build.
pub(crate) fn fresh(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);

    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("{name}-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A test that runs again in a process of its own, where the dynamic linker finds the library as `libcuda.so.1`.
pub(crate) struct Program(Command);

impl Program {
    /// `test` is the calling test with its module: `loaded::our_layers_…`.
    pub(crate) fn new(test: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1", "--nocapture"]).env(MARK, test);
        for variable in DECISIVE {
            command.env_remove(variable);
        }
        command.env("LD_LIBRARY_PATH", folder());
        Self(command)
    }

    /// Sets a variable there.
    pub(crate) fn with(mut self, variable: &str, value: impl AsRef<Path>) -> Self {
        self.0.env(variable, value.as_ref());
        self
    }

    /// Has it read this plan.
    pub(crate) fn with_plan(self, json: &str) -> Self {
        let plan = fresh("plan").join("plan.json");
        fs::write(&plan, json).unwrap();
        self.with("CUHOLD_SIM_PLAN", plan)
    }

    /// Runs it; the test must pass there. Gives what it wrote to its standard error.
    pub(crate) fn run(mut self) -> String {
        let Output { status, stdout, stderr } = self.0.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success() && stdout.contains("1 passed"), "{status}:\n{stdout}{stderr}");
        stderr.into_owned()
    }
}

/// Whether this is the process of its own of that test.
pub(crate) fn is_program(test: &str) -> bool {
    env::var_os(MARK).is_some_and(|mark| mark == test)
}
